"""A scale that many effects share: what a check says of draws that are known to be right or wrong.

References are exact: the scale by quadrature, effects by their conditional distributions.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy.special import logsumexp

import ewsg_jax as ewsg
from ewsg_jax.answers.check.centred import ScaleMarginals
from ewsg_jax.answers.check.correction import TargetMoments
from ewsg_jax.answers.check.marginals import Marginal

GROUPS, SIGMA = 12, 1.0
COUNTS = np.array([1, 1, 1, 2, 2, 3, 4, 6, 10, 15, 25, 0])


class Groups:
    """y ~ N(a[g], 1) and a ~ N(0, τ), in groups of unlike sizes, one of which is empty.

    The position is {"a": (12,), "t": log τ}, with a half-normal prior of τ.
    """

    def __init__(self, tau):
        rng = np.random.default_rng(4)
        group = np.repeat(np.arange(GROUPS), COUNTS)
        effects = tau * rng.normal(size=GROUPS)
        y = effects[group] + SIGMA * rng.normal(size=len(group))
        self.data = {"g": group.astype(np.int32), "y": y.astype(np.float32)}
        self.totals = np.bincount(group, y, GROUPS)
        self.grid = np.linspace(-12, 2.5, 3_001)
        self.weights = self._weights()
        self.mean = self.weights @ self.grid
        self.sd = (self.weights @ (self.grid - self.mean) ** 2) ** 0.5

    def _weights(self):
        tau2 = np.exp(2 * self.grid)[:, None]
        share = 1 + COUNTS * tau2
        log_density = (-0.5 * np.log(share) + 0.5 * self.totals**2 * tau2 / share).sum(1)
        log_density += -0.5 * tau2[:, 0] + self.grid
        return np.exp(log_density - logsumexp(log_density))

    @property
    def posterior(self):
        def log_prior(p):
            tau = jnp.exp(p["t"])
            return norm.logpdf(p["a"], 0, tau).sum() - 0.5 * tau**2 + p["t"]

        return ewsg.Posterior(lambda p, row: norm.logpdf(row["y"], p["a"][row["g"]]), log_prior)

    def draws(self, seed, step=0.0, count=16_000):
        """Exact draws; with a step, of the scale as semi-implicit Euler biases it."""
        rng = np.random.default_rng(seed)
        precision = np.exp(-2 * self.grid)[:, None] + COUNTS
        tilt = np.log(np.maximum(1 - step**2 * precision / 4, 1e-9)).sum(1) / 2
        weights = self.weights * np.exp(tilt - tilt.max())
        t = rng.choice(self.grid, count, p=weights / weights.sum())
        t += (self.grid[1] - self.grid[0]) * (rng.random(count) - 0.5)
        precision = np.exp(-2 * t)[:, None] + COUNTS
        a = self.totals / precision + rng.normal(size=(count, GROUPS)) / np.sqrt(precision)
        return {"a": np.float32(a.reshape(8, -1, GROUPS)), "t": np.float32(t.reshape(8, -1))}


@pytest.fixture(scope="module")
def groups():
    return Groups(0.4)


def checked(groups, draws, **options):
    return ewsg.check(jax.random.key(3), draws, groups.posterior, groups.data, **options)


def errors(report, groups):
    """How many stated errors the corrected mean and sd of the scale are off."""
    k = report.names.index("t")
    moments = report.moments
    return (
        abs(moments.mean[k] - groups.mean) / moments.mean_error[k],
        abs(np.log(moments.sd[k] / groups.sd)) / moments.sd_error[k],
    )


@pytest.mark.usual_parameters("0")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_exact_draws_are_right(groups, seed):
    report = checked(groups, groups.draws(seed))
    assert report.outcome == "right"
    assert max(errors(report, groups)) < 4
    assert float(report.sd_ratio_error["t"]) < 0.025
    # Gradients beyond the draws of the scale count too: 12 places, 2 draws of each of 32 groups.
    assert report.data_passes >= report.num_used + 12 * 2 * 32


@pytest.mark.usual_parameters("0.1")
@pytest.mark.parametrize("step", [0.05, 0.1, 0.2])
def test_draws_with_a_biased_scale_are_not_right(groups, step):
    draws = groups.draws(0, step)
    off = (draws["t"].mean() - groups.mean) / groups.sd
    width = draws["t"].std() / groups.sd
    assert abs(off) > 0.12 or abs(width - 1) > 0.07  # else the case shows nothing
    report = checked(groups, draws)
    assert report.outcome != "right"
    assert max(errors(report, groups)) < 4


@pytest.mark.full
def test_what_draws_of_a_scale_lack_is_in_the_error_of_any_function(groups):
    """A tenth is missing: √(1/10) times the sd of what a regression leaves, at least."""
    draws = groups.draws(0, count=20_000)
    t, a = draws["t"].ravel(), draws["a"].reshape(-1, GROUPS)
    kept = np.flatnonzero(t > np.quantile(t, 0.1))[:16_000]
    lacking = {"a": a[kept].reshape(8, -1, GROUPS), "t": t[kept].reshape(8, -1)}
    report = checked(groups, lacking)
    assert report.outcome == "wrong"
    assert max(errors(report, groups)) < 4
    tau, error = report.expectation(lambda p: jnp.exp(p["t"]))
    assert abs(tau - groups.weights @ np.exp(groups.grid)) < 3 * error
    here = report.analyses[0]
    values = np.exp(here.draws.flat[:, -1:])
    left = values.std() * (1 - here.correction.explained(values)[0]) ** 0.5
    assert error > 0.9 * 0.1**0.5 * left


def test_a_scale_beside_another_that_is_off_is_as_uncertain_as_a_regression_differs():
    known = Marginal(1.0, 0.5, 0.01, 0.01, 0.0, 0.0)
    moments = TargetMoments(
        np.array([1.2, 1.2]), np.array([0.5, 0.5]), np.ones(2), np.ones(2), None
    )
    for off, doubt in ((known._replace(beyond=0.2), 0.2), (known, 0.0)):
        scales = ScaleMarginals(np.arange(2), (known, off), 0.0)
        replaced = scales.replaced(moments)
        np.testing.assert_allclose(replaced.mean, 1.0)
        np.testing.assert_allclose(replaced.mean_error, [np.hypot(0.01, doubt), 0.01])


@pytest.mark.full
def test_effects_stay_in_the_coordinates_of_the_model(groups):
    draws = groups.draws(5)
    report = checked(groups, draws)
    a = groups.draws(6, count=160_000)["a"].reshape(-1, GROUPS)
    assert report.corrected is not None
    np.testing.assert_allclose(report.corrected.mean["a"], a.mean(0), atol=0.02)
    np.testing.assert_allclose(report.corrected.sd["a"], a.std(0), rtol=0.05)
    mean, error = report.expectation(lambda p: p["a"][0] ** 2)
    assert abs(mean - (a[:, 0] ** 2).mean()) < 4 * error + 0.01
    moved = report.correct(draws)
    np.testing.assert_allclose(moved["a"].std((0, 1)), a.std(0), rtol=0.05)


def funnel_draws(temperature, count=16_000):
    """Draws of exp(−V/T) for Neal's funnel with nine coordinates, in closed form."""
    rng = np.random.default_rng(1)
    mean = 4.5 * 9 * temperature * (1 - 1 / temperature)
    v = mean + 3 * temperature**0.5 * rng.normal(size=count)
    x = np.sqrt(temperature) * np.exp(v / 2)[:, None] * rng.normal(size=(count, 9))
    return {"v": np.float32(v.reshape(8, -1)), "x": np.float32(x.reshape(8, -1, 9))}, mean


