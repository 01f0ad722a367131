"""Pima from either of its files, and what is none; the real data where they are."""

import dataclasses

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets.table import SOURCES


@pytest.fixture
def small_pima(monkeypatch, tmp_path):
    """A folder, features and responses of Pima's form with 6 rows."""
    monkeypatch.setitem(SOURCES, "pima", dataclasses.replace(SOURCES["pima"], shape=(6, 8)))
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    return tmp_path, np.arange(48.0).reshape(6, 8), np.array([0, 1, 0, 0, 1, 1])


def test_from_npz_and_from_text(small_pima):
    folder, x, y = small_pima
    np.savetxt(folder / "pima-indians-diabetes.csv", np.column_stack([x, y]), delimiter=",")
    from_text = ewsg.datasets.pima()
    np.savez(folder / "pima.npz", X=x, y=y)
    for data in (from_text, ewsg.datasets.load("pima")):
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.y, y)
        assert len(data.feature_names) == 8
    assert from_text.source.endswith(".csv")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3)}, "cannot be read"),
        ({"X": np.zeros((3, 8)), "y": np.ones(3)}, r"got X of shape \(3, 8\)"),
        ({"X": np.zeros((6, 8)), "y": np.arange(6)}, "a response of two classes"),
    ],
)
def test_a_file_that_is_not_pima(small_pima, arrays, message):
    np.savez(small_pima[0] / "pima.npz", **arrays)
    with pytest.raises(ValueError, match=f"must hold Pima.*{message}"):
        ewsg.datasets.pima()


@pytest.mark.real_data
def test_pima_is_the_published_data():
    data = ewsg.datasets.pima()
    assert data.x.shape == (768, 8)
    assert data.y.sum() == 268
    np.testing.assert_allclose(data.x[0], [6, 148, 72, 35, 0, 33.6, 0.627, 50], rtol=1e-6)
