"""The networks of Li et al.: rows, grids, how scores compare, the experiment made small."""

import dataclasses

import numpy as np
import pytest

from benchmarks.papers import bnn
from benchmarks.papers.figures import png
from benchmarks.papers.networks import Perceptron
from benchmarks.papers.running import settings_of, text_of
from ewsg_jax.cli.config import ConfigError


def small():
    """The quick settings, made small."""
    settings = settings_of(bnn.Settings, text_of("vr-hmc-bnn"), "quick")
    return dataclasses.replace(
        settings,
        data=("susy",),
        num_rows=100,
        data_passes=4,
        num_repeats=2,
        ensemble=1,
        steps=(0.1, 1e9),
        frictions=(0.1,),
    )


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """No data set is at hand."""
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))


def test_rows_that_stand_in_are_of_like_shape(no_data):
    for name, d in (("music", 90), ("susy", 18)):
        problem, choose, source = bnn.posed(name, 1_000, 0.7)
        assert [rows["x"].shape for rows in (problem.train, choose, problem.test)] == [
            (700, d),
            (100, d),
            (200, d),
        ]
        assert source == f"rows that stand in for {name}"
        np.testing.assert_allclose(problem.train["x"].std(0), 1, atol=1e-3)
    assert abs(float(problem.train["y"].mean()) - 0.5) < 0.06
    with pytest.raises(FileNotFoundError, match="protein"):
        bnn.posed("protein", 1_000, 0.7)
    assert bnn.network_of("susy", 18) == Perceptron((18, 100, 2))
    assert bnn.network_of("letter", 16) == Perceptron((16, 50, 26))


def test_a_small_experiment(no_data):
    settings, done = small(), {}
    compute = bnn.parts(settings)
    done["susy, SVRG-HMC"] = compute["susy, SVRG-HMC"](done) | {"seconds": 0.0}
    part = done["susy, SVRG-HMC"]
    assert part["unstable"] == [False, True]
    assert part["options"]["step_size"] == pytest.approx(0.1 / 70**0.5, rel=1e-4)
    assert part["passes"][-1] <= 4
    for label in ("SGHMC", "SVRG-LD", "SVRG2nd-HMC"):
        done[label] = part | {"label": label}
    assert [claim.share for claim in bnn.claims(done)] == [0, 0, 0, 0, 1]
    assert png(bnn.draw(done))[:4] == b"\x89PNG"
    with pytest.raises(
        ConfigError, match=r"full\.data must be some of protein, music, letter, susy"
    ):
        dataclasses.replace(settings, data=("iris",))
