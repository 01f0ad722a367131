"""A gradient that is not that of the log density is seen by the density's own values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln

import ewsg_jax as ewsg
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.model_checks.coordinate_gradients import coordinates
from ewsg_jax.model_checks.finding import texts
from ewsg_jax.model_checks.gradient import num_compared, wrong_gradient, wrong_gradient_at

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(500, 3)), RNG.normal(size=500)
ROWS = {
    "x": X,
    "y": Y,
    "count": RNG.poisson(1_000.0, size=500),
    "many": RNG.poisson(1e5, size=500),
}
NORMAL = RNG.normal(size=(4, 50, 3))


@jax.custom_vjp
def with_a_slip(residual):
    return -0.5 * residual**2


with_a_slip.defvjp(
    lambda residual: (with_a_slip(residual), residual),
    lambda residual, g: (-0.8 * residual * g,),
)


def flat_prior(p):
    return 0.0 * jnp.sum(p)


def normal(p, row):
    return -0.5 * (row["y"] - row["x"] @ p) ** 2


def mistaken(posterior, draws, rows):
    return texts(wrong_gradient(posterior, draws.layout, draws.flat, draws.names, rows))


def said(log_likelihood, log_prior=flat_prior, scale=1.0, shift=0.0):
    draws = jnp.asarray(shift + scale * NORMAL, jnp.float32)
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    return mistaken(posterior, draws_of(draws, None, 1_000), jax.device_put(ROWS))


@pytest.mark.usual_parameters("a rule with a slip", "rounded")
@pytest.mark.parametrize(
    ("log_likelihood", "log_prior", "named"),
    [
        (lambda p, row: with_a_slip(row["y"] - row["x"] @ p), flat_prior, "log_likelihood"),
        (
            lambda p, row: normal(p, row) - jax.lax.stop_gradient(p[0]),
            flat_prior,
            "log_likelihood",
        ),
        (lambda p, row: normal(jnp.round(p, 1) + 0 * p, row), flat_prior, "log_likelihood"),
        (normal, lambda p: jnp.floor(20 * p[0]), "log_prior"),
    ],
    ids=["a rule with a slip", "stop_gradient", "rounded", "jumps"],
)
def test_a_wrong_gradient_is_found(log_likelihood, log_prior, named):
    assert said(log_likelihood, log_prior, scale=0.3).startswith(f"the gradient of {named} is not")


@pytest.mark.usual_parameters("normal", "kinks", "a funnel")
@pytest.mark.parametrize(
    ("log_likelihood", "log_prior", "scale", "shift"),
    [
        (normal, lambda p: -0.5 * jnp.sum(p**2), 1.0, 0.0),
        (normal, lambda p: -jnp.sum(jnp.abs(p)), 1e-3, 1e3),
        (lambda p, row: -10 * jnp.abs(row["y"] - row["x"] @ p), flat_prior, 3.0, 0.0),
        (lambda p, row: -jax.nn.relu(jax.nn.relu(row["x"] * p) @ p), flat_prior, 1.0, 0.0),
        (
            lambda p, row: row["count"] * p[0] - jnp.exp(p[0]) - gammaln(row["count"] + 1.0),
            flat_prior,
            1e-3,
            np.log(1_000.0),
        ),
        (
            lambda p, row: 0.0 * p[0],
            lambda p: -0.5 * (p[0] ** 2 + jnp.sum(p[1:] ** 2) * jnp.exp(-3 * p[0])) - 3 * p[0],
            2.0,
            0.0,
        ),
        (lambda p, row: -0.25 * jnp.sum(p**4), flat_prior, 1.0, 0.0),
        (
            lambda p, row: row["many"] * (np.log(1e5) + p[0]) - 1e5 * jnp.exp(p[0]),
            flat_prior,
            5e-5,
            0.0,
        ),
    ],
    ids=["normal", "far from 0", "kinks", "a network", "counts", "a funnel", "quartic", "many"],
)
def test_a_right_gradient_is_not(log_likelihood, log_prior, scale, shift):
    """Nor for rounding, terms that cancel, kinks, or a density that is narrow somewhere."""
    assert said(log_likelihood, log_prior, scale, shift) == ""


D = 50
MANY = {
    "x": RNG.normal(size=(2_000, D)).astype(np.float32),
    "y": RNG.integers(0, 2, 2_000),
}


def logistic(w, row):
    logit = row["x"] @ w
    return row["y"] * logit - jnp.logaddexp(0.0, logit)


def stopped(w, where):
    """One of 50 coordinates without its derivative on some rows."""
    return w.at[7].set(jnp.where(where, jax.lax.stop_gradient(w[7]), w[7]))


def said_of_many(log_likelihood, log_prior):
    draws = jnp.asarray(0.05 * RNG.normal(size=(4, 50, D)), jnp.float32)
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    return mistaken(posterior, draws_of(draws, None, 1_000), jax.device_put(MANY))


@pytest.mark.full
@pytest.mark.parametrize(
    ("log_likelihood", "log_prior", "named"),
    [
        (
            lambda w, row: logistic(stopped(w, row["x"][8] > 0), row),
            flat_prior,
            "log_likelihood is not that of its values: along position[7]",
        ),
        (
            lambda w, row: (
                logistic(w, row) + 0.1 * row["x"][7] * (w[7] - jax.lax.stop_gradient(w[7]))
            ),
            flat_prior,
            "log_likelihood is not that of its values: along position[7]",
        ),
        (
            logistic,
            lambda w: -0.5 * jnp.sum(w**2) + 0.005 * (w[3] - jax.lax.stop_gradient(w[3])),
            "log_prior is not that of its values: along position[3]",
        ),
    ],
    ids=["half of the rows", "a part of it", "the prior"],
)
def test_one_wrong_coordinate_of_many_is_found(log_likelihood, log_prior, named):
    """Lines along which all 50 change drown it."""
    assert said_of_many(log_likelihood, log_prior).startswith(f"the gradient of {named} they ")


@pytest.mark.full
@pytest.mark.parametrize(
    "log_likelihood",
    [
        logistic,
        lambda w, row: -10 * jnp.abs(row["y"] - row["x"] @ w),
        lambda w, row: -jnp.abs(jnp.sin(100 * row["x"] @ w)),
    ],
    ids=["smooth", "kinks", "waves"],
)
def test_no_right_coordinate_of_many_is_accused(log_likelihood):
    assert said_of_many(log_likelihood, lambda w: -0.5 * jnp.sum(w**2)) == ""


@pytest.mark.full
def test_a_report_says_of_how_many_coordinates_values_were_compared():
    """Of 600 those that were drawn; of coarse positions none."""
    d = 600
    posterior = ewsg.Posterior(lambda w, y: -0.5 * jnp.sum((y - w) ** 2), flat_prior)
    draws = RNG.normal(size=(4, 50, d)) / 4
    rows = jnp.asarray(RNG.normal(size=(16, d)), jnp.float32)
    report = ewsg.check(jax.random.key(0), jnp.asarray(draws, jnp.float32), posterior, rows)
    assert report.num_compared == 512
    assert "compared with values along 512 of 600 coordinates" in str(report)
    assert len(set(coordinates(d))) == 512
    assert max(coordinates(d)) < d
    coarse = draws_of(jnp.asarray(draws, jnp.bfloat16), None, 1_000)
    assert num_compared(posterior, coarse.layout, rows) == 0


def test_a_run_by_a_wrong_gradient_is_wrong_though_its_identities_hold():
    """Draws of the law that the gradient belongs to: of variance 1/0.8."""
    posterior = ewsg.Posterior(lambda p, y: with_a_slip(y - p), lambda p: 0.0 * p)
    y = np.asarray(Y[:100])
    draws = y.mean() + RNG.normal(size=(4, 1_000)) / np.sqrt(80.0)
    report = ewsg.check(jax.random.key(0), jnp.asarray(draws, jnp.float32), posterior, y)
    assert report.outcome == "wrong"
    assert report.verdict.startswith("the gradient of log_likelihood is not that of its values")
    assert all(score.z < report.scores.bound for score in report.scores.worst.values())


def test_coarse_positions_are_left_out():
    draws = draws_of(jnp.asarray(NORMAL, jnp.bfloat16), None, 1_000)
    assert mistaken(ewsg.Posterior(normal, flat_prior), draws, jax.device_put(ROWS)) == ""


@pytest.mark.full
def test_a_plan_is_not_trusted_and_ends_at_the_first_trial():
    """Though the gradient's own law is normal, and every trial agrees with it."""
    posterior = ewsg.Posterior(
        lambda p, row: with_a_slip(row["y"] - row["x"] @ p), lambda p: -0.5 * jnp.sum(p**2)
    )
    rows = {"x": X, "y": Y}
    with pytest.warns(RuntimeWarning, match="the gradient of log_likelihood is not that of its"):
        plan = ewsg.plan(jax.random.key(0), posterior, jnp.zeros(3), rows)
    assert not plan.is_trusted
    assert len(plan.doubts) == 1
    assert "check_grads" in plan.advice
    assert plan.gaussian is None or not plan.gaussian.is_right


