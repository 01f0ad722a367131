"""Data sets that lie ready: what is refused, and the real ones where they are."""

import dataclasses

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets.table import SOURCES, checksum

X, Y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([0, 1, 1, 0], np.uint8)
KINDS = ("float32", "uint8")
PREPARED = [name for name, source in SOURCES.items() if source.checksum is not None]


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A folder, and Parkinsons with four rows."""
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    known = dataclasses.replace(
        SOURCES["parkinsons"], shape=(4, 3), dtypes=KINDS, checksum=checksum(X, Y, KINDS)
    )
    monkeypatch.setitem(SOURCES, "parkinsons", known)
    return tmp_path


def test_a_file_is_read_whatever_its_order_in_memory(small):
    np.savez(
        small / "parkinsons.npz",
        X=np.asfortranarray(X),
        y=Y,
        feature_names=np.array(["a", "b", "c"]),
    )
    data = ewsg.datasets.load("parkinsons")
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)
    assert data.feature_names == ("a", "b", "c")
    assert data.x.flags.c_contiguous


def test_one_number_that_differs_is_told(small):
    np.savez(small / "parkinsons.npz", X=X + np.eye(4, 3, dtype=np.float32) * 1e-6, y=Y)
    with pytest.raises(ValueError, match="must hold Parkinsons, whose checksum begins with"):
        ewsg.datasets.parkinsons()
    np.savez(small / "parkinsons.npz", X=X, y=1 - Y)
    with pytest.raises(ValueError, match="must hold Parkinsons, whose checksum begins with"):
        ewsg.datasets.parkinsons()
    (small / "parkinsons.npz").write_bytes(b"none")
    with pytest.raises(ValueError, match="must hold Parkinsons; it cannot be read"):
        ewsg.datasets.parkinsons()


@pytest.mark.parametrize("name", PREPARED)
def test_a_missing_file_is_one_sentence(name, monkeypatch, tmp_path):
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as error:
        getattr(ewsg.datasets, name)()
    said = str(error.value)
    for part in (f"{name}.npz", str(tmp_path), "comes from https://", f"there as {name}.npz"):
        assert part in said


@pytest.mark.real_data
@pytest.mark.parametrize("name", PREPARED)
def test_the_real_one(name):
    known, data = SOURCES[name], ewsg.datasets.load(name)
    assert data.x.shape == known.shape
    assert len(set(data.feature_names)) == known.shape[1]
    assert data.name == name
    assert np.isfinite(data.x).all()
