"""Letter recognition from either file, some letters, and what is none; real data if there."""

import dataclasses

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.datasets.table import SOURCES

TEXT = "ZADAZ"


@pytest.fixture
def small_letter(monkeypatch, tmp_path):
    """A folder, features and responses of the form of letter recognition with 5 rows."""
    monkeypatch.setitem(SOURCES, "letter", dataclasses.replace(SOURCES["letter"], shape=(5, 16)))
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    return tmp_path, np.arange(80).reshape(5, 16), np.array([25, 0, 3, 0, 25])


def test_from_npz_and_from_text(small_letter):
    folder, x, y = small_letter
    lines = [",".join([one, *map(str, row)]) for one, row in zip(TEXT, x, strict=True)]
    (folder / "letter-recognition.data").write_text("\n".join(lines))
    from_text = ewsg.datasets.letter()
    np.savez(folder / "letter.npz", X=x, y=y)
    for data in (from_text, ewsg.datasets.load("letter")):
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.y, y)
        assert len(data.feature_names) == 16
    assert from_text.source.endswith(".data")


def test_some_letters(small_letter):
    folder, x, y = small_letter
    np.savez(folder / "letter.npz", X=x, y=y)
    data = ewsg.datasets.letter(letters="ZA")
    np.testing.assert_array_equal(data.x, x[[0, 1, 3, 4]])
    np.testing.assert_array_equal(data.y, [0, 1, 1, 0])
    assert "ZA" in data.source


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3)}, "cannot be read"),
        ({"X": np.zeros((3, 16)), "y": np.ones(3)}, r"got X of shape \(3, 16\)"),
        ({"X": np.zeros((5, 16)), "y": np.arange(22, 27)}, "a letter"),
    ],
)
def test_a_file_that_is_not_letter(small_letter, arrays, message):
    np.savez(small_letter[0] / "letter.npz", **arrays)
    with pytest.raises(ValueError, match=f"must hold letter recognition.*{message}"):
        ewsg.datasets.letter()


@pytest.mark.parametrize("letters", ["", "AA", "ab"])
def test_letters_must_be_different_capitals(letters):
    with pytest.raises(ValueError, match="letters must be a string of different capital letters"):
        ewsg.datasets.letter(letters=letters)


@pytest.mark.real_data
def test_letter_is_the_published_data():
    data = ewsg.datasets.letter()
    assert data.x.shape == (20_000, 16)
    assert np.bincount(data.y)[[0, 8, 25]].tolist() == [789, 755, 734]
    np.testing.assert_array_equal(data.x[0], [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8])
    np.testing.assert_array_equal(data.y[:5], [19, 8, 3, 13, 6])
