"""Pima: 768 × 8, diabetes among women of the Pima (Smith et al. 1988)."""

from pathlib import Path

import numpy as np

from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import XY, find
from ewsg_jax.datasets.two_classes import two_classes

NUM_ROWS = 768
ORIGIN = (
    "Pima comes from the NIDDK by way of the UCI archive, which withdrew it; copies are called "
    "pima-indians-diabetes.csv: put one there"
)
NAMES = (
    "pregnancies",
    "glucose",
    "blood_pressure",
    "skin_thickness",
    "insulin",
    "body_mass_index",
    "pedigree",
    "age",
)


def pima() -> Dataset:
    """Return Pima: eight measurements, and y = 1 for diabetes within five years.

    Zeros of glucose, blood pressure, skin thickness, insulin and body mass index stand for values that are missing;
    they are left as they are.

    The file lies in the folder that the environment variable EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax:
    `pima.npz` (arrays `X` and `y`), or `pima-indians-diabetes.csv` without a heading.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Pima.
    """
    return two_classes(
        find(("pima.npz", "pima-indians-diabetes.csv"), ORIGIN),
        _read_text,
        name="pima",
        title="Pima",
        source="Pima Indians diabetes (NIDDK; Smith et al. 1988)",
        num_rows=NUM_ROWS,
        feature_names=NAMES,
    )


def _read_text(path: Path) -> XY:
    table = np.loadtxt(path, delimiter=",", ndmin=2)
    return table[:, :-1], table[:, -1]
