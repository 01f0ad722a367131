"""Whether the rows of a model from elsewhere are independent given its parameters."""

from typing import Any

import jax
import numpy as np

from ewsg_jax.base.typing import Position

ALL = "all"
"""The `rows` of a model whose data are one datum."""
ONE_DATUM = f"give rows={ALL!r}, which takes all data as one datum"
ROW = "row"
"""The name of the row's own number in the data, which rows with an effect of their own need."""


def away_from(position: Position) -> Position:
    """Return a position near a start, at which an effect may be 0."""
    random = np.random.default_rng(0)
    return jax.tree.map(lambda x: x + 0.1 * random.normal(size=x.shape).astype(x.dtype), position)


def batches_to_compare(num_rows: int) -> tuple[np.ndarray, ...]:
    """Return numbers of rows whose densities must be those among all rows, whatever the batch: some
    together, in another order, and by themselves.
    """
    few = np.random.default_rng(0).permutation(num_rows)[:5]
    return few, few[::-1], few[:1], few[-1:]


def is_close(values: Any, expected: Any) -> bool:
    """Return whether log densities agree but for rounding in float32."""
    values, expected = np.asarray(values, np.float64), np.asarray(expected, np.float64)
    size = max(1.0, np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    return bool(np.allclose(values, expected, rtol=0, atol=1e-4 * size, equal_nan=True))
