"""SUSY from each of its files and from OpenML, and what is none."""

import dataclasses
import gzip
from types import SimpleNamespace

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets.table import SOURCES


@pytest.fixture
def small_susy(monkeypatch, tmp_path):
    """A folder, features and responses of the form of SUSY with 4 rows."""
    monkeypatch.setitem(SOURCES, "susy", dataclasses.replace(SOURCES["susy"], shape=(4, 18)))
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    return tmp_path, np.arange(72, dtype=np.float32).reshape(4, 18) / 8, np.array([1, 0, 0, 1])


def test_from_npz_and_from_text(small_susy):
    folder, x, y = small_susy
    text = "\n".join(
        ",".join(f"{value:.6e}" for value in [kind, *row]) for kind, row in zip(y, x, strict=True)
    )
    (folder / "mine.csv.gz").write_bytes(gzip.compress(text.encode()))
    np.savez(folder / "susy.npz", X=x, y=y)
    for data in (ewsg.datasets.susy(folder / "mine.csv.gz"), ewsg.datasets.load("susy")):
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.y, y)
        assert len(data.feature_names) == 18


def test_from_openml(small_susy, monkeypatch):
    sklearn = pytest.importorskip("sklearn.datasets")
    _, x, y = small_susy
    bundle = SimpleNamespace(data=x, target=y.astype(str))
    monkeypatch.setattr(sklearn, "fetch_openml", lambda *_, **__: bundle)
    data = ewsg.datasets.susy(download=True)
    np.testing.assert_array_equal(data.y, y)
    assert data.source.endswith("OpenML")


def test_what_is_not_there_is_told(small_susy):
    folder, x, y = small_susy
    with pytest.raises(
        FileNotFoundError, match=r"found no susy\.npz.*SUSY comes from the UCI archive"
    ):
        ewsg.datasets.susy()
    with pytest.raises(FileNotFoundError, match=r"found no file .*other\.csv.*UCI"):
        ewsg.datasets.susy(folder / "other.csv")
    np.savez(folder / "susy.npz", X=x, y=y + 1)
    with pytest.raises(ValueError, match="must hold SUSY: 4 rows of 18 features and a 0 or 1"):
        ewsg.datasets.susy()
