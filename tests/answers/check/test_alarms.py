"""How often runs are called wrong: right ones seldom, and those whose sds are off."""

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check import affine, stein
from tests.answers.check.test_check import COVARIANCE, KEY, LINEAR, MEAN, ROWS

pytestmark = pytest.mark.full


def autocorrelated(rng, shape, sd=1.0, memory=0.75, common=0.0):
    """Draws of N(0, sd²) along chains that forget exponentially: an effective draw in seven.

    They have a part of their variance in common, as chains that share their batches do.
    """
    chains, draws, d = shape

    def standard(*shape):
        own, of_all = rng.standard_normal((*shape, chains, d)), rng.standard_normal((*shape, 1, d))
        return (1 - common) ** 0.5 * own + common**0.5 * of_all

    noise = standard(draws) * (1 - memory**2) ** 0.5
    values, here = [], standard()
    for step in noise:
        here = memory * here + step
        values.append(here)
    return np.stack(values, axis=1) * sd


def alarms(sd, runs, d, seed, root=None, common=0.0):
    """Which runs of N(0, L sd² Lᵀ) have a score for N(0, L Lᵀ) above its bound at a rate of 2 %."""
    shared = common > 0
    rng, found = np.random.default_rng(seed), []
    root = np.eye(d) if root is None else root
    for _ in range(runs):
        draws = autocorrelated(rng, (8, 1000, d), sd, common=common)
        gradients = (draws + 0.3 * rng.standard_normal(draws.shape)) @ np.linalg.inv(root)
        scores = stein.scores_of(
            stein.by_halves(draws @ root.T, gradients, None, True, shared), 0.02, shared
        )
        found.append(any(score.z > scores.bound for score in scores.worst.values()))
    return np.array(found)


def test_right_runs_are_seldom_called_wrong():
    # At 2 % of 60 more than nine are rarer than 1e-6.
    assert alarms(1.0, 60, 12, seed=1).sum() <= 9


@pytest.mark.full
def test_right_runs_whose_chains_share_their_batches_are_seldom_called_wrong():
    """As independent chains they were in 21 of 30: at 2 % more than six are rarer than 1e-5."""
    assert alarms(1.0, 30, 4, seed=1, common=0.5).sum() <= 6


def test_an_sd_off_is_found_in_chains_that_share_their_batches():
    assert alarms(np.array([1.3, 1.0, 1.0, 1.0]), 20, 4, seed=2, common=0.1).sum() >= 15


def test_copies_of_a_chain_say_what_one_says():
    """The errors of one chain, in whichever order its copies stand."""
    one = (
        MEAN
        + np.random.default_rng(2).standard_normal((1, 600, 4)) @ np.linalg.cholesky(COVARIANCE).T
    )
    copies = np.repeat(one, 5, axis=0)
    single = ewsg.check(KEY, one, LINEAR, ROWS)
    shared = ewsg.check(KEY, copies, LINEAR, ROWS, shared_minibatch=True)
    for name in ("1", "u"):
        assert shared.scores.worst[name].z == pytest.approx(single.scores.worst[name].z, rel=0.1)
    assert shared.scores.ess == pytest.approx(single.scores.ess, rel=0.1)
    np.testing.assert_allclose(shared.corrected.mean_error, single.corrected.mean_error, rtol=0.1)
    assert "errors are from blocks of time" in str(shared)
    assert "blocks of time" not in str(single)


def test_an_sd_ten_percent_off_is_found():
    """With 1,000 effective draws 95 % of runs show it: below 20 of 30 has probability 1e-6."""
    assert alarms(np.array([1.1, 1.0, 1.0, 1.0]), 30, 4, seed=2).sum() >= 20
    assert alarms(np.array([1.0, 0.9, 1.0, 1.0]), 30, 4, seed=3).sum() >= 20


def test_an_sd_ten_percent_off_is_found_among_correlated_ones():
    """In the coordinates of the target's width 1 it is spread over all directions."""
    root = np.linalg.cholesky(0.8 + 0.2 * np.eye(12))
    assert alarms(np.array([1.1] + [1.0] * 11), 30, 12, seed=2, root=root).sum() >= 20


def test_directions_of_the_same_draws_would_raise_alarm():
    """Why halves change places: Monte Carlo error is largest along own eigenvectors."""
    rng = np.random.default_rng(4)
    draws = autocorrelated(rng, (8, 250, 20))
    gradients = draws + 0.1 * rng.standard_normal(draws.shape)
    flat = draws.reshape(-1, 20)
    own = stein.by_root(draws, gradients, None, flat.mean(0), affine.root_of(np.cov(flat.T)))
    scores = stein.scores_of(own, 0.02)
    assert scores.worst["u"].z > scores.bound
    scores = stein.scores_of(stein.by_halves(draws, gradients, None, True), 0.02)
    assert scores.worst["u"].z < scores.bound


def test_each_half_has_the_directions_of_the_other():
    """Those of its mean and its covariance, in both ways."""
    values, gradients, apart = np.random.default_rng(9).standard_normal((3, 4, 30, 3))
    found = stein.by_halves(values, gradients, apart, True)
    for mine, other in ((slice(0, 2), slice(2, 4)), (slice(2, 4), slice(0, 2))):
        flat = values[other].reshape(-1, 3)
        root = affine.root_of(np.cov(flat.T, ddof=0), symmetric=True)
        expected = stein.by_root(values[mine], gradients[mine], apart[mine], flat.mean(0), root)
        np.testing.assert_allclose(found.draws[mine], expected.draws, rtol=1e-9)
        np.testing.assert_allclose(found.gradients[mine], expected.gradients, rtol=1e-9)
        np.testing.assert_allclose(found.noise[mine], expected.noise, rtol=1e-9)


def test_each_coordinate_is_a_direction_where_these_are_many():
    """All of them, of fewer draws too, in the other half's units."""
    values, gradients = np.random.default_rng(9).standard_normal((2, 4, 6, 20))
    found = stein.by_halves(values, gradients, None, False)
    assert found.num_orthogonal == 20
    other = values[2:].reshape(-1, 20)
    np.testing.assert_allclose(found.draws[:2], (values[:2] - other.mean(0)) / other.std(0))
    np.testing.assert_allclose(found.gradients[:2], gradients[:2] * other.std(0))


@pytest.mark.parametrize("draws", [1, 2, 7])
def test_the_part_of_a_variance_that_blocks_show(draws):
    """For autoregressive draws, by their covariances: the mean of as many effective draws."""
    slow = 0.999
    length = round(draws * (1 + slow) / (1 - slow))
    lags = np.arange(1, length)
    of_mean = (1 + 2 * ((1 - lags / length) * slow**lags).sum()) / length
    assert stein._share(draws) == pytest.approx(draws * of_mean, rel=1e-3)
    assert stein._share(0.1) == stein._share(1.0)
