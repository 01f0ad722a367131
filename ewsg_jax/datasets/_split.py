"""Rows to fit on and rows to judge by."""

import math
import numbers

import numpy as np

from ewsg_jax import _check
from ewsg_jax.datasets.dataset import Dataset


def split(dataset: Dataset, test_fraction: float, seed: int) -> tuple[Dataset, Dataset]:
    """Split the rows at random into training and test rows.

    The test set has ⌈n·fraction⌉ rows: for Covertype and 0.2, 116,203, which leaves 464,809 to train on.

    Args:
        dataset: the data set.
        test_fraction: share of the rows held out, above 0 and below 1.
        seed: of the shuffle; the same seed gives the same split.

    Raises:
        TypeError, ValueError: the data set is none, the seed is not a whole number from 0 on, the fraction is not
            between 0 and 1, or one part would be empty.

    Example:
        >>> import ewsg_jax as ewsg
        >>> train, test = ewsg.datasets.split(ewsg.datasets.breast_cancer(), 0.2, seed=0)
        >>> train.num_rows, test.num_rows
        (455, 114)
    """
    _check.instance("dataset", dataset, Dataset, "as ewsg_jax.datasets.load returns")
    takes = "test_fraction must be a number above 0 and below 1"
    if isinstance(test_fraction, bool) or not isinstance(test_fraction, numbers.Real):
        raise TypeError(f"{takes}; got {_check.describe(test_fraction)}")
    if not 0 < test_fraction < 1:
        raise ValueError(f"{takes}; got {test_fraction}")
    _check.integer("seed", seed, minimum=0)
    # A product such as 10 · 0.3 = 3.0000000000000004 is meant to be 3.
    num_test = math.ceil(dataset.num_rows * float(test_fraction) - 1e-9)
    if not 0 < num_test < dataset.num_rows:
        raise ValueError(f"{takes} that leaves rows in both parts of {dataset.num_rows}; got {test_fraction}")
    order = np.random.default_rng(seed).permutation(dataset.num_rows)
    return dataset.take(order[num_test:]), dataset.take(order[:num_test])
