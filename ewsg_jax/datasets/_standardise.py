"""Features with mean 0 and standard deviation 1 over the training rows."""

import dataclasses

import numpy as np

from ewsg_jax.datasets.dataset import Dataset, check_parts


def standardise(train: Dataset, test: Dataset) -> tuple[Dataset, Dataset]:
    """Subtract from each feature its mean over the training rows and divide by its standard deviation there.

    A feature that is constant over the training rows says nothing about the response: it becomes zero in both
    parts.

    Args:
        train: the rows that the means and standard deviations come from.
        test: rows scaled by the same numbers.

    Raises:
        TypeError, ValueError: an argument is no data set, its features are not finite, or those of the two differ.

    Example:
        >>> import ewsg_jax as ewsg
        >>> train, test = ewsg.datasets.split(ewsg.datasets.breast_cancer(), 0.2, seed=0)
        >>> train, test = ewsg.datasets.standardise(train, test)
        >>> bool(abs(train.x.mean(0)).max() < 1e-6), train.x.dtype
        (True, dtype('float32'))
    """
    check_parts(train, test)
    mean = train.x.mean(axis=0, dtype=np.float64)
    scale = train.x.std(axis=0, dtype=np.float64)
    constant = scale <= 1e-12 * np.maximum(np.abs(mean), 1)
    factor = np.where(constant, 0.0, 1 / np.where(constant, 1.0, scale))

    def scaled(dataset: Dataset) -> Dataset:
        return dataclasses.replace(dataset, x=((dataset.x - mean) * factor).astype(np.float32))

    return scaled(train), scaled(test)
