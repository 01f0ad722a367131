"""A part of the target that all draws lack: nothing is corrected if no regression knows it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ewsg_jax as ewsg
from ewsg_jax.answers.check.beyond_draws import Missing, usual_share_beyond
from ewsg_jax.answers.check.centred import ScaleMarginals
from ewsg_jax.answers.check.correction import Correction
from ewsg_jax.answers.check.marginals import UNKNOWN, Marginal

# A scale t of effects z, not centred: y_j ~ N(e^t z_j, 1), t ~ N(0, 1); t has a marginal in closed
# form, and a long tail to the left, where rows say nothing.
EFFECTS = 12
Y = np.random.default_rng(4).normal(size=EFFECTS) * 1.2
GRID = np.linspace(-6, 4, 20_001)
LOG_DENSITY = -0.5 * GRID**2 + np.sum(
    -0.5 * np.log1p(np.exp(2 * GRID))[:, None] - 0.5 * Y**2 / (1 + np.exp(2 * GRID))[:, None],
    axis=1,
)
DENSITY = np.exp(LOG_DENSITY - LOG_DENSITY.max())
DENSITY /= DENSITY.sum()
POSTERIOR = ewsg.Posterior(
    lambda p, row: -0.5 * (row["y"] - jnp.exp(p["t"]) * p["z"][row["j"]]) ** 2,
    lambda p: -0.5 * (p["t"] ** 2 + jnp.sum(p["z"] ** 2)),
)
ROWS = {"y": np.float32(Y), "j": np.arange(EFFECTS)}


def draws(lacking, seed=0, count=4_000):
    """Exact draws, but without the lowest values of t, a share of all."""
    rng = np.random.default_rng(seed)
    above = np.where(np.cumsum(DENSITY) < lacking, 0.0, DENSITY)
    t = rng.choice(GRID, count, p=above / above.sum())
    precision = 1 + np.exp(2 * t)[:, None]
    z = np.exp(t)[:, None] * Y / precision + rng.normal(size=(count, EFFECTS)) / precision**0.5
    return {"t": np.float32(t.reshape(8, -1)), "z": np.float32(z.reshape(8, -1, EFFECTS))}


def test_nothing_is_corrected_if_draws_lack_a_part_of_the_target():
    """A fifth of the target is missing; the corrected sd of t was some 20 stated errors off."""
    report = ewsg.check(jax.random.key(0), draws(0.2), POSTERIOR, ROWS)
    assert report.outcome == "wrong"
    assert report.corrected is None
    assert "of the target seem to lie beyond all draws of t, which" in report.not_corrected


def test_the_share_beyond_exact_draws_is_that_of_their_range():
    """The share beyond the least and largest of n draws is Beta(2, n - 1), for any density."""
    for count in (4_000, 1_000_000):
        more = scipy.stats.beta(2, count - 1).sf(usual_share_beyond(count))
        assert more == pytest.approx(1 / 2_000, rel=0.02)
    assert scipy.stats.beta(2, 99).sf(usual_share_beyond(100)) < 1 / 2_000
    known = Marginal(0.0, 1.0, 0.01, 0.01, 0.03, 0.0)
    scales = ScaleMarginals(np.arange(2), (known, UNKNOWN), 0.0)
    assert scales.missing(1_000).share == pytest.approx(0.02)
    assert scales.missing(100).share == 0


def test_exact_draws_lack_nothing():
    report = ewsg.check(jax.random.key(0), draws(0.0), POSTERIOR, ROWS)
    mean = float(DENSITY @ GRID)
    assert report.outcome != "wrong"
    assert report.corrected is not None
    assert abs(report.corrected.mean["t"] - mean) < 4 * report.corrected.mean_error["t"]


def test_what_lies_beyond_widens_errors_by_cauchy_and_schwarz():
    """A quarter beyond the draws: √(1/4) times the sd of what a regression leaves."""
    flat = np.random.default_rng(0).normal(size=(2_000, 2))
    correction = Correction(flat, flat, flat, 0.0)
    values = np.abs(flat[:, :1]) ** 3
    _, error = correction.expectation(values)
    _, wider = Missing(share=0.25).widened(correction).expectation(values)
    left = values.std() * np.sqrt(1 - correction.explained(values))
    np.testing.assert_allclose(np.sqrt(wider**2 - error**2), 0.5 * left, rtol=0.1)
    # A distance among the draws is a bound that two errors reach, as any distance.
    _, wider = Missing(distance=0.5).widened(correction).expectation(values)
    np.testing.assert_allclose(np.sqrt(wider**2 - error**2), 0.25 * left, rtol=0.1)


@pytest.mark.parametrize(("width", "off"), [(0.5, 0.0), (1.0, 1.0)])
def test_normal_targets_are_corrected_whatever_lies_beyond(width, off):
    """A linear gradient goes on as it is among the draws: 10 % and 97 % lie beyond them here."""
    rng = np.random.default_rng(0)
    root = np.eye(20) + 0.1 * rng.normal(size=(20, 20))
    precision = np.linalg.inv(root @ root.T)
    sd = np.sqrt(np.diag(root @ root.T))
    biased = width * rng.normal(size=(8, 500, 20)) @ root.T + off * sd
    matrix = jnp.asarray(precision, jnp.float32)
    posterior = ewsg.Posterior(lambda x, row: 0.0 * x[0], lambda x: -0.5 * x @ matrix @ x)
    report = ewsg.check(jax.random.key(0), jnp.asarray(biased, jnp.float32), posterior, np.zeros(4))
    assert report.outcome == "wrong"
    assert report.corrected is not None
    np.testing.assert_allclose(report.corrected.mean / sd, 0, atol=1e-3)
    np.testing.assert_allclose(report.corrected.sd / sd, 1, rtol=1e-3)
