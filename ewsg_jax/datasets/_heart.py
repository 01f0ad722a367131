"""Statlog heart: 270 × 13, heart disease among patients sent for angiography (Detrano et al. 1989)."""

from pathlib import Path

import numpy as np

from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import XY, find
from ewsg_jax.datasets.two_classes import two_classes

NUM_ROWS = 270
ORIGIN = (
    "Statlog heart comes from the UCI archive, https://archive.ics.uci.edu/dataset/145/statlog+heart: "
    "put its heart.dat there"
)
NAMES = (
    "age",
    "sex",
    "chest_pain",
    "resting_blood_pressure",
    "cholesterol",
    "fasting_blood_sugar",
    "resting_ecg",
    "max_heart_rate",
    "exercise_angina",
    "st_depression",
    "st_slope",
    "major_vessels",
    "thal",
)


def heart() -> Dataset:
    """Return Statlog heart: thirteen measurements, and y = 1 for heart disease.

    Categories (`chest_pain`, `resting_ecg`, `thal`) are the numbers that the file codes them with.

    The file lies in the folder that the environment variable EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax:
    `heart.npz` (arrays `X` and `y`, 0 and 1), or `heart.dat` as the UCI archive gives it, with classes 1 and 2.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Statlog heart.
    """
    return two_classes(
        find(("heart.npz", "heart.dat"), ORIGIN),
        _read_text,
        name="heart",
        title="Statlog heart",
        source="UCI Statlog heart (Detrano et al. 1989)",
        num_rows=NUM_ROWS,
        feature_names=NAMES,
    )


def _read_text(path: Path) -> XY:
    """Features and classes 0 and 1."""
    table = np.loadtxt(path, ndmin=2)
    return table[:, :-1], table[:, -1] - 1
