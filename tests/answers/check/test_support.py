"""Draws where density and gradient are 0: edges, data-set supports, orders and simplices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.answers.plan.pilot_run import PilotRun
from ewsg_jax.model_checks.support import outside_by_batches

KEY = jax.random.key(0)
RNG = np.random.default_rng(11)
ROWS = np.zeros((4, 1))
ZERO = RNG.standard_normal((4, 200, 2))


def unit(position, row):
    return 0.0 * row[0] + 0.0 * jnp.sum(position)


WALLS = {
    "a truncated normal": lambda w: jnp.where(w[0] > 0, -0.5 * jnp.sum(w**2), -jnp.inf),
    "an order": lambda w: jnp.where(w[0] < w[1], -0.5 * jnp.sum(w**2), -jnp.inf),
    "a simplex": lambda w: jnp.where((w > 0).all() & (w.sum() < 1), 0.0, -jnp.inf),
    "a half plane": lambda w: jnp.where(w[1] > -1, -0.5 * jnp.sum(w**2), -jnp.inf),
}
INSIDE = {
    "a truncated normal": lambda w: w[..., 0] > 0,
    "an order": lambda w: w[..., 0] < w[..., 1],
    "a simplex": lambda w: (w > 0).all(-1) & (w.sum(-1) < 1),
    "a half plane": lambda w: w[..., 1] > -1,
}


@pytest.mark.usual_parameters("a half plane")
@pytest.mark.parametrize("name", WALLS)
def test_draws_outside_a_prior_are_counted_and_wrong(name):
    report = ewsg.check(KEY, ZERO, ewsg.Posterior(unit, WALLS[name]), ROWS)
    share = 100 * (1 - INSIDE[name](ZERO).mean())
    assert report.outcome == "wrong"
    assert report.outside == f"{share:.3g} % of draws where log_prior is -inf or NaN"
    assert report.verdict.startswith(report.outside)
    assert "give bounded parameters a bijector" in report.verdict
    assert report.corrected is None
    with pytest.raises(ValueError, match="log_prior is -inf"):
        report.expectation(lambda w: w)


@pytest.mark.usual_parameters("an order")
@pytest.mark.parametrize("name", ["a truncated normal", "an order"])
def test_draws_inside_are_not_called_outside(name):
    """They are right; that the identities do not hold at the edge says nothing against them."""
    inside = np.stack([each[INSIDE[name](each)][:60] for each in ZERO])
    report = ewsg.check(KEY, inside, ewsg.Posterior(unit, WALLS[name]), ROWS)
    assert report.outside == ""
    assert report.outcome == "unsure"
    assert report.verdict.startswith("the density ends among the draws, and is not 0 where it ends")


def inside(log_density):
    """A log prior that ends at 0."""
    return lambda w: jnp.sum(jnp.where(w > 0, log_density(jnp.where(w > 0, w, 1.0)), -jnp.inf))


NORMAL = RNG.normal(size=(8, 1_200, 1))
AT = np.stack([each[each[:, 0] > -2][:1_000] for each in NORMAL])
ENDS = {
    # a log prior, a log likelihood, draws of their law, whether it is cut off where these are
    "a normal law, two widths from its mean": (
        lambda w: jnp.sum(jnp.where(w > -2, -(w**2) / 2, -jnp.inf)),
        unit,
        AT,
        True,
    ),
    "the same by a number as good as -inf": (
        lambda w: jnp.sum(jnp.where(w > -2, -(w**2) / 2, -1e30)),
        unit,
        AT,
        True,
    ),
    "the same by the likelihood": (
        lambda w: 0.0 * jnp.sum(w),
        lambda w, row: jnp.where(w[0] > -2 + row[0], -(w[0] ** 2) / 2 / len(ROWS), -jnp.inf),
        AT,
        True,
    ),
    "an exponential law": (inside(lambda w: -w), unit, RNG.exponential(size=(8, 500, 1)), True),
    "a uniform one, far from the origin": (
        lambda w: jnp.sum(jnp.where((w > 1_000) & (w < 1_001), 0.0, -jnp.inf)),
        unit,
        RNG.uniform(1_000, 1_001, size=(8, 500, 1)),
        True,
    ),
    "a law that grows without bound there": (
        inside(lambda w: -0.5 * jnp.log(w) - w),
        unit,
        RNG.gamma(0.5, size=(8, 500, 1)),
        True,
    ),
    "one that falls to 0 there": (
        inside(lambda w: jnp.log(w) - w),
        unit,
        RNG.gamma(2.0, size=(8, 500, 1)),
        False,
    ),
    "one that falls to 0 by the likelihood": (
        inside(lambda w: -w),
        lambda w, row: jnp.log(w[0]) / len(ROWS) + 0 * row[0],
        RNG.gamma(2.0, size=(8, 500, 1)),
        False,
    ),
    "a wall five widths away": (
        lambda w: jnp.sum(jnp.where(w > -5, -(w**2) / 2, -jnp.inf)),
        unit,
        NORMAL,
        False,
    ),
}


@pytest.mark.usual_parameters("an exponential law", "a wall five widths away")
@pytest.mark.parametrize("name", ENDS)
def test_right_draws_at_a_wall_are_not_judged_and_not_corrected(name):
    """The one at two widths was wrong, "too narrow by 6.86 ± 0.0093 %", and corrected to 1."""
    prior, likelihood, draws, is_cut = ENDS[name]
    report = ewsg.check(KEY, draws.astype(np.float32), ewsg.Posterior(likelihood, prior), ROWS)
    assert bool(report.cut_off) is is_cut
    if not is_cut:
        assert report.outcome == "right"
        return
    assert report.outcome == "unsure"
    assert "give bounded parameters a bijector" in report.verdict
    assert report.corrected is None
    assert np.isnan([report.sd_ratio, report.mean_shift, report.sd_ratio_error]).all()
    assert "temperature: not known" in repr(report)
    assert "nothing is known" in repr(report)


@pytest.mark.parametrize(
    "called",
    [
        ewsg.diagnostics.kernel_stein_discrepancy,
        ewsg.diagnostics.control_variates,
        lambda *given: ewsg.diagnostics.stein_thinning(*given, 10),
    ],
)
def test_what_stands_on_the_identities_is_refused_there(called):
    """Control variates gave a normal that ends at −1 the mean 0 ± 2e-15, which is 0.29."""
    prior, likelihood, draws, _ = ENDS["a normal law, two widths from its mean"]
    with pytest.raises(ValueError, match=r"posterior must have a density that falls to 0 .*beyond"):
        called(KEY, draws.astype(np.float32), ewsg.Posterior(likelihood, prior), ROWS)


def test_a_trial_at_a_wall_is_doubted():
    prior, likelihood, draws, _ = ENDS["an exponential law"]
    report = ewsg.check(KEY, draws.astype(np.float32), ewsg.Posterior(likelihood, prior), ROWS)
    (doubt,) = PilotRun(None, None, report, 500, 1.0).findings  # pyright: ignore[reportArgumentType]
    assert doubt.text.startswith("its pilot run cannot be judged: the density ends among the draws")


@pytest.mark.usual_parameters("300")
@pytest.mark.parametrize("n", [300, 6_000])
def test_a_support_that_data_set(n):
    """Rows of U(0, θ): θ below the largest is impossible. With many rows each draw has a part."""
    rows = RNG.uniform(0, 2, n)
    rows[: n // 20] = np.linspace(1.9, 2.0, n // 20)
    posterior = ewsg.Posterior(
        lambda t, row: jnp.where(row <= t, -jnp.log(t), -jnp.inf), lambda t: -0.5 * (t - 1.0) ** 2
    )
    low = np.linspace(1.5, 1.8, 400).reshape(4, 100)
    found = ewsg.check(KEY, low, posterior, rows, batch_size=500)
    assert found.outcome == "wrong"
    assert found.outside == "100 % of draws where log_likelihood of a row is -inf or NaN"
    assert ewsg.check(KEY, low + 0.6, posterior, rows, batch_size=500).outside == ""


def test_shares_are_those_of_each_density():
    posterior = ewsg.Posterior(
        lambda w, row: jnp.where(w[1] > row[0], 0.0, -jnp.inf),
        lambda w: jnp.where(w[0] > 0, 0.0, -jnp.inf),
    )
    draws = draws_of(ZERO, None, 10_000)
    found = outside_by_batches(KEY, posterior, draws.layout, draws.flat, jnp.asarray(ROWS), 100)
    np.testing.assert_allclose([found.prior, found.likelihood], 1 - (ZERO > 0).mean((0, 1)))
    assert found.share == pytest.approx(1 - (ZERO > 0).all(-1).mean())


@pytest.mark.parametrize("n", [900, 5_000, 40_000])
def test_a_single_row_that_is_impossible_is_found_among_many(n):
    """Every row is seen by some draws, if draws times rows of each are enough."""
    draws = draws_of(RNG.uniform(0, 1, (4, 100, 1)), None, 10_000)
    posterior = ewsg.Posterior(
        lambda t, row: jnp.where(row < 2, 0.0 * t[0], -jnp.inf), lambda t: 0.0 * t[0]
    )
    for where in (0, n // 3, n - 1):
        rows = np.zeros(n, np.float32)
        rows[where] = 3.0
        found = outside_by_batches(
            KEY, posterior, draws.layout, draws.flat, jax.device_put(rows), 100
        )
        assert 0 < found.likelihood <= 1
        assert found.prior == 0
        # Each draw sees 100 of n rows.
        assert found.likelihood == pytest.approx(100 / n, abs=200 / n)
