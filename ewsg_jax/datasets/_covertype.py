"""Covertype: 581,012 × 54, seven forest cover types (Blackard & Dean 1999)."""

from pathlib import Path

import numpy as np

from ewsg_jax import _check
from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import XY, find, read

NUM_ROWS, NUM_FEATURES = 581_012, 54
ORIGIN = (
    "Covertype comes from the UCI archive, https://archive.ics.uci.edu/dataset/31/covertype: "
    "put its covtype.data.gz there"
)
QUANTITIES = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)
NAMES = (
    *QUANTITIES,
    *(f"Wilderness_Area{i}" for i in range(1, 5)),
    *(f"Soil_Type{i}" for i in range(1, 41)),
)


def covertype(*, positive_class: int = 2) -> Dataset:
    """Return Covertype as one class against the rest: y = 1 for cover type `positive_class`.

    The EWSG paper says neither how it made the seven classes two nor how it scaled the features; class 2
    (lodgepole pine, 283,301 rows) against the rest is the usual choice.

    The file lies in the folder that the environment variable EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax:
    `covertype.npz` (arrays `X`, integers, and `y`, 1 to 7), or `covtype.data.gz` as the UCI archive gives it.

    Args:
        positive_class: the cover type, 1 to 7, that counts as 1.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Covertype, or `positive_class` is not a whole number from 1 to 7.
    """
    _check.integer("positive_class", positive_class, minimum=1, maximum=7)
    path = find(("covertype.npz", "covtype.data.gz", "covtype.data"), ORIGIN)
    x, kinds = read(path, "Covertype", _read_text)
    if x.ndim != 2 or kinds.shape != x.shape[:1]:
        raise ValueError(f"{path} must hold X of shape (n, d) and y of shape (n,); got {x.shape} and {kinds.shape}")
    if x.shape != (NUM_ROWS, NUM_FEATURES) or set(np.unique(kinds)) != set(range(1, 8)):
        raise ValueError(
            f"{path} must hold Covertype: {NUM_ROWS} rows of {NUM_FEATURES} features and a class from 1 to 7; got "
            f"{x.shape[0]} rows of {x.shape[1]} features and classes {np.unique(kinds)[:10].tolist()}"
        )
    return Dataset(
        x=np.ascontiguousarray(x),
        y=(kinds == positive_class).astype(np.int8),
        feature_names=NAMES,
        name="covertype",
        source=f"UCI Covertype (Blackard & Dean), class {positive_class} against the rest, from {path.name}",
    )


def _read_text(path: Path) -> XY:
    """Features and classes 1 to 7."""
    table = np.loadtxt(path, dtype=np.int16, delimiter=",", ndmin=2)
    return table[:, :-1], table[:, -1]
