"""A summary as columns: for pandas, and in a file of comma-separated values."""

import csv
import io
import numbers
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ewsg_jax import _check, optional
from ewsg_jax.files import path_of, write_whole

COORDINATE = "coordinate"
"""What the column of names is called."""


def probabilities_of(quantiles: Any) -> np.ndarray:
    """Check and return the probabilities of quantiles.

    Raises:
        TypeError, ValueError: they are no different numbers from 0 to 1.
    """
    takes = "quantiles must be a list of different probabilities, from 0 to 1"
    if isinstance(quantiles, str) or not isinstance(quantiles, Collection):
        raise TypeError(f"{takes}; got {_check.describe(quantiles)}")
    for each in quantiles:
        if isinstance(each, bool) or not isinstance(each, numbers.Real):
            raise TypeError(f"{takes}; got {_check.describe(each)} in it")
        if not 0 <= float(each) <= 1:
            raise ValueError(f"{takes}; got {each} in it")
    probabilities = np.array(list(quantiles), np.float64)
    if len(np.unique(probabilities)) < len(probabilities):
        raise ValueError(f"{takes}; got {_check.describe(quantiles)}")
    return probabilities


def percent(probability: float) -> str:
    """Return what the quantile of a probability is called: 5% for 0.05."""
    return f"{100 * probability:.10g}%"


def to_pandas(names: Sequence[str], columns: dict[str, np.ndarray]) -> Any:
    """Return a DataFrame of columns, a row for each name.

    Raises:
        ImportError: pandas is not installed.
    """
    pd = optional.module("pandas", "to_pandas")
    return pd.DataFrame(columns, index=pd.Index(names, name=COORDINATE))


def to_csv(path: Any, names: Sequence[str], columns: dict[str, np.ndarray]) -> None:
    """Write columns to a file, a line for each name.

    Raises:
        TypeError: the path is none.
        OSError: the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([COORDINATE, *columns])
    for name, *row in zip(names, *columns.values(), strict=True):
        # Python's shortest text that is read back as the same number.
        writer.writerow([name, *map(float, row)])
    write_whole(path_of(path), lambda file: file.write(text.getvalue().encode()))
