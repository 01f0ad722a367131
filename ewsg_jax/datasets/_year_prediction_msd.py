"""Year prediction: 515,345 × 90, the timbre of songs and the year of their release (Bertin-Mahieux et al. 2011)."""

import io
import zipfile
from pathlib import Path

import numpy as np

from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import XY, find, read

NUM_ROWS, NUM_FEATURES, TEXT = 515_345, 90, "YearPredictionMSD.txt"
ORIGIN = (
    "YearPredictionMSD comes from the UCI archive, https://archive.ics.uci.edu/dataset/203/yearpredictionmsd: put "
    f"its {TEXT}.zip or {TEXT} there"
)


def year_prediction_msd(path: Path | str | None = None) -> Dataset:
    """Return YearPredictionMSD: means and covariances of timbre, and y, the year of release.

    Args:
        path: `YearPredictionMSD.txt` as the UCI archive gives it, its zip, or an npz with arrays `X` and `y`.
            Default: the first of these in the folder that the environment variable EWSG_JAX_DATA names, else in
            ~/.cache/ewsg_jax; the npz is called `year_prediction_msd.npz`.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        TypeError: `path` is no path.
        ValueError: it is not YearPredictionMSD.
    """
    names = "year_prediction_msd.npz", f"{TEXT}.zip", TEXT
    found = find(names, ORIGIN, path)
    x, y = read(found, "YearPredictionMSD", _read_text)
    if x.shape != (NUM_ROWS, NUM_FEATURES) or y.shape != (NUM_ROWS,):
        raise ValueError(
            f"{found.name} must hold YearPredictionMSD: {NUM_ROWS} rows of {NUM_FEATURES} features and a year; got "
            f"X of shape {x.shape} and y of shape {y.shape}"
        )
    return Dataset(
        x=np.ascontiguousarray(x, np.float32),
        y=np.asarray(y, np.float32),
        feature_names=tuple(f"timbre_{number}" for number in range(1, NUM_FEATURES + 1)),
        name="year_prediction_msd",
        source=f"UCI YearPredictionMSD (Bertin-Mahieux et al. 2011), from {found.name}",
    )


def _read_text(path: Path) -> XY:
    """The year comes first."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(TEXT) as file:
            table = np.loadtxt(io.TextIOWrapper(file), dtype=np.float32, delimiter=",", ndmin=2)
    else:
        table = np.loadtxt(path, dtype=np.float32, delimiter=",", ndmin=2)
    return table[:, 1:], table[:, 0]
