"""What data sets of numbers and a response of two classes have in common."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import XY, read


def two_classes(
    path: Path,
    read_text: Callable[[Path], XY],
    *,
    name: str,
    title: str,
    source: str,
    num_rows: int,
    feature_names: tuple[str, ...],
) -> Dataset:
    """Read a data set of so many rows and of features of these names, with a response of 0 or 1.

    Raises:
        ValueError: the file holds something else.
    """
    x, y = read(path, title, read_text)
    shape = num_rows, len(feature_names)
    if x.shape != shape or y.shape != shape[:1] or set(np.unique(y)) != {0, 1}:
        raise ValueError(
            f"{path} must hold {title}: {shape[0]} rows of {shape[1]} features and a response of two classes; got "
            f"X of shape {x.shape} and y of shape {y.shape}"
        )
    return Dataset(
        x=np.ascontiguousarray(x),
        y=y.astype(np.int8),
        feature_names=feature_names,
        name=name,
        source=f"{source}, from {path.name}",
    )
