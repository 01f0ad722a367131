"""Each data set from every file that it has, in a small form; and what is said of another file."""

import dataclasses
import gzip
import io

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets._table import SOURCES


def columns(*parts, separator=","):
    """The text of a table."""
    rows = np.column_stack([np.asarray(part).astype(object) for part in parts])
    return "\n".join(separator.join(map(str, row)) for row in rows) + "\n"


X, Y = np.arange(96.0).reshape(6, 16), np.array([1, 0, 0, 1, 1, 0])
KINDS_OF_FOREST, LETTERS = np.arange(14) % 7 + 1, np.array([25, 0, 3, 0, 25, 1])
FILES = {
    "covertype": [
        (np.arange(14 * 54).reshape(14, 54), KINDS_OF_FOREST, "covtype.data", columns),
    ],
    "heart": [
        (X[:, :13], Y, "heart.dat", lambda x, y: columns(x, y + 1, separator=" ")),
    ],
    "letter": [
        (
            X.astype(int),
            LETTERS,
            "letter-recognition.data",
            lambda x, y: columns([chr(65 + i) for i in y], x),
        ),
    ],
    "pima": [(X[:, :8], Y, "pima-indians-diabetes.csv", columns)],
}
"""Rows and responses of each, its other files, and what makes the text of one."""
RESPONSES = {
    "covertype": "a class from 1 to 7",
    "letter": "a letter, 0 to 25",
    "heart": "a response of two classes",
    "pima": "a response of two classes",
}


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
    (folder / other).write_text(text_of(x, y))
    from_text = getattr(ewsg.datasets, name)()
    np.savez(folder / f"{name}.npz", X=x, y=y)
    for data in (from_text, ewsg.datasets.load(name)):
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.y, y == 2 if name == "covertype" else y)
        assert len(data.feature_names) == x.shape[1]
        assert data.name == name
    assert other in from_text.source


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_something_else(name, folder, monkeypatch):
    x, y = FILES[name][0][:2]
    title, load = small(monkeypatch, name, x).title, getattr(ewsg.datasets, name)
    cases = [
        ({"x": x}, r"cannot be read: .*must hold arrays X and y; it holds \['x'\]"),
        ({"X": x[:3], "y": y[:3]}, rf"{len(x)} rows of .*got X of shape \(3, {x.shape[1]}\)"),
        ({"X": x, "y": y + 50}, RESPONSES[name]),
    ]
    for arrays, message in cases:
        np.savez(folder / f"{name}.npz", **arrays)
        with pytest.raises(ValueError, match=f"must hold {title}.*{message}"):
            load()


def damaged(path, content):
    """Write a file with some bytes inverted."""
    wrong = bytes(255 - byte for byte in content[500:550])
    path.write_bytes(content[:500] + wrong + content[550:])


def compressed(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


DAMAGED = {
    "compressed arrays": (
        "heart.npz",
        lambda path: damaged(path, compressed(X=np.arange(20_000).reshape(-1, 2), y=np.ones(1))),
    ),
    "compressed text": (
        "covtype.data.gz",
        lambda path: damaged(path, gzip.compress(columns(np.arange(9_000)).encode())),
    ),
    "rows of unlike length": ("heart.dat", lambda path: path.write_text("1 2 3\n1 2\n")),
    "words for features": (
        "heart.npz",
        lambda path: np.savez(path, X=np.array([["a", "b"]]), y=np.ones(1)),
    ),
    "words for a response": (
        "heart.npz",
        lambda path: np.savez(path, X=np.ones((1, 2)), y=np.array(["a"])),
    ),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_file_that_cannot_be_read_is_named(kind, folder):
    file, write = DAMAGED[kind]
    write(folder / file)
    name = "covertype" if file.startswith("cov") else "heart"
    with pytest.raises(ValueError, match=f"{file} must hold {SOURCES[name].title}; it cannot be"):
        ewsg.datasets.load(name)


@pytest.mark.parametrize("name", SOURCES)
def test_a_missing_file_is_one_sentence(name, folder):
    with pytest.raises(FileNotFoundError) as error:
        getattr(ewsg.datasets, name)()
    for part in (*SOURCES[name].files, str(folder), "EWSG_JAX_DATA names", "comes from"):
        assert part in str(error.value)


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in ("covertype", "letter")])
def test_a_missing_file_that_was_named(name, folder):
    with pytest.raises(FileNotFoundError, match=r"found no file .*other\.csv.* comes from"):
        getattr(ewsg.datasets, name)(folder / "other.csv")


def test_the_kind_of_forest_that_counts_as_1(folder, monkeypatch):
    x, y = FILES["covertype"][0][:2]
    small(monkeypatch, "covertype", x)
    np.savez(folder / "covertype.npz", X=x, y=y)
    np.testing.assert_array_equal(ewsg.datasets.covertype(positive_class=7).y, y == 7)


def test_some_letters(folder, monkeypatch):
    x, y = FILES["letter"][0][:2]
    small(monkeypatch, "letter", x)
    np.savez(folder / "letter.npz", X=x, y=y)
    data = ewsg.datasets.letter(letters="ZA")
    np.testing.assert_array_equal(data.x, x[[0, 1, 3, 4]])
    np.testing.assert_array_equal(data.y, [0, 1, 1, 0])
    assert "ZA" in data.source


# The real ones, where they are; a wrong EWSG_JAX_DATA fails, none skips (tests/conftest.py).


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "n", "total", "first"),
    [
        ("covertype", 581_012, 283_301, [2596, 51, 3, 258]),  # lodgepole pine
        ("heart", 270, 120, [70, 1, 4, 130, 322, 0, 2, 109, 0, 2.4, 2, 3, 3]),
        ("pima", 768, 268, [6, 148, 72, 35, 0, 33.6, 0.627, 50]),
    ],
)
def test_the_published_data(name, n, total, first):
    data = ewsg.datasets.load(name)
    assert data.x.shape == SOURCES[name].shape
    assert len(data.x) == n
    assert data.y.sum(dtype=int) == total
    np.testing.assert_allclose(data.x[0, : len(first)], first, rtol=1e-6)


@pytest.mark.real_data
def test_columns_and_rows_of_covertype():
    data = ewsg.datasets.covertype()
    assert set(np.unique(data.x[:, 10:])) == {0, 1}
    np.testing.assert_array_equal(data.x[:, 10:14].sum(1), 1)
    np.testing.assert_array_equal(data.x[:, 14:].sum(1), 1)
    train, test = ewsg.datasets.split(data, 0.2, seed=0)
    assert (train.num_rows, test.num_rows) == (464_809, 116_203)


@pytest.mark.real_data
def test_rows_and_classes_of_letters():
    data = ewsg.datasets.letter()
    assert data.x.shape == (20_000, 16)
    np.testing.assert_array_equal(data.x[0], [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8])
    assert np.bincount(data.y)[[0, 8, 25]].tolist() == [789, 755, 734]
    np.testing.assert_array_equal(data.y[:5], [19, 8, 3, 13, 6])
