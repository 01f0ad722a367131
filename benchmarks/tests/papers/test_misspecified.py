"""A normal law fitted to log-normal draws: exact law, autocorrelations, a small run."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.papers import misspecified
from benchmarks.papers.command import EXPERIMENTS
from benchmarks.papers.figures import png
from benchmarks.papers.running import judged, settings_of, text_of


def test_the_exact_law_is_that_of_a_grid():
    rows = misspecified.rows_of(0, 20)
    x = np.asarray(rows, float)
    m, s = np.meshgrid(np.linspace(-4, 8, 801), np.linspace(-1.5, 2.5, 801), indexing="ij")
    squares = len(x) * (x.var() + (x.mean() - m) ** 2)
    log_density = -len(x) * s - squares / 2 * np.exp(-2 * s)
    weight = np.exp(log_density - log_density.max())
    mean, sd = misspecified.exact(rows)
    for place, values in enumerate((m, s)):
        middle = np.average(values, weights=weight)
        assert mean[place] == pytest.approx(middle, abs=1e-6)
        assert sd[place] == pytest.approx(
            np.average((values - middle) ** 2, weights=weight) ** 0.5, rel=1e-3
        )


def test_the_mode_is_where_the_gradient_vanishes():
    rows = misspecified.rows_of(1, 500)
    best = jnp.asarray(misspecified.mode(rows), jnp.float32)
    np.testing.assert_allclose(misspecified.POSTERIOR.gradient(best, rows), 0, atol=0.02)


def test_the_autocorrelation_is_that_of_a_known_chain():
    """Of x' = 0.8 x + noise it is 0.8 to the power of the lag; its time (1 + 0.8)/(1 − 0.8)."""
    rng, draws = np.random.default_rng(0), np.zeros((4, 50_000, 2))
    for t in range(1, draws.shape[1]):
        draws[:, t] = 0.8 * draws[:, t - 1] + rng.normal(size=(4, 2))
    found = misspecified.autocorrelation(draws, misspecified.LAGS)
    expected = np.repeat(0.8 ** np.array(misspecified.LAGS, float)[:, None], 2, axis=1)
    np.testing.assert_allclose(found, expected, atol=0.03)
    time = misspecified.time_of({"autocorrelation": expected.tolist()})
    assert time == pytest.approx(9, rel=0.1)


def test_a_small_experiment():
    """FlyMC from the mode is dark, from afar bright at first; Metropolis samples too."""
    settings = settings_of(misspecified.Settings, text_of("misspecified"), "quick")
    settings = dataclasses.replace(
        settings,
        num_rows=2_000,
        num_chains=2,
        flymc_runs=2,
        burn_in=300,
        flymc_steps=900,
        ewsg_steps=900,
        metropolis_steps=3_000,
        step_size=1e-3,
        friction=40.0,
        flymc_start_step=2e-2,
        step_sizes=(1e-3, 9.0),
    )
    done = {}
    for name, compute in misspecified.parts(settings).items():
        done[name] = compute(done) | {"seconds": 0.0}
    assert done["tuning"]["step_size"] == 1e-3
    part = done["data 0"]
    assert part["FlyMC from the mode"]["mean_used"] == pytest.approx(0.1, abs=1e-3)
    assert part["FlyMC 0"]["extra_steps"] > 1
    assert len(misspecified.runs(done, "FlyMC")) == 2
    assert misspecified.runs(done, "FlyMC from the mode") == [part["FlyMC from the mode"]]
    np.testing.assert_allclose(part["Metropolis"]["sd_ratio"], 1, atol=0.25)
    assert misspecified.used(part["FlyMC 0"]) > 0.1
    result = judged(EXPERIMENTS["misspecified"], done)
    assert len(result["claims"]) == 11
    assert png(EXPERIMENTS["misspecified"].draw(done))[:4] == b"\x89PNG"
