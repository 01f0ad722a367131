"""YearPredictionMSD from each of its files, and what is none."""

import dataclasses
import zipfile

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets.table import SOURCES


def test_from_each_file(monkeypatch, tmp_path):
    known = dataclasses.replace(SOURCES["year_prediction_msd"], shape=(3, 90))
    monkeypatch.setitem(SOURCES, "year_prediction_msd", known)
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    x = np.arange(270, dtype=np.float32).reshape(3, 90) / 8
    y = np.array([2001, 1999, 1980], np.float32)
    text = "\n".join(
        ",".join(f"{value:g}" for value in [year, *row]) for year, row in zip(y, x, strict=True)
    )
    (tmp_path / "YearPredictionMSD.txt").write_text(text)
    with zipfile.ZipFile(tmp_path / "songs.zip", "w") as archive:
        archive.writestr("YearPredictionMSD.txt", text)
    for data in (
        ewsg.datasets.load("year_prediction_msd"),
        ewsg.datasets.year_prediction_msd(tmp_path / "songs.zip"),
    ):
        np.testing.assert_allclose(data.x, x)
        np.testing.assert_array_equal(data.y, y)
    np.savez(tmp_path / "year_prediction_msd.npz", X=x[:2], y=y[:2])
    with pytest.raises(
        ValueError, match="must hold YearPredictionMSD: 3 rows of 90 features and a year"
    ):
        ewsg.datasets.year_prediction_msd()


def test_what_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"YearPredictionMSD comes from the UCI archive"):
        ewsg.datasets.year_prediction_msd()
    with pytest.raises(FileNotFoundError, match=r"found no file .*other\.txt.*UCI"):
        ewsg.datasets.year_prediction_msd(tmp_path / "other.txt")
