"""Letter recognition: 20,000 × 16, printed capital letters (Frey & Slate 1991)."""

import string
from pathlib import Path

import numpy as np

from ewsg_jax import _check
from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import XY, find, read

NUM_ROWS, NUM_FEATURES = 20_000, 16
ORIGIN = (
    "Letter recognition comes from the UCI archive, https://archive.ics.uci.edu/dataset/59/letter+recognition: "
    "put its letter-recognition.data there"
)
NAMES = (
    "x_box",
    "y_box",
    "width",
    "height",
    "on_pixels",
    "x_mean",
    "y_mean",
    "x_variance",
    "y_variance",
    "xy_correlation",
    "xxy_correlation",
    "xyy_correlation",
    "x_edges",
    "x_edges_y_correlation",
    "y_edges",
    "y_edges_x_correlation",
)


def letter(*, letters: str = string.ascii_uppercase) -> Dataset:
    """Return the rows of these letters: sixteen measurements, and y the place of the row's letter in `letters`.

    The file lies in the folder that the environment variable EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax:
    `letter.npz` (arrays `X` and `y`, 0 for A to 25 for Z), or `letter-recognition.data` as the UCI archive gives
    it.

    Args:
        letters: which capital letters, each once; default all 26.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        TypeError, ValueError: the file is not letter recognition, or `letters` are no different capital letters.
    """
    takes = "letters must be a text of different capital letters from A to Z, at least one"
    if not isinstance(letters, str):
        raise TypeError(f"{takes}; got {_check.describe(letters)}")
    if not letters or len(set(letters)) < len(letters) or not set(letters) <= set(string.ascii_uppercase):
        raise ValueError(f"{takes}; got {letters!r}")
    path = find(("letter.npz", "letter-recognition.data"), ORIGIN)
    x, y = read(path, "letter recognition", _read_text)
    if x.shape != (NUM_ROWS, NUM_FEATURES) or y.shape != (NUM_ROWS,) or not set(np.unique(y)) <= set(range(26)):
        raise ValueError(
            f"{path} must hold letter recognition: {NUM_ROWS} rows of {NUM_FEATURES} features and a letter; got X "
            f"of shape {x.shape} and y of shape {y.shape}"
        )
    places = np.full(26, -1)
    places[[string.ascii_uppercase.index(one) for one in letters]] = np.arange(len(letters))
    place = places[y.astype(int)]
    return Dataset(
        x=np.ascontiguousarray(x[place >= 0]),
        y=place[place >= 0].astype(np.int8),
        feature_names=NAMES,
        name="letter",
        source=f"UCI letter recognition (Frey & Slate 1991), the letters {letters}, from {path.name}",
    )


def _read_text(path: Path) -> XY:
    """Features and letters, 0 for A to 25 for Z."""
    table = np.loadtxt(path, dtype=str, delimiter=",", ndmin=2)
    kinds = np.array([string.ascii_uppercase.index(one) for one in table[:, 0]])
    return table[:, 1:].astype(np.int16), kinds
