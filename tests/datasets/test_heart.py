"""Statlog heart from either of its files, and what is none; the real data where they are."""

import dataclasses

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets.table import SOURCES


@pytest.fixture
def small_heart(monkeypatch, tmp_path):
    """A folder, features and responses of the form of Statlog heart with 6 rows."""
    monkeypatch.setitem(SOURCES, "heart", dataclasses.replace(SOURCES["heart"], shape=(6, 13)))
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    return tmp_path, np.arange(78.0).reshape(6, 13), np.array([0, 1, 0, 0, 1, 1])


def test_from_npz_and_from_text(small_heart):
    folder, x, y = small_heart
    np.savetxt(folder / "heart.dat", np.column_stack([x, y + 1]), fmt="%.1f")
    from_text = ewsg.datasets.heart()
    np.savez(folder / "heart.npz", X=x, y=y)
    for data in (from_text, ewsg.datasets.load("heart")):
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.y, y)
        assert len(data.feature_names) == 13
    assert from_text.source.endswith(".dat")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3)}, "cannot be read"),
        ({"X": np.zeros((3, 13)), "y": np.ones(3)}, r"got X of shape \(3, 13\)"),
        ({"X": np.zeros((6, 13)), "y": np.arange(6)}, "a response of two classes"),
    ],
)
def test_a_file_that_is_not_heart(small_heart, arrays, message):
    np.savez(small_heart[0] / "heart.npz", **arrays)
    with pytest.raises(ValueError, match=f"must hold Statlog heart.*{message}"):
        ewsg.datasets.heart()


@pytest.mark.real_data
def test_heart_is_the_published_data():
    data = ewsg.datasets.heart()
    assert data.x.shape == (270, 13)
    assert data.y.sum() == 120
    np.testing.assert_allclose(
        data.x[0], [70, 1, 4, 130, 322, 0, 2, 109, 0, 2.4, 2, 3, 3], rtol=1e-6
    )
