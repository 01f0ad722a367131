"""Variance-reduced Hamiltonian methods: the splits, the grid, the rules, and a small run."""

import dataclasses

import numpy as np
import pytest

from benchmarks.papers import hmc, predicting
from benchmarks.papers.figures import png
from benchmarks.papers.running import settings_of, text_of
from ewsg_jax.datasets import Dataset
from ewsg_jax.experiments import ConfigError, build


@pytest.fixture
def drawn(monkeypatch):
    """A regression of 103 rows in the place of a data set."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(103, 3)) * [1, 5, 0.1] + 2
    y = x @ [1.0, 0.2, 3.0] + rng.normal(size=103)
    data = Dataset(x=x, y=y, feature_names=("a", "b", "c"), name="concrete", source="drawn")
    monkeypatch.setattr(hmc.datasets, "load", lambda name: data)
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


def test_wild_rows_are_left_out(monkeypatch):
    x = np.random.default_rng(0).normal(size=(50, 2))
    x[7, 1] = 1e5
    data = Dataset(x=x, y=np.arange(50) % 2, feature_names=("a", "b"), name="eeg", source="drawn")
    monkeypatch.setattr(hmc.datasets, "load", lambda name: data)
    kept, y = hmc.arrays("eeg")
    np.testing.assert_array_equal(kept, np.delete(x, 7, 0))
    assert len(y) == 49
    assert hmc.rows_of("eeg", 0).train["x"].shape == (28, 3)


def test_the_other_two_features(monkeypatch, tmp_path):
    x = np.zeros((4, 19))
    np.savez(tmp_path / "parkinsons_updrs.npz", y_motor=np.arange(4.0), subject=np.ones(4))
    data = Dataset(
        x=x, y=np.ones(4), feature_names=("a",) * 19, name="parkinsons_updrs", source="drawn"
    )
    monkeypatch.setattr(hmc.datasets, "load", lambda name: data)
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    assert hmc.arrays("parkinsons_updrs, 21 features")[0][:, 19:].tolist() == [
        [i, 1] for i in range(4)
    ]
    assert hmc.arrays("parkinsons_updrs")[0].shape == (4, 19)


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


def part(**means):
    def of(label, mean):
        large = 2.0 if "2nd" in label else 1.0
        stable = None if label.endswith("LD") else [large, large]
        return {"passes": [1.0, 2.0, 3.0], "mean": mean, "stable": stable, "step": large}

    curves = {label.replace("_", "-"): of(label, mean) for label, mean in means.items()}
    return {"rows": 10, "start": 2.0, "limit": 1.0, "methods": curves}


def test_rules_read_arrivals():
    slow, fast, never = [1.5, 1.2, 1.01], [1.5, 1.02, 1.0], [1.0, 1.2, None]
    as_said = {"SVRG_LD": slow, "SVRG_HMC": fast, "SVRG2nd_HMC": fast}
    as_said |= {"SAGA_LD": never, "SAGA_HMC": slow, "SAGA2nd_HMC": fast}
    one = part(**as_said)
    assert [hmc.arrival(one, label) for label in ("SVRG-LD", "SVRG-HMC", "SAGA-LD")] == [
        3.0,
        2.0,
        np.inf,
    ]
    assert hmc.arrival(part(SVRG_LD=[1.5, 0.7, 0.9]), "SVRG-LD") == 2.0
    assert [claim.share for claim in hmc.claims({"grid": {}, "a": one})] == [1.0] * 10
    other = part(**{label: slow if "LD" not in label else fast for label in as_said})
    assert [claim.share for claim in hmc.claims({"a": one, "b": other})] == [0.5, 0.5, 1, 1, 1] * 2
    assert png(hmc.draw({"a": one}, "y"))[:4] == b"\x89PNG"


def test_settings_that_cannot_be_run():
    good = {name: list(x) if isinstance(x, tuple) else x for name, x in vars(settings()).items()}
    assert build(hmc.Settings, good) == settings()
    for change in (
        {"data": ["pima", "bike"]},
        {"num_folds": 9},
        {"steps": []},
        {"frictions": [-1.0]},
    ):
        with pytest.raises(ConfigError, match=f"full.{next(iter(change))}.* must be"):
            build(hmc.Settings, good | change, "full")
