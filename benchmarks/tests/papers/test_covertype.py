"""Covertype: what is computed on few made-up rows, and how it is judged."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.papers import covertype
from benchmarks.papers.command import EXPERIMENTS
from benchmarks.papers.figures import png
from benchmarks.papers.running import judged, settings_of, text_of


def test_a_small_experiment(monkeypatch):
    """On rows of three features: all parts, claims and the figure."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(700, 3)).astype(np.float32)
    every = {"x": x, "y": (x @ [1.0, -1.0, 0.5] + rng.logistic(size=700) > 0).astype(np.float32)}
    train, test = (
        {k: jnp.asarray(v[s]) for k, v in every.items()} for s in (slice(500), slice(500, None))
    )
    monkeypatch.setattr(covertype, "rows", lambda: (train, test))
    settings = settings_of(covertype.Settings, text_of("covertype"), "quick")
    tables = [dict(table) for table in settings.methods]
    tables[-1] |= {"capacity": 500}
    settings = dataclasses.replace(
        settings,
        ensemble=3,
        num_draws=2,
        step_sizes=(1e-3, 1e-2, 9.0),
        flymc_steps=60,
        methods=tables,
    )
    done = {}
    for name, compute in covertype.parts(settings).items():
        done[name] = compute(done) | {"seconds": 0.0}
    assert done["tuning"]["found"]["SGLD"]["best"]["step_size"] < 1
    fly = done["FlyMC"]
    assert fly["passes"][-1] == pytest.approx(60 * 50 / 500)
    assert fly["passes_at_start"] == 2
    # Of 50 rows that are drawn anew, those that are bright already count once.
    assert fly["per_step"] >= 50
    assert fly["counted_passes"][-1] == pytest.approx(2 + 60 * fly["per_step"] / 500, rel=1e-3)
    assert len(covertype.last(done, "paper", "EWSG", "accuracy")) == settings.num_repeats
    result = judged(EXPERIMENTS["covertype"], done)
    assert len(result["claims"]) == 11
    assert png(EXPERIMENTS["covertype"].draw(done))[:4] == b"\x89PNG"
