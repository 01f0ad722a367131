"""Loading: what is there, and what is said where it is not."""

import dataclasses
import sys

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets.table import SOURCES


def test_breast_cancer():
    data = ewsg.datasets.breast_cancer()
    assert data.x.shape == (569, 30)
    assert data.y.sum() == 357  # benign
    assert data.feature_names[0] == "mean_radius"
    assert data.rows()["x"].dtype == data.rows()["y"].dtype == np.float32


def test_scikit_learn_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'ewsg_jax\[data\]'"):
        ewsg.datasets.breast_cancer()


def test_load_names_the_nearest():
    assert ewsg.datasets.load("breast_cancer").name == "breast_cancer"
    with pytest.raises(ValueError, match="did you mean 'covertype'"):
        ewsg.datasets.load("covtype")


def test_without_names_the_nearest():
    data = ewsg.datasets.breast_cancer()
    assert data.without(["mean_area"]).x.shape == (569, 29)
    assert "mean_area" not in data.without(["mean_area"]).feature_names
    with pytest.raises(ValueError, match="did you mean 'mean_area'"):
        data.without(["mean_aria"])


def test_folder_variable_must_name_a_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError, match="EWSG_JAX_DATA must name a folder"):
        ewsg.datasets.covertype()


def test_missing_file_says_where_it_looked(monkeypatch, tmp_path):
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as error:
        ewsg.datasets.covertype()
    for part in (
        "covertype.npz",
        "covtype.data.gz",
        str(tmp_path),
        "EWSG_JAX_DATA names",
        "archive.ics.uci.edu",
    ):
        assert part in str(error.value)


def test_default_folder_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("EWSG_JAX_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"\.cache/ewsg_jax \(as EWSG_JAX_DATA is not set\)"
    ):
        ewsg.datasets.covertype()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def small_covertype(monkeypatch, tmp_path):
    """A file of Covertype's form with 14 rows."""
    monkeypatch.setitem(
        SOURCES, "covertype", dataclasses.replace(SOURCES["covertype"], shape=(14, 54))
    )
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    x = np.arange(14 * 54, dtype=np.int16).reshape(14, 54)
    return tmp_path, x, np.arange(14, dtype=np.uint8) % 7 + 1


def test_covertype_from_npz_and_from_text(small_covertype):
    folder, x, y = small_covertype
    np.savetxt(folder / "covtype.data.gz", np.column_stack([x, y]), fmt="%d", delimiter=",")
    from_text = ewsg.datasets.covertype()
    np.savez(folder / "covertype.npz", X=x, y=y)
    from_npz = ewsg.datasets.covertype()
    for data in (from_text, from_npz):
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.y, y == 2)
    np.testing.assert_array_equal(ewsg.datasets.covertype(positive_class=7).y, y == 7)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3)}, r"must hold arrays X and y; it holds \['x'\]"),
        (
            {"X": np.zeros((3, 54)), "y": np.ones(3)},
            r"14 rows of 54 features.* got X of shape \(3, 54\)",
        ),
    ],
)
def test_a_file_that_is_not_covertype(small_covertype, arrays, message):
    np.savez(small_covertype[0] / "covertype.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        ewsg.datasets.covertype()


@pytest.mark.parametrize("value", [0, 8])
def test_positive_class(value):
    with pytest.raises(ValueError, match="from 1 to 7"):
        ewsg.datasets.covertype(positive_class=value)
