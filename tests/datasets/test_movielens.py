"""MovieLens from each of its files, and what is none."""

import numpy as np
import pytest

import ewsg_jax as ewsg

ROWS = [(7, 30, 4, 978300760), (2, 10, 5, 978300761), (7, 10, 1, 978300762)]
PEOPLE_AND_FILMS = [[1, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize(
    ("name", "separator", "header"),
    [
        ("ratings.dat", "::", ""),
        ("ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
        ("u.data", "\t", ""),
    ],
)
def test_from_each_file(name, separator, header, monkeypatch, tmp_path):
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    (tmp_path / name).write_text(
        header + "".join(separator.join(map(str, row)) + "\n" for row in ROWS)
    )
    for data in (ewsg.datasets.load("movielens"), ewsg.datasets.movielens(tmp_path / name)):
        np.testing.assert_array_equal(data.x, PEOPLE_AND_FILMS)
        np.testing.assert_array_equal(data.y, [4, 5, 1])
        assert data.source.endswith(name)


def test_what_is_not_there_or_none_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"MovieLens comes from https://grouplens"):
        ewsg.datasets.movielens()
    with pytest.raises(FileNotFoundError, match=r"found no file .*other\.dat.*grouplens"):
        ewsg.datasets.movielens(tmp_path / "other.dat")
    np.savez(tmp_path / "movielens.npz", X=np.ones((2, 2), int), y=np.array([1.0, 9.0]))
    with pytest.raises(
        ValueError, match=r"a rating of at most 5 \(a person, a film and a rating a row\)"
    ):
        ewsg.datasets.movielens()
    (tmp_path / "ratings.csv").write_text("userId,movieId\n1,x\n")
    with pytest.raises(ValueError, match="must hold MovieLens; it cannot be read"):
        ewsg.datasets.movielens(tmp_path / "ratings.csv")
