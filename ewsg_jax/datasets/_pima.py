"""Pima: 768 × 8, diabetes among women of the Pima (Smith et al. 1988)."""

from pathlib import Path

import numpy as np

from ewsg_jax.datasets._dataset import Dataset
from ewsg_jax.datasets._folder import XY, find, read

NUM_ROWS, NUM_FEATURES = 768, 8
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
    path = find(("pima.npz", "pima-indians-diabetes.csv"), ORIGIN)
    x, y = read(path, "Pima", _read_text)
    if x.shape != (NUM_ROWS, NUM_FEATURES) or y.shape != (NUM_ROWS,) or set(np.unique(y)) != {0, 1}:
        raise ValueError(
            f"{path} must hold Pima: {NUM_ROWS} rows of {NUM_FEATURES} features and a response of 0 or 1; got X of "
            f"shape {x.shape} and y of shape {y.shape}"
        )
    return Dataset(
        x=np.ascontiguousarray(x),
        y=y.astype(np.int8),
        feature_names=NAMES,
        name="pima",
        source=f"Pima Indians diabetes (NIDDK; Smith et al. 1988), from {path.name}",
    )


def _read_text(path: Path) -> XY:
    table = np.loadtxt(path, delimiter=",", ndmin=2)
    return table[:, :-1], table[:, -1]
