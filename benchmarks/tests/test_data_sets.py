"""The data sets of the benchmarks: from every file that each has, in a small form; and what is said
of another file.
"""

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks import data_sets
from benchmarks.data_sets import SOURCES, Prepared
from ewsg_jax.datasets._table import checksum

KINDS = ("float32", "uint8")
PREPARED = [name for name, source in SOURCES.items() if isinstance(source, Prepared)]


def columns(*parts, separator=","):
    """The text of a table."""
    rows = np.column_stack([np.asarray(part).astype(object) for part in parts])
    return "\n".join(separator.join(map(str, row)) for row in rows) + "\n"


Y = np.array([1, 0, 0, 1, 1, 0])
FILES = {
    "susy": [
        (np.arange(72.0).reshape(4, 18) / 8, Y[:4], name, lambda x, y: columns(y, x))
        for name in ("SUSY.csv", "SUSY.csv.gz")
    ],
    "year_prediction_msd": [
        (
            np.arange(540.0).reshape(6, 90) / 8,
            1990 + Y,
            "YearPredictionMSD.txt",
            lambda x, y: columns(y, x),
        )
    ],
}
"""Rows and responses of each, its other files, and what makes the text of one."""
WRITERS = {
    ".gz": lambda path, text: path.write_bytes(gzip.compress(text.encode())),
}
RESPONSES = {"susy": "a 0 or 1"}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """The folder of the data sets, in which none lies."""
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    return tmp_path


def small(monkeypatch, name, x, **options):
    """Have a data set be of the shape of these rows."""
    known = dataclasses.replace(SOURCES[name], shape=x.shape, **options)
    monkeypatch.setitem(SOURCES, name, known)
    return known


@pytest.mark.parametrize(
    ("name", "x", "y", "other", "text_of"),
    [pytest.param(name, *each, id=each[2]) for name, files in FILES.items() for each in files],
)
def test_from_npz_and_from_text(name, x, y, other, text_of, folder, monkeypatch):
    small(monkeypatch, name, x)
    write = WRITERS.get(Path(other).suffix, Path.write_text)
    write(folder / other, text_of(x, y))
    from_text = data_sets.load(name)
    np.savez(folder / f"{name}.npz", X=x, y=y)
    for data in (from_text, data_sets.load(name)):
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.y, y)
        assert len(data.feature_names) == x.shape[1]
        assert data.name == name
    assert other in from_text.source


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_something_else(name, folder, monkeypatch):
    x, y = FILES[name][0][:2]
    title = small(monkeypatch, name, x).title
    cases = [
        ({"x": x}, r"cannot be read: .*must hold arrays X and y; it holds \['x'\]"),
        ({"X": x[:3], "y": y[:3]}, rf"{len(x)} rows of .*got X of shape \(3, {x.shape[1]}\)"),
        ({"X": x, "y": y + 50}, RESPONSES.get(name, "")),
    ]
    for arrays, message in cases if name in RESPONSES else cases[:2]:
        np.savez(folder / f"{name}.npz", **arrays)
        with pytest.raises(ValueError, match=f"must hold {title}.*{message}"):
            data_sets.load(name)


@pytest.mark.parametrize("name", PREPARED)
def test_a_file_of_another_shape(name, folder):
    np.savez(folder / f"{name}.npz", X=np.ones((3, 2)), y=np.ones(3))
    with pytest.raises(ValueError, match=rf"{name}.npz must hold .* got X of shape \(3, 2\)"):
        data_sets.load(name)


def test_a_file_of_too_few_columns(folder):
    (folder / "ratings.csv").write_text("user,film\n1,2\n3,4\n")
    with pytest.raises(ValueError, match=r"ratings\.csv must hold MovieLens; it cannot be"):
        data_sets.load("movielens")


@pytest.mark.parametrize("name", SOURCES)
def test_a_missing_file_is_one_sentence(name, folder):
    with pytest.raises(FileNotFoundError) as error:
        data_sets.load(name)
    for part in (*SOURCES[name].files, str(folder), "EWSG_JAX_DATA names", "comes from"):
        assert part in str(error.value)
    with pytest.raises(FileNotFoundError, match=r"found no file .*other\.csv.* comes from"):
        data_sets.DATA_SETS[name](folder / "other.csv")


@pytest.mark.parametrize("name", SOURCES)
def test_the_library_says_where_it_is(name):
    with pytest.raises(AttributeError, match=rf"no {name} any more: benchmarks/data_sets\.py"):
        getattr(ewsg.datasets, name)
    with pytest.raises(ValueError, match=f"must be one of 'breast_cancer', .*; got '{name}'"):
        ewsg.datasets.load(name)


def test_those_of_the_library_are_among_them():
    assert data_sets.load("breast_cancer").num_rows == 569
    with pytest.raises(ValueError, match=r"must be one of breast_cancer, .*; got 'flowers'"):
        data_sets.load("flowers")


@pytest.mark.parametrize(
    ("name", "separator", "header"),
    [
        ("ratings.dat", "::", ""),
        ("ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
        ("u.data", "\t", ""),
    ],
)
def test_movielens_numbers_people_and_films(name, separator, header, folder):
    rows = [[7, 30, 4, 978300760], [2, 10, 5, 978300761], [7, 10, 1, 978300762]]
    (folder / name).write_text(header + columns(rows, separator=separator))
    for data in (data_sets.load("movielens"), data_sets.movielens(folder / name)):
        np.testing.assert_array_equal(data.x, [[1, 1], [0, 0], [1, 0]])
        np.testing.assert_array_equal(data.y, [4, 5, 1])
        assert data.source.endswith(name)
    np.savez(folder / "movielens.npz", X=np.ones((2, 2), int), y=np.array([1.0, 9.0]))
    with pytest.raises(ValueError, match=r"a rating of at most 5 \(a person, a film and a rating"):
        data_sets.movielens()


# Known by a checksum.


@pytest.fixture
def prepared(folder, monkeypatch):
    """The path of Parkinsons, with four rows, and its features and responses."""
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([0, 1, 1, 0], np.uint8)
    small(monkeypatch, "parkinsons", x, dtypes=KINDS, checksum=checksum(x, y, KINDS))
    return folder / "parkinsons.npz", x, y


def test_a_file_is_read_whatever_its_order_in_memory(prepared):
    path, x, y = prepared
    np.savez(path, X=np.asfortranarray(x), y=y, feature_names=np.array(["a", "b", "c"]))
    data = data_sets.load("parkinsons")
    np.testing.assert_array_equal(data.x, x)
    np.testing.assert_array_equal(data.y, y)
    assert data.feature_names == ("a", "b", "c")
    assert data.x.flags.c_contiguous


def test_one_number_that_differs_is_told(prepared):
    path, x, y = prepared
    for arrays in ({"X": x + np.eye(4, 3) * 1e-6, "y": y}, {"X": x, "y": 1 - y}):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match="must hold Parkinsons, whose checksum begins with"):
            data_sets.load("parkinsons")


# The real ones, where they are; a wrong EWSG_JAX_DATA fails, none skips (tests/conftest.py).


@pytest.mark.real_data
@pytest.mark.parametrize("name", PREPARED)
def test_the_real_one(name):
    known, data = SOURCES[name], data_sets.load(name)
    assert data.x.shape == known.shape
    assert len(set(data.feature_names)) == known.shape[1]
    assert np.isfinite(data.x).all()