@pytest.mark.full
def test_a_wall_narrower_than_lines_is_no_mistake():
    """A row of 1e6 makes log σ a kink, 1.6 % of the way along all lines: before the first node."""
    draws = 0.1 * NORMAL
    draws[:2, :, 0], draws[2:, :, 0] = 0.004, -1.0
    posterior = ewsg.Posterior(
        lambda p, row: jax.nn.log_sigmoid(-1e6 * p[0]) + normal(p, row), flat_prior
    )
    known = draws_of(jnp.asarray(draws, jnp.float32), None, 1_000)
    assert mistaken(posterior, known, jax.device_put(ROWS)) == ""


@pytest.mark.full
def test_a_plan_without_a_mode_says_first_that_the_gradient_is_wrong():
    """Not that it ended at a wall, and soon."""

    def log_likelihood(p, row):
        sd = jax.lax.stop_gradient(jnp.exp(p["log_sd"]))
        return -0.5 * ((row["y"] - row["x"] @ p["w"]) / sd) ** 2 - p["log_sd"]

    posterior = ewsg.Posterior(
        log_likelihood, lambda p: -0.5 * (jnp.sum(p["w"] ** 2) + p["log_sd"] ** 2)
    )
    start = {"w": jnp.zeros(3), "log_sd": jnp.array(0.0)}
    with pytest.raises(ValueError, match=r"gradient of its density.*that of log_sd.*check_grads"):
        ewsg.plan(jax.random.key(0), posterior, start, {"x": X, "y": Y})
    assert wrong_gradient_at(ewsg.Posterior(normal, flat_prior), jnp.zeros(3), ROWS) == []
    # Where nothing of a row's gradient is known, as far as numbers are large.
    assert wrong_gradient_at(ewsg.Posterior(normal, flat_prior), jnp.full(3, 1e3), ROWS) == []
    # Nor where rows are so steep that a float32 has no digits for a posterior's width.
    steep = ewsg.Posterior(lambda p, row: -jnp.exp(10 * row["x"] @ p), flat_prior)
    assert wrong_gradient_at(steep, jnp.full(3, 3.0), ROWS) == []
