"""Principal components of the training features, each scaled to variance 1."""

import dataclasses
from typing import NamedTuple

import numpy as np

from ewsg_jax import _check
from ewsg_jax.datasets.dataset import Dataset, check_parts

NULL = 1e-8
"""Directions whose variance is below this share of the largest are dropped: rounding, not data."""


class Whitened(NamedTuple):
    """The two parts in whitened features.

    Attributes:
        train: training rows, of covariance I.
        test: test rows, by the same map.
        num_dropped: directions without variance, dropped.
    """

    train: Dataset
    test: Dataset
    num_dropped: int


def whiten(train: Dataset, test: Dataset) -> Whitened:
    """Rotate the features to their principal components over the training rows, scaled to variance 1.

    A spherical prior on whitened weights is another prior than a spherical one on the original weights.

    Args:
        train: the rows that the components come from; best standardised before.
        test: rows mapped by the same numbers.

    Raises:
        TypeError, ValueError: an argument is no data set, its features are not finite, those of the two differ, or
            no feature varies.

    Example:
        >>> import numpy as np, ewsg_jax as ewsg
        >>> train, test = ewsg.datasets.split(ewsg.datasets.breast_cancer(), 0.2, seed=0)
        >>> whitened = ewsg.datasets.whiten(*ewsg.datasets.standardise(train, test))
        >>> bool(np.allclose(np.cov(whitened.train.x.T, bias=True), np.eye(30), atol=1e-3))
        True
    """
    check_parts(train, test)
    mean = train.x.mean(axis=0, dtype=np.float64)
    centred = train.x - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / train.num_rows)
    order = np.argsort(variances)[::-1]
    kept = order[variances[order] > NULL * variances[order[0]]]
    if not kept.size:
        raise ValueError(
            "train must have features that vary over its rows; every one is constant; got "
            f"{_check.describe(train.x)}"
        )
    matrix = directions[:, kept] / np.sqrt(variances[kept])
    names = tuple(f"component_{i}" for i in range(1, kept.size + 1))

    def mapped(dataset: Dataset) -> Dataset:
        x = ((dataset.x - mean) @ matrix).astype(np.float32)
        return dataclasses.replace(dataset, x=x, feature_names=names)

    return Whitened(mapped(train), mapped(test), train.x.shape[1] - kept.size)
