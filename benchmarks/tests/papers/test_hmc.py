"""Variance-reduced Hamiltonian methods: the splits, the grid, the rules, and a small run."""

import dataclasses

import numpy as np
import pytest

from benchmarks.papers import hmc, predicting
from benchmarks.papers.running import settings_of, text_of
from ewsg_jax.datasets import Dataset


@pytest.fixture
def drawn(monkeypatch):
    """A regression of 103 rows in the place of a data set."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(103, 3)) * [1, 5, 0.1] + 2
    y = x @ [1.0, 0.2, 3.0] + rng.normal(size=103)
    data = Dataset(x=x, y=y, feature_names=("a", "b", "c"), name="concrete", source="drawn")
    monkeypatch.setattr(hmc, "load", lambda name: data)
    hmc.posed.cache_clear()
    yield data
    hmc.posed.cache_clear()


def test_rows_are_split_as_the_paper_says(drawn):
    """A fifth of 103 is 21; of 82 others two are left over, and an eighth is to choose by."""
    rows = hmc.rows_of("concrete", 0)
    assert [len(part["y"]) for part in rows] == [80, 70, 21]
    np.testing.assert_allclose(rows.chosen_by["x"].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(rows.chosen_by["y"].std(), 1, rtol=1e-5)
    np.testing.assert_array_equal(rows.train["x"], rows.chosen_by["x"][:70])
    seen = {
        tuple(row) for part in (rows.chosen_by, rows.test) for row in np.asarray(part["x"]).tolist()
    }
    assert len(seen) == 101


def settings(**changed):
    small = {
        "num_repeats": 3,
        "data_passes": 5.0,
        "num_draws": 6,
        "steps": (0.05, 0.2),
        "frictions": (0.3,),
    }
    return dataclasses.replace(
        settings_of(hmc.Settings, text_of("vr-hmc-regression"), "quick"), **{**small, **changed}
    )


def test_a_small_run(drawn, monkeypatch):
    """A regression's mode is what the least score is near; steps and frictions in units of L."""
    monkeypatch.setattr(predicting, "checked", lambda *_: {})
    methods = [x for x in settings().methods if x["name"] == "svrg2nd_hmc"]
    told = hmc.on("concrete", settings(methods=methods))
    rows = hmc.rows_of("concrete", 0)
    x, y = (np.asarray(rows.train[name], float) for name in "xy")
    precision = x.T @ x + np.eye(3)
    judged, answers = (np.asarray(rows.test[name], float) for name in "xy")
    covariance = np.linalg.inv(precision)
    off = judged @ covariance @ x.T @ y - answers
    expected = np.mean(off**2 + np.einsum("id,de,ie->i", judged, covariance, judged))
    assert told["limit"] == pytest.approx(expected, rel=0.02)
    assert told["start"] == pytest.approx(np.mean(np.asarray(rows.test["y"]) ** 2), rel=1e-3)
    assert hmc.posed("concrete").curvature == pytest.approx(
        np.linalg.eigvalsh(precision)[-1], rel=1e-3
    )
    second = told["methods"]["SVRG2nd-HMC"]
    assert second["step"] in (0.05, 0.2)
    assert second["friction"] == pytest.approx(0.3)
    # ‖h²L‖ < 4 at small friction, a little more at this one, less by the noise of batches.
    assert 1.5 < second["stable"][0] < 2.2
    assert hmc.candidates(settings().named["SAGA-LD"], 4.0, settings()) == [
        {"step_size": h} for h in (0.0125, 0.05)
    ]
    assert len(second["mean"]) == len(second["passes"])