@pytest.mark.usual_parameters("1.2")
@pytest.mark.parametrize("temperature", [1.0, 1.2, 2.0])
def test_a_funnel_is_right_at_its_temperature(temperature):
    """At T = 2 effects have widths from 10⁶ to 10¹²: means are rounded in units of the widest."""

    def log_prior(p):
        # The gradient of norm.logpdf overflows at T = 2: it has the fourth power of a scale.
        off = jnp.sum(p["x"] ** 2 * jnp.exp(-p["v"]))
        return -(p["v"] ** 2) / 18 - (9 * p["v"] + off) / 2

    posterior = ewsg.Posterior(lambda p, row: 0.0 * row * p["v"], log_prior)
    draws, mean = funnel_draws(temperature)
    report = ewsg.check(
        jax.random.key(0), draws, posterior, np.ones(4, np.float32), temperature=temperature
    )
    assert report.outcome != "wrong"
    k = report.names.index("v")
    assert abs(report.moments.mean[k] - mean) < 4 * report.moments.mean_error[k]
    assert report.moments.mean_error[k] < 0.1 * 3


@pytest.mark.full
def test_a_prior_that_is_none_is_judged_as_it_is(groups):
    """A model without a hierarchy is not mapped: its effects have a fixed width."""
    posterior = ewsg.Posterior(
        lambda p, row: norm.logpdf(row["y"], p["a"][row["g"]]),
        lambda p: norm.logpdf(p["a"]).sum() + norm.logpdf(p["t"]),
    )
    rng = np.random.default_rng(0)
    precision = 1.0 + COUNTS
    a = groups.totals / precision + rng.normal(size=(8, 500, GROUPS)) / np.sqrt(precision)
    draws = {"a": np.float32(a), "t": np.float32(rng.normal(size=(8, 500)))}
    report = ewsg.check(jax.random.key(0), draws, posterior, groups.data)
    assert report.analyses[0].draws.centring is None
    assert report.outcome == "right"


@pytest.mark.full
def test_few_draws_of_a_hierarchy_are_judged(groups):
    """No marginal is integrated with fewer than 100 draws."""
    draws = jax.tree.map(lambda x: x[:2, :40], groups.draws(0))
    report = checked(groups, draws)
    assert report.outcome == "unsure"


@pytest.mark.full
def test_effects_of_few_wide_draws_have_their_own_identities():
    """Draws that are 10 % too wide, six for five coordinates: too few for regressions on all."""
    effects, count = 119, 144
    rng = np.random.default_rng(0)
    scale = 0.3 * rng.normal(size=(count, 1))
    flat = 1.1 * np.hstack([scale, np.exp(scale) * rng.normal(size=(count, effects))])

    def log_prior(p):
        off = jnp.sum(p[1:] ** 2) * jnp.exp(-2 * p[0])
        return -(p[0] ** 2) / (2 * 0.09) - off / 2 - effects * p[0]

    posterior = ewsg.Posterior(lambda p, row: 0.0 * row * p[0], log_prior)
    draws = np.float32(flat.reshape(8, -1, 1 + effects))
    report = ewsg.check(jax.random.key(0), draws, posterior, np.zeros(4, np.float32))
    ratio = flat.std(0) / np.append(0.3, np.full(effects, np.exp(0.09)))
    z = np.log(report.sd_ratio / ratio) / (report.sd_ratio_error / report.sd_ratio)
    assert np.abs(z).max() < 4
    # Those of one run have Monte Carlo error in common; by the identity of the scale it was 0.09.
    assert abs(np.log(report.sd_ratio / ratio)[1:].mean()) < 0.03
