"""MovieLens: ratings of films by people (Harper & Konstan 2015)."""

from pathlib import Path

import numpy as np

from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import XY, find, read

NAMES = "movielens.npz", "ratings.dat", "ratings.csv", "u.data"
ORIGIN = (
    "MovieLens comes from https://grouplens.org/datasets/movielens: put the ratings.dat, ratings.csv or u.data "
    "of one of its sets there"
)
SEPARATORS = {".dat": "::", ".csv": ",", ".data": "\t"}


def movielens(path: Path | str | None = None) -> Dataset:
    """Return the ratings, y, with the person and the film of each, both numbered from 0 in the order of their own.

    Args:
        path: `ratings.dat` (1M, 10M), `ratings.csv` (20M and later) or `u.data` (100K) as GroupLens gives it, or an
            npz with arrays `X`, of two columns, and `y`. Default: the first of these in the folder that the
            environment variable EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax; the npz is called `movielens.npz`.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        TypeError: `path` is no path.
        ValueError: it holds no ratings.
    """
    found = find(NAMES, ORIGIN, path)
    who, rating = read(found, "MovieLens", _read_text)
    if (
        who.ndim != 2
        or who.shape[1] != 2
        or rating.shape != who.shape[:1]
        or not np.all((rating > 0) & (rating <= 5))
    ):
        raise ValueError(
            f"{found} must hold MovieLens: a person, a film and a rating of at most 5 a row; got X of shape "
            f"{who.shape} and y of shape {rating.shape}"
        )
    numbered = [np.unique(column, return_inverse=True)[1].ravel() for column in who.T]
    return Dataset(
        x=np.stack(numbered, axis=1).astype(np.int32),
        y=rating.astype(np.float32),
        feature_names=("person", "film"),
        name="movielens",
        source=f"MovieLens (Harper & Konstan 2015), from {found.name}",
    )


def _read_text(path: Path) -> XY:
    """Person and film, and the rating."""
    separator = SEPARATORS.get(path.suffix, ",")
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [line.split(separator)[:3] for line in lines[path.suffix == ".csv" :] if line.strip()]
    table = np.array(rows, dtype=float)
    return table[:, :2].astype(np.int64), table[:, 2]
