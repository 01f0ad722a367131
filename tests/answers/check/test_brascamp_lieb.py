"""Draws that are wider than a prior that no posterior is wider than."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check.brascamp_lieb import PriorMoments, prior_moments, too_wide
from ewsg_jax.answers.check.draws import draws_of

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((4, 400, 3))
DATA = {"x": np.eye(3)[np.arange(9) % 3], "y": (np.arange(9) % 2).astype(float)}
PRECISION = np.array([[2.0, 0.8, 0.0], [0.8, 1.0, 0.3], [0.0, 0.3, 0.5]])


def normal_prior(position):
    return -0.5 * position @ jnp.asarray(PRECISION, position.dtype) @ position + position[0]


def logistic(position, row):
    return jax.nn.log_sigmoid((2 * row["y"] - 1) * (row["x"] @ position))


def widths(posterior, temperature=1.0):
    return prior_moments(posterior, draws_of(NORMAL, None, 1000), temperature).sd


def test_the_prior_of_ones_own_is_its_inverse_curvature():
    found = widths(ewsg.Posterior(logistic, normal_prior, log_concave=True), 4.0)
    np.testing.assert_allclose(found, 2 * np.sqrt(np.diag(np.linalg.inv(PRECISION))), rtol=1e-5)
    shrunk = ewsg.models.logistic_regression(prior_scale=2.0).transformed(
        ewsg.bijectors.affine(np.ones(3), 4.0)
    )
    np.testing.assert_allclose(widths(shrunk), 2.0 / 4.0**0.5, rtol=1e-5)


@pytest.mark.parametrize(
    "posterior",
    [
        ewsg.Posterior(logistic, lambda w: -jnp.sum(jnp.sqrt(1 + w**2)), log_concave=True),
        ewsg.Posterior(logistic, lambda w: -jnp.sum(w[:2] ** 2), log_concave=True),
        ewsg.models.logistic_regression(prior_scale=np.inf),
        ewsg.Posterior(logistic, lambda w: jnp.sum(jnp.log(w))),
    ],
    ids=["no normal prior", "flat in a direction", "flat", "not finite"],
)
def test_where_nothing_is_known(posterior):
    assert prior_moments(posterior, draws_of(NORMAL, None, 1000), 1.0) is None


def test_a_prior_is_looked_at_on_both_sides_of_the_draws():
    """A mixture, whose second normal is on the other side than the farthest draw."""
    draws = NORMAL[:, :, :1].copy()
    draws[0, 0] = -6.0
    for center, is_known in ((6.0, False), (1_000.0, True)):
        prior = ewsg.Posterior(
            logistic, lambda w, c=center: jnp.sum(jnp.logaddexp(-(w**2) / 2, -((w - c) ** 2) / 2))
        )
        assert (prior_moments(prior, draws_of(draws, None, 4_000), 1.0) is not None) is is_known


@pytest.mark.full
def test_what_is_impossible_is_said_and_what_may_be_chance_is_not():
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    report = ewsg.check(KEY, NORMAL * [0.7, 3.0, 0.8], model, DATA)
    assert report.outcome == "wrong"
    assert report.impossible.startswith("impossible: 2.93 ± 0.0")
    assert "(position[1])" in report.impossible
    assert report.impossible in report.verdict
    apart = ewsg.check(
        KEY, NORMAL * [0.7, 3.0, 0.8] + 9.0 * np.arange(4)[:, None, None], model, DATA
    )
    assert "chains do not agree" in apart.verdict
    assert apart.impossible in apart.verdict
    assert apart.impossible
    possible = ewsg.check(KEY, NORMAL * 0.9, model, DATA)
    assert possible.impossible == ""


def test_draws_of_the_prior_are_seldom_impossible():
    """At 2 %, of 100 more than ten are rarer than 1e-5; a fifth wider than the prior they are
    called so.
    """
    found = dict.fromkeys((1.0, 1.2), 0)
    for _ in range(100):
        values = RNG.standard_normal((4, 250, 5))
        for scale in found:
            draws = draws_of(values * scale, None, 1000)
            found[scale] += bool(too_wide(draws, PriorMoments(np.zeros(5), np.ones(5)), 1e-9, 0.02))
    assert found[1.0] <= 10
    assert found[1.2] >= 90


def test_without_a_log_concave_likelihood_nothing_is_impossible():
    wide = NORMAL * [0.7, 3.0, 0.8]
    assert ewsg.check(
        KEY, wide, ewsg.Posterior(logistic, normal_prior, log_concave=True), DATA
    ).impossible
    assert not ewsg.check(KEY, wide, ewsg.Posterior(logistic, normal_prior), DATA).impossible


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_the_mean_of_a_prior_is_where_its_slope_is_none(temperature):
    """By typed numbers: −θᵀPθ/2 + θ₀ is largest at P⁻¹e₀."""
    posterior = ewsg.Posterior(logistic, normal_prior)
    found = prior_moments(posterior, draws_of(NORMAL + 5.0, None, 1000), temperature)
    np.testing.assert_allclose(found.mean, np.linalg.inv(PRECISION)[:, 0], rtol=1e-4, atol=1e-4)


def test_what_is_far_from_the_prior_is_named():
    """Labels of 1 and 2 in the place of 0 and 1: the log odds go as far as the prior lets them."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(500, 3)) * [0.0, 1.0, 0.0] + [1.0, 0.0, 0.0]
    y = rng.integers(0, 2, size=500)

    def log_likelihood(w, row):
        logit = row["x"] @ w
        return row["y"] * logit - jax.nn.softplus(logit)

    posterior = ewsg.Posterior(log_likelihood, lambda w: -0.5 * jnp.sum((w - 1.0) ** 2))
    kernel = ewsg.ld(posterior, 2e-3)
    for labels in (y, y + 1):
        rows = {"x": x, "y": labels}
        run = {"num_chains": 4, "burn_in": 200}
        samples = ewsg.sample(KEY, kernel, jnp.zeros(3), rows, 1_000, **run)
        note = ewsg.check(KEY, samples, posterior, rows).note
        assert ("far from the prior: position[0] (some " in note) is bool(labels.max() == 2)
        assert "position[2] (" not in note


@pytest.mark.parametrize("seen", [(), (1,), (0, 2)])
def test_what_is_as_wide_as_the_prior_is_named(seen):
    """Rows that say nothing of some coordinates: their posterior is the prior."""
    x = np.random.default_rng(1).normal(size=(400, 3))
    x[:, list(seen)] = 0.0
    rows = {"x": x, "y": x @ [0.5, 0.2, -1.0] + np.random.default_rng(2).normal(size=400)}
    model = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=2.0)
    mode = ewsg.find_mode(KEY, model, jnp.zeros(3), rows)
    draws = jax.vmap(jax.vmap(lambda key: mode.start(key, 1.0)))(jax.random.split(KEY, (4, 1_000)))
    report = ewsg.check(KEY, draws, model, rows)
    assert bool(report.note) is bool(seen)
    for k in range(3):
        assert (f"position[{k}]" in report.note) is (k in seen)
    assert (f"note: {report.note}" in repr(report)) is bool(seen)
