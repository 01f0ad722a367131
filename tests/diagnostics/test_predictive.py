"""Held-out prediction against NumPy in float64."""

import dataclasses

import jax
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
        np.testing.assert_allclose(getattr(path, f"{name}_log_likelihood"), log_likelihood, rtol=1e-5)
        np.testing.assert_allclose(getattr(path, f"{name}_accuracy"), accuracy, rtol=1e-6)
    np.testing.assert_allclose(path.data_passes, np.arange(1, DRAWS + 1) * 10 * 5 / ROWS)
    whole = ewsg.diagnostics.predictive(run, held_out)
    assert path.running_log_likelihood[-1] == pytest.approx(whole.log_likelihood, rel=1e-6)


def test_certain_and_wrong_is_not_infinite(run, held_out):
    """Probabilities that underflow to zero keep their logarithm."""
    wild = dataclasses.replace(run, position=1e3 * run.position)
    path = ewsg.diagnostics.trajectory(wild, held_out)
    assert np.isfinite(path.running_log_likelihood).all()
    assert np.isfinite(path.chain_log_likelihood).all()
    assert path.chain_log_likelihood.min() < -200


def test_draws_that_are_not_finite_give_nan(run, held_out):
    lost = dataclasses.replace(run, position=np.full_like(run.position, np.nan))
    assert np.isnan(ewsg.diagnostics.predictive(lost, held_out)).all()
    assert np.isnan(ewsg.diagnostics.trajectory(lost, held_out).running_accuracy).all()


def test_refusals(run, held_out):
    with pytest.raises(ValueError, match=r"position of shape \(3,\), one weight for each feature"):
        ewsg.diagnostics.predictive(run, {"x": held_out["x"][:, :3], "y": held_out["y"]})
    with pytest.raises(TypeError, match="logistic_regression takes"):
        ewsg.diagnostics.trajectory(run, held_out["x"])
    with pytest.raises(ValueError, match="the run kept none"):
        ewsg.diagnostics.trajectory(dataclasses.replace(run, position=run.position[:, :0]), held_out)
    with pytest.raises(ValueError, match="chunk_size"):
        ewsg.diagnostics.predictive(run, held_out, chunk_size=0)
