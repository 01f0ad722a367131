"""Draws that say nothing of the target have no number with an error, printed or stored."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check.attempt import beyond_measure
from ewsg_jax.answers.check.correction import TargetMoments
from ewsg_jax.answers.check.report_table import with_error
from ewsg_jax.vectors.layout import vector

pytestmark = pytest.mark.full

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(1_000), RNG.normal(size=(1_000, 3))])
DATA = {"x": X, "y": RNG.poisson(np.exp(0.3 * X @ [0.5, 1.0, -0.5, 1.5]))}
POISSON = ewsg.Posterior(
    lambda w, row: row["y"] * (row["x"] @ w) - jnp.exp(row["x"] @ w), lambda w: -0.5 * jnp.sum(w**2)
)


def numbers_of(report):
    return [
        vector(tree)
        for tree in (
            report.sd_ratio,
            report.sd_ratio_error,
            report.mean_shift,
            report.mean_shift_error,
        )
    ]


def test_chains_that_have_not_met_have_no_shifts():
    """Fifty steps from 0 of 8 chains: with errors of groups of draws they were 27 errors off."""
    kernel = ewsg.sgld(POISSON, 1e-5, batch_size=100)
    samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(4), DATA, 50, num_chains=8)
    report = ewsg.check(jax.random.key(2), samples, POISSON, DATA)
    assert report.outcome == "wrong"
    assert report.corrected is None
    assert report.not_corrected.startswith("chains do not agree, so that shifts and ratios are not")
    assert all(np.isnan(one).all() for one in numbers_of(report))
    assert "of 4 coordinates nothing is known" in str(report)
    assert not any(line.startswith("position[") for line in str(report).splitlines())


def test_what_is_too_far_to_be_measured_has_no_error():
    """Draws are moved by ten sds at most, which has a small error and is no number of theirs."""
    sizes, errors = np.array([10.0, 12.0, 13.0, 9.0]), np.array([2.6, 0.5, 400.0, 0.5])
    assert beyond_measure(sizes, errors, 10.0).tolist() == [np.inf, np.inf, 400.0, 0.5]
    assert [with_error(value, np.inf, 6) for value in (10.0, -12.0, 6.0)] == [
        "> 10",
        "< -10",
        "> 5",
    ]
    assert with_error(np.nan, np.nan, 6) == with_error(10.0, 400.0, 6) == "unknown"
    assert with_error(9.0, 0.5, 7) == "  9.000 ± 0.500"


def test_draws_of_one_law_far_from_the_target_keep_their_errors():
    draws = np.array([-0.35, 0.3, -0.15, -0.45]) + 0.05 * RNG.normal(size=(4, 200, 4))
    report = ewsg.check(jax.random.key(0), jnp.asarray(draws, jnp.float32), POISSON, DATA)
    assert report.corrected is None
    assert report.not_corrected.startswith("corrected moments have errors")
    _, _, shift, shift_error = numbers_of(report)
    assert not np.isnan(shift_error).any()
    assert (np.isinf(shift_error) | (shift_error > 1) | (np.abs(shift) < 10)).all()


def two_modes(p, row):
    """0.73 N(3, 0.8²) + 0.27 N(−3, 0.8²), the same in each of ten rows."""
    left, right = (-0.5 * ((p - at) / 0.8) ** 2 for at in (-3, 3))
    return jnp.logaddexp(jnp.log(0.27) + left, jnp.log(0.73) + right) / 10


@pytest.mark.parametrize("right", [1, 2, 4, 7])
def test_chains_in_several_modes_are_not_corrected(right):
    """The number of chains in a mode says nothing of its weight, and gradients are 0 at both."""
    rng = np.random.default_rng(0)
    at = np.where(np.arange(8) < right, 3.0, -3.0)
    draws = jnp.asarray(at[:, None] + 0.8 * rng.standard_normal((8, 500)), jnp.float32)
    posterior = ewsg.Posterior(two_modes, lambda p: 0.0 * p)
    report = ewsg.check(jax.random.key(0), draws, posterior, jnp.zeros((10, 1)))
    assert report.outcome == "wrong"
    assert report.corrected is None
    assert report.not_corrected.startswith("chains do not agree, so that shifts and ratios are not")
    with pytest.raises(ValueError, match="as in several modes"):
        report.expectation(lambda p: p > 0)


@pytest.mark.parametrize("apart", [0.6, 1.0])
def test_chains_of_one_mode_that_have_not_met_are(apart):
    """For a normal target, wherever they are, a correction explains why they do not agree."""
    rng = np.random.default_rng(0)
    draws = apart * rng.standard_normal((8, 1)) + 0.8 * rng.standard_normal((8, 500))
    posterior = ewsg.Posterior(lambda p, row: -0.05 * p**2, lambda p: 0.0 * p)
    draws = jnp.asarray(draws, jnp.float32)
    report = ewsg.check(jax.random.key(0), draws, posterior, jnp.zeros((10, 1)))
    assert report.rhat > 1.1
    assert abs(report.corrected.mean) < 0.01
    assert abs(report.corrected.sd - 1) < 0.01


def test_errors_count_chains_that_are_apart():
    """Means of 16 chains that are 0.2 sd apart, and of squares: 0.05 of their sds; of sds half."""
    moments = TargetMoments(np.zeros(1), np.full(1, 3.0), np.full(1, 0.2), np.full(1, 0.01), None)
    wider = moments.with_chains_apart(np.array([[0.2], [0.2]]), 16)
    np.testing.assert_allclose(wider.mean_error, np.hypot(0.2, 3.0 * 0.05))
    np.testing.assert_allclose(wider.sd_error, np.hypot(0.01, 0.05 * np.sqrt(2) / 2))
