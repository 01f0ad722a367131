"""Draws at the edges: few, one chain, badly scaled, far from zero, in float32, not finite."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.correction import Correction

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
ROWS = np.zeros((4, 1), np.float32)


def standard(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def normal(mean, sd):
    """Independent normal numbers."""
    return ewsg.Posterior(
        lambda p, row: 0.0 * row[0] + 0.0 * p[0],
        lambda p: (
            -0.5 * jnp.sum(((p - jnp.asarray(mean, p.dtype)) / jnp.asarray(sd, p.dtype)) ** 2)
        ),
    )


def errors_hold(report, mean, sd):
    """Whether what is right is within three errors, and as much as rounding."""
    right = report.moments
    np.testing.assert_array_less(
        np.abs(right.mean - mean) / sd, 3 * right.mean_error / sd + settings.MIN_ERROR
    )
    np.testing.assert_array_less(np.abs(right.sd / sd - 1), 3 * right.sd_error + settings.MIN_ERROR)


@pytest.mark.parametrize(
    "shape",
    [(1, 600, 3), (2, 8, 2), (4, 20, 150), (3, 67, 1)],
    ids=["one chain", "eight draws", "more numbers than draws", "one number"],
)
def test_few(shape):
    d = shape[2]
    draws = 1.2 * standard(shape) + 0.3
    report = ewsg.check(KEY, draws, normal(np.zeros(d), 1.0), ROWS)
    errors_hold(report, np.zeros(d), np.ones(d))
    assert np.isfinite(report.sd_ratio_error).all()
    assert np.isnan(report.rhat) == (shape[0] == 1)
    assert report.num_used == shape[0] * shape[1]


@pytest.mark.usual_parameters("1.3")
@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_sds_a_million_times_apart_in_float32(scale):
    """Numbers from 1e-3 to 1e3, means at 1,000 sds: float32 has a width of 6e-5 sds there."""
    sd = np.exp(np.linspace(np.log(1e-3), np.log(1e3), 25))
    draws = (1e3 * sd + scale * sd * standard((4, 500, 25))).astype(np.float32)
    report = ewsg.check(KEY, draws, normal(1e3 * sd, sd), ROWS)
    assert report.outcome == ("right" if scale == 1.0 else "wrong")
    right = report.corrected
    np.testing.assert_allclose(right.sd / sd, 1, atol=1e-3)
    np.testing.assert_allclose((right.mean - 1e3 * sd) / sd, 0, atol=1e-3)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_covariance_of_condition_ten_to_the_twelve(noise):
    """Turned sds a million times apart: what is right is known to the stated error."""
    rng, d, count = np.random.default_rng(1), 12, 2_000
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = turn * np.exp(np.linspace(0, np.log(1e6), d))
    covariance, back = root @ root.T, turn / np.exp(np.linspace(0, np.log(1e6), d))
    u = 1.1 * rng.standard_normal((count, d)) + 0.2
    first, second = ((u + noise * rng.standard_normal(u.shape)) @ back.T for _ in range(2))
    found = Correction(u @ root.T, first, first if noise == 0 else second, 0.1).moments
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(found.mean) / sd, 4 * found.mean_error / sd)
    np.testing.assert_array_less(np.abs(found.sd / sd - 1), 4 * found.sd_error)
    if noise == 0:
        np.testing.assert_allclose(found.mean / sd, 0, atol=1e-6)
        # In coordinates of the target's own width, the thinnest direction among them.
        np.testing.assert_allclose(
            np.linalg.solve(root, np.linalg.solve(root, found.covariance).T), np.eye(d), atol=2e-3
        )


def test_float32_draws_a_million_from_zero():
    """There float32 has steps of 1/16: what it rounds is no bias."""
    draws = (1e6 + standard((4, 500, 3))).astype(np.float32)
    report = ewsg.check(KEY, draws, normal(np.full(3, 1e6), 1.0), ROWS)
    assert report.outcome == "right"
    np.testing.assert_allclose(np.asarray(report.moments.mean) - 1e6, 0, atol=0.01)
    np.testing.assert_allclose(report.moments.sd, 1, atol=0.01)


@pytest.mark.parametrize("d", [2, 60])
def test_chains_that_stand_still_apart(d):
    """In one coordinate half of the draws never moves: it says nothing of the others."""
    draws = standard((4, 100, d))
    draws[..., 1] = np.arange(4.0)[:, None]
    report = ewsg.check(KEY, draws, normal(np.zeros(d), 1.0), ROWS)
    assert report.outcome == "wrong"
    assert "chains do not agree (R-hat > 1000, position[1])" in report.verdict
    assert all(np.isfinite(score.z) for score in report.scores.worst.values())


def test_the_width_of_draws_far_off_says_nothing_of_the_data():
    """A start far away that was not left out; z above a million is printed as that."""
    draws = 0.33 * standard((4, 3_000, 2))
    draws[:, :3] += 1e4 * np.exp(-np.arange(3.0))[:, None]
    posterior = ewsg.Posterior(
        lambda p, row: -0.5 * jnp.sum((row - p) ** 2), lambda p: -0.125 * jnp.sum(p**2)
    )
    report = ewsg.check(KEY, draws, posterior, np.zeros((9, 2)))
    assert report.outcome == "unsure"
    assert report.corrected is None
    assert "as wide as the prior" not in str(report)
    beyond = {name: score._replace(z=1e89) for name, score in report.scores.worst.items()}
    report = dataclasses.replace(report, scores=report.scores._replace(worst=beyond))
    assert "(1: > 1e+06, u: > 1e+06" in str(report)


@pytest.mark.parametrize("apart", [30.0, 38.4, 100.0, 1e8])
def test_chains_that_never_met(apart):
    """Each half is so far out by the other's width that exp(-u²/2) is denormal there, or 0."""
    draws = standard((4, 100, 3)) + apart * np.array([0, 0, 1, 1])[:, None, None]
    report = ewsg.check(KEY, draws, normal(np.zeros(3), 1.0), ROWS)
    assert report.outcome == "wrong"
    assert "chains do not agree" in report.verdict
    assert np.isfinite(report.scores.distance)
    assert not any("nan" in line for line in str(report).splitlines())
    # E[g u] − 1 is not by how much chains in different places are too wide.
    assert "temperature: not known, for the chains do not agree" in str(report)


@pytest.mark.parametrize(
    ("excess", "error", "words"),
    [
        (0.5, 0.1, "temperature: 1.500 ± 0.100 of the target's, averaged"),
        (
            -1.194,
            0.041,
            "temperature: not known: -0.19 ± 0.041 of the target's is that of no distribution",
        ),
        (0.5, 10.0, "temperature: not known\n"),
    ],
)
def test_a_temperature_that_is_none(excess, error, words):
    report = ewsg.check(KEY, standard((4, 100, 3)), normal(np.zeros(3), 1.0), ROWS)
    scores = report.scores._replace(excess=excess, excess_error=error)
    assert words in str(dataclasses.replace(report, scores=scores))


def test_a_run_whose_chains_all_diverged_says_so():
    """It ended before there were draws."""
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e3, batch_size=2)
    rows = jnp.ones((10, 1))
    with pytest.warns(RuntimeWarning, match="diverged"):
        samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), rows, 3_000, burn_in=2_000)
    assert samples.draws.shape[1] == 0
    with pytest.raises(ValueError, match=r"got 1 of 0, for all chains diverged \(samples\.div"):
        ewsg.check(jax.random.key(1), samples, ewsg.models.gaussian_location(), rows)
