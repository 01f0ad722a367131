"""Held-out levels: averages, when levels are reached, falling steps, the rules, and a small run."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.papers import regimes
from benchmarks.papers.decreasing import Decreasing
from benchmarks.papers.regimes import FALL
from benchmarks.papers.running import settings_of, text_of


def test_steps_fall_as_the_cube_root():
    found = [
        float(Decreasing(first=0.5, over=10.0, power=FALL)(jnp.int32(t))) for t in (0, 70, 630)
    ]
    np.testing.assert_allclose(found, [0.5, 0.25, 0.125], rtol=1e-6)
    steps = [Decreasing(first=h, over=s, power=FALL) for h in (0.1, 0.2) for s in (1.0, 9.0)]
    grid = ewsg.stack([ewsg.ld(ewsg.models.gaussian_location(), step) for step in steps])
    assert len(grid) == 4


def test_averages_are_weighted_over_second_halves():
    rng = np.random.default_rng(0)
    draws, steps = rng.normal(size=(2, 7, 3)), rng.uniform(1, 2, 7)
    found = regimes.averages(draws, steps, np.array([0, 2, 6]))
    for place, (first, last) in enumerate([(0, 1), (1, 3), (3, 7)]):
        expected = np.average(draws[:, first:last], axis=1, weights=steps[first:last])
        np.testing.assert_allclose(found[:, place], expected, rtol=1e-12)


def test_one_half_chooses_and_the_other_is_judged():
    grid, none = np.array([1.0, 2.0, 4.0]), np.nan
    far = np.array([[[0.1, 0.1, 0.1], [0.5, 0.2, 0.2]], [[none, 0.3, 0.01], [none, 0.15, 0.02]]])
    found, best = regimes.told(far, grid, [0.2, 0.05, 0.015])
    # Of the first half the first member is in 0.2 at once: in the second half it takes two passes.
    assert found["reached"] == [2.0, 4.0, None]
    assert best == 1
    assert found["error"] == [None, 0.15, 0.02]
    assert found["floor"] == 0.02


@pytest.fixture
def settings(monkeypatch, tmp_path):
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    return dataclasses.replace(
        settings_of(regimes.Settings, text_of("vr-regimes"), "quick"),
        data=("susy",),
        data_passes=(8.0,),
        stand_in_rows=250,
        steps=(1e-2, 0.1),
        schedules=(0.0,),
        num_trials=4,
        reference_rows=2e5,
    )


def test_a_small_run_says_that_its_data_stand_in(settings, monkeypatch):
    methods = [x for x in settings.methods if x["name"] == "cv_uld"]
    monkeypatch.setattr(regimes, "checked", lambda *_: {})
    done = {
        name: compute({})
        for name, compute in regimes.parts(dataclasses.replace(settings, methods=methods)).items()
    }
    told = done["susy"]
    assert told["data"] == "stand-in for SUSY"
    assert told["rows"] == 200
    assert -0.69 < told["optimum"] < -0.2
    found = told["methods"]
    # A centre of three passes, and a pass to look at it.
    assert found["CV-ULD"]["error"][0] is None
    assert min(x for x in found["CV-ULD"]["reached"] if x is not None) > 4
