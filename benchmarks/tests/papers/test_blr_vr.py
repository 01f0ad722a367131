"""EWSG-VR on logistic regression: what is computed on few made-up rows, and how it is judged."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.papers import blr_vr, metrics
from benchmarks.papers.command import EXPERIMENTS
from benchmarks.papers.figures import png
from benchmarks.papers.predicting import Problem
from benchmarks.papers.running import judged, settings_of, text_of


def small(name, split):
    """Two features and 40 rows."""
    rng = np.random.default_rng(split)
    x = rng.normal(size=(50, 2)).astype(np.float32)
    y = (x[:, 0] + rng.logistic(size=50) > 0).astype(np.float32)
    train, test = (
        {"x": jnp.asarray(x[s]), "y": jnp.asarray(y[s])} for s in (slice(40), slice(40, None))
    )
    return Problem(
        blr_vr.POSTERIOR,
        train,
        test,
        jnp.zeros(2),
        {blr_vr.METRIC: metrics.log_likelihood(blr_vr.POSTERIOR)},
    )


def test_a_small_experiment(monkeypatch):
    """The limit is that of a sum over a grid of the plane."""
    monkeypatch.setattr(blr_vr, "problem_of", small)
    settings = settings_of(blr_vr.Settings, text_of("blr-vr"), "quick")
    settings = dataclasses.replace(
        settings,
        data_passes=(10.0,),
        full_passes=20,
        num_draws=3,
        num_chains=200,
        splits=(0,),
        data_sets=("parkinsons",),
        step_sizes=(1e-2, 9.0),
        reference_steps=2_000,
    )
    done = {}
    for name, compute in blr_vr.parts(settings).items():
        done[name] = compute(done) | {"seconds": 0.0}
    assert set(done["tuning"]["step_sizes"]["parkinsons"].values()) == {1e-2}
    problem, found = small("", 0), done["parkinsons 0"]["limit"]
    side = np.linspace(-2, 2, 81)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)

    def log_likelihood(rows):
        s = grid @ np.asarray(rows["x"], float).T * (2 * np.asarray(rows["y"]) - 1)
        return -np.logaddexp(0, -s)

    log_density = log_likelihood(problem.train).sum(1) - 5 * (grid**2).sum(1)
    weight = np.exp(log_density - log_density.max())
    values = log_likelihood(problem.test).mean(1)
    mean = np.average(values, weights=weight)
    sd = np.average((values - mean) ** 2, weights=weight) ** 0.5
    assert found["mean"] == pytest.approx(mean, abs=4 * found["error"])
    assert found["sd"] == pytest.approx(sd, rel=0.05)
    result = judged(EXPERIMENTS["blr-vr"], done)
    assert len(result["claims"]) == 14 + 10
    assert png(EXPERIMENTS["blr-vr"].draw(done))[:4] == b"\x89PNG"
