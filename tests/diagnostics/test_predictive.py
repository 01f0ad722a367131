"""Held-out prediction and calibration against NumPy in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

CHAINS, DRAWS, FEATURES, ROWS = 3, 7, 4, 53


@pytest.fixture(scope="module")
def held_out():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, FEATURES)).astype(np.float32)
    return {"x": x, "y": (generator.random(ROWS) < 0.4).astype(np.float32)}


@pytest.fixture(scope="module")
def run(held_out):
    kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-2, batch_size=5)
    return ewsg.sample(
        jax.random.key(0),
        kernel,
        lambda key: jax.random.normal(key, (FEATURES,)),
        held_out,
        DRAWS * 10,
        num_chains=CHAINS,
        thin=10,
    )


def probabilities(run, data):
    """p(y = 1), shape (chain, draw, row)."""
    return 1 / (1 + np.exp(-run.position.astype(np.float64) @ data["x"].T.astype(np.float64)))


def judged(p, y):
    """Mean log likelihood and accuracy of probabilities (…, row)."""
    own = np.where(y == 1, p, 1 - p)
    return np.log(own).mean(-1), ((p > 0.5) == (y == 1)).mean(-1)


@pytest.mark.usual_parameters("10")
@pytest.mark.parametrize("chunk_size", [8192, 10, 53])
def test_predictive(run, held_out, chunk_size):
    log_likelihood, accuracy = judged(probabilities(run, held_out).mean((0, 1)), held_out["y"])
    result = ewsg.diagnostics.predictive(run, held_out, chunk_size=chunk_size)
    assert result.log_likelihood == pytest.approx(log_likelihood, rel=1e-5)
    assert result.accuracy == pytest.approx(accuracy, rel=1e-12)


@pytest.mark.parametrize("chunk_size", [8192, 10])
def test_trajectory(run, held_out, chunk_size):
    p, y = probabilities(run, held_out), held_out["y"]
    path = ewsg.diagnostics.trajectory(run, held_out, chunk_size=chunk_size)
    running = np.cumsum(p.mean(0), axis=0) / np.arange(1, DRAWS + 1)[:, None]
    for name, expected in (("ensemble", p.mean(0)), ("running", running), ("chain", p)):
        log_likelihood, accuracy = judged(expected, y)
        np.testing.assert_allclose(
            getattr(path, f"{name}_log_likelihood"), log_likelihood, rtol=1e-5
        )
        np.testing.assert_allclose(getattr(path, f"{name}_accuracy"), accuracy, rtol=1e-6)
    np.testing.assert_allclose(path.data_passes, np.arange(1, DRAWS + 1) * 10 * 5 / ROWS)
    whole = ewsg.diagnostics.predictive(run, held_out)
    assert path.running_log_likelihood[-1] == pytest.approx(whole.log_likelihood, rel=1e-6)


def test_certain_and_wrong_is_not_infinite(run, held_out):
    """Probabilities that underflow to zero keep their logarithm."""
    wild = dataclasses.replace(run, draws=1e3 * run.position)
    path = ewsg.diagnostics.trajectory(wild, held_out)
    assert np.isfinite(path.running_log_likelihood).all()
    assert np.isfinite(path.chain_log_likelihood).all()
    assert path.chain_log_likelihood.min() < -200


def test_draws_that_are_not_finite_give_nan(run, held_out):
    lost = dataclasses.replace(run, draws=np.full_like(run.position, np.nan))
    assert np.isnan(ewsg.diagnostics.predictive(lost, held_out)).all()
    assert np.isnan(ewsg.diagnostics.trajectory(lost, held_out).running_accuracy).all()


# Any posterior.


def normal_scale_mixture(draws):
    """A run of {"mean": (), "log_scale": ()} with these draws, and its posterior."""
    posterior = ewsg.Posterior(
        lambda p, x: (
            -0.5 * jnp.log(2 * jnp.pi)
            - p["log_scale"]
            - 0.5 * ((x - p["mean"]) / jnp.exp(p["log_scale"])) ** 2
        ),
        lambda p: 0.0,
    )
    start = {"mean": jnp.zeros(()), "log_scale": jnp.zeros(())}
    kernel = ewsg.sgld(posterior, 1e-3, batch_size=2)
    run = ewsg.sample(jax.random.key(0), kernel, start, jnp.ones(3), 2)
    return dataclasses.replace(run, draws=draws), posterior


@pytest.mark.usual_parameters("53")
@pytest.mark.parametrize("chunk_size", [8192, 10, 53, 1])
def test_log_predictive_density(chunk_size):
    generator = np.random.default_rng(1)
    draws = {
        "mean": generator.normal(size=(3, 11)),
        "log_scale": 0.3 * generator.normal(size=(3, 11)),
    }
    run, posterior = normal_scale_mixture({k: v.astype(np.float32) for k, v in draws.items()})
    rows = generator.normal(size=53)
    found = ewsg.diagnostics.log_predictive_density(
        run, posterior, rows.astype(np.float32), chunk_size=chunk_size
    )
    assert found.shape == (53,)
    for x, value in zip(rows, found, strict=True):
        densities = [
            np.exp(-0.5 * ((x - m) / np.exp(s)) ** 2) / (np.sqrt(2 * np.pi) * np.exp(s))
            for m, s in zip(draws["mean"].ravel(), draws["log_scale"].ravel(), strict=True)
        ]
        assert value == pytest.approx(np.log(np.mean(densities)), rel=1e-5, abs=1e-6)


def test_log_predictive_density_of_two_draws_by_hand():
    """N(0, 1) and N(2, 1) at 0 and at 40, where both densities underflow."""
    run, posterior = normal_scale_mixture(
        {"mean": np.float32([[0, 2]]), "log_scale": np.zeros((1, 2), np.float32)}
    )
    found = ewsg.diagnostics.log_predictive_density(run, posterior, jnp.array([0.0, 40.0]))
    constant = -0.5 * np.log(2 * np.pi) - np.log(2)
    np.testing.assert_allclose(
        found, [constant + np.log(1 + np.exp(-2)), constant - 722], rtol=1e-6
    )


# Calibration.


def test_calibration_of_one_class():
    """Bins (0, 1/4], …; 1/4 itself in the first, the third empty."""
    p = [0.0, 0.1, 0.25, 0.3, 0.5, 0.9, 1.0]
    y = [0, 1, 0, 1, 1, 1, 0]
    result = ewsg.diagnostics.calibration(p, y, num_bins=4)
    np.testing.assert_array_equal(result.counts, [3, 2, 0, 2])
    np.testing.assert_allclose(result.confidence, [0.35 / 3, 0.4, np.nan, 0.95], rtol=1e-12)
    np.testing.assert_allclose(result.frequency, [1 / 3, 1, np.nan, 0.5], rtol=1e-12)
    expected = (3 * (1 / 3 - 0.35 / 3) + 2 * 0.6 + 2 * 0.45) / 7
    assert result.expected_calibration_error == pytest.approx(expected, rel=1e-12)


def test_calibration_of_several_classes():
    """The most probable class, the first of equals."""
    p = [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.4, 0.4, 0.2], [0.05, 0.9, 0.05]]
    result = ewsg.diagnostics.calibration(np.float32(p), np.array([0, 1, 0, 1]), num_bins=2)
    np.testing.assert_array_equal(result.counts, [1, 3])
    np.testing.assert_allclose(result.confidence, [0.4, 0.7], rtol=1e-6)
    np.testing.assert_allclose(result.frequency, [1, 2 / 3], rtol=1e-12)
    assert result.expected_calibration_error == pytest.approx(
        (0.6 + 3 * (0.7 - 2 / 3)) / 4, rel=1e-5
    )


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16, np.float32, np.float64])
def test_calibration_at_the_edges_of_bins(dtype):
    """j/10 is the last of bin j in every dtype, however it rounds."""
    p = (np.arange(11) / 10).astype(dtype)
    np.testing.assert_array_equal(ewsg.diagnostics.calibration(p, p > 2).counts, [2, *[1] * 9])


def test_calibration_of_many_rows_in_half_precision():
    """Rows that sum to one as far as bfloat16 can say it, averaged in float64."""
    p = np.random.default_rng(0).dirichlet([1, 1, 1], 3_000)
    rounded = jnp.asarray(p, jnp.bfloat16)
    result = ewsg.diagnostics.calibration(rounded, np.zeros(3_000), num_bins=1)
    top = np.asarray(rounded, np.float64)
    np.testing.assert_allclose(result.confidence, top.max(1).mean(), rtol=1e-12)
    np.testing.assert_allclose(result.frequency, np.mean(top.argmax(1) == 0), rtol=1e-12)
