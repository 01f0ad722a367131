"""Whether the rows of a model from elsewhere are independent given its parameters."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ewsg_jax.base.typing import Data, Position
from ewsg_jax.vectors.row_subsets import take_rows

ALL = "all"
"""The `rows` of a model whose data are one datum."""
ONE_DATUM = f"give rows={ALL!r}, which takes all data as one datum"


def away_from(position: Position) -> Position:
    """Return a position near a start, where an effect may be 0."""
    random = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: x + 0.1 * random.normal(size=x.shape).astype(x.dtype), position
    )


def dependent_row(
    of_rows: Callable[[Position, Data], Any], of_all: Any, position: Position, data: Data
) -> tuple[int, int] | None:
    """Return a row whose log density in a batch is not that among all rows, and the batch's length;
    None if there is none.

    Some rows are evaluated together, in another order, and one of them many times. A posterior
    evaluates rows by themselves when it is checked.

    Args:
        of_rows: `of_rows(position, rows) -> values`, shape (b,).
        of_all: the log density of each of the n rows in the model on all of them.
        position: where both are evaluated.
        data: the n rows.
    """
    of_all = np.asarray(of_all)
    some = np.random.default_rng(0).permutation(len(of_all))[:5]
    # All of one length, for which one program is compiled.
    for numbers in (some, some[::-1], np.full_like(some, some[0])):
        found = np.asarray(of_rows(position, take_rows(data, numbers)))
        if not is_close(found, of_all[numbers]):
            return int(numbers[np.argmax(np.abs(found - of_all[numbers]))]), len(numbers)
    return None


def is_close(found: Any, expected: Any) -> bool:
    """Return whether log densities agree but for rounding in float32."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    size = max(1.0, np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    return bool(np.allclose(found, expected, rtol=0, atol=1e-4 * size, equal_nan=True))
