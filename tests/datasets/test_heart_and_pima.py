"""Statlog heart and Pima from either of their files, and what is none; the real data if there."""

import dataclasses

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets.table import SOURCES

Y = np.array([0, 1, 0, 0, 1, 1])
TEXTS = {
    "heart": (
        "Statlog heart",
        13,
        "heart.dat",
        lambda file, x: np.savetxt(file, x + np.eye(1, 14, 13)),
    ),
    "pima": (
        "Pima",
        8,
        "pima-indians-diabetes.csv",
        lambda file, x: np.savetxt(file, x, delimiter=","),
    ),
}
"""What each is called, its features, its other file, and what writes that: heart counts from 1."""


@pytest.fixture(params=TEXTS)
def small(request, monkeypatch, tmp_path):
    """A name, a folder and features of the form of that data set with 6 rows."""
    shape = 6, TEXTS[request.param][1]
    known = dataclasses.replace(SOURCES[request.param], shape=shape)
    monkeypatch.setitem(SOURCES, request.param, known)
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    return request.param, tmp_path, np.arange(float(np.prod(shape))).reshape(shape)


def test_from_npz_and_from_text(small):
    name, folder, x = small
    _, size, other, write = TEXTS[name]
    write(folder / other, np.column_stack([x, Y]))
    from_text = getattr(ewsg.datasets, name)()
    np.savez(folder / f"{name}.npz", X=x, y=Y)
    for data in (from_text, ewsg.datasets.load(name)):
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.y, Y)
        assert len(data.feature_names) == size
    assert from_text.source.endswith(other[-4:])


def test_a_file_that_is_none_of_them(small):
    name, folder, x = small
    for arrays, message in (
        ({"x": np.zeros(3)}, "cannot be read"),
        ({"X": x[:3], "y": np.ones(3)}, rf"got X of shape \(3, {x.shape[1]}\)"),
        ({"X": x, "y": np.arange(6)}, "a response of two classes"),
    ):
        np.savez(folder / f"{name}.npz", **arrays)
        with pytest.raises(ValueError, match=f"must hold {TEXTS[name][0]}.*{message}"):
            getattr(ewsg.datasets, name)()


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "n", "positive", "first"),
    [
        ("heart", 270, 120, [70, 1, 4, 130, 322, 0, 2, 109, 0, 2.4, 2, 3, 3]),
        ("pima", 768, 268, [6, 148, 72, 35, 0, 33.6, 0.627, 50]),
    ],
)
def test_the_published_data(name, n, positive, first):
    data = ewsg.datasets.load(name)
    assert data.x.shape == (n, len(first))
    assert data.y.sum() == positive
    np.testing.assert_allclose(data.x[0], first, rtol=1e-6)
