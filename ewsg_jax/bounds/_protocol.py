"""What a lower bound of the likelihood is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from ewsg_jax import _check
from ewsg_jax._rows import num_rows
from ewsg_jax._types import Array, Data, Position, PyTree

Summary = Any
"""What the sum of a bound over all data depends on: a tree of arrays whose size does not depend on n."""


@dataclass(frozen=True, eq=False)
class Bound:
    """A lower bound Bᵢ(θ) of each datum's likelihood Lᵢ(θ), with Bᵢ(c) = Lᵢ(c) at a centre c: pure functions.

    Near the centre Σ log Bᵢ is large and its changes are small, and log Lᵢ − log Bᵢ is a small difference of large
    numbers: so a bound gives differences, which lose no digits.

    Attributes:
        summarize: `summarize(center, data, chunk_size) -> summary`: one pass over the data, made once.
        total: `total(position, center, summary) -> scalar`: Σᵢ (log Bᵢ(position) − log Bᵢ(center)), at a cost that
            does not depend on n.
        gaps: `gaps(position, center, rows) -> (b,)`: log Lᵢ − log Bᵢ of each row, at least 0 up to rounding.
    """

    summarize: Callable[[Position, Data, int], Summary]
    total: Callable[[Position, Position, Summary], Array]
    gaps: Callable[[Position, Position, Data], Array]


Inputs = Callable[[Data], Array]
"""A function of a datum, such as `lambda row: row["x"]`."""


def check_bound(bound: Bound, position: Position, data: Data) -> None:
    """Check by shapes that a bound goes with a position and data.

    Raises:
        ValueError: a function of the bound fails on them, or does not return what it must.
    """
    takes = "bound must be one for this position and these data"
    at, rows = _check.shapes(position), _check.shapes(data)
    try:
        summary = jax.eval_shape(lambda center, data: bound.summarize(center, data, num_rows(data)), at, rows)
        total, gaps = jax.eval_shape(bound.total, at, at, summary), jax.eval_shape(bound.gaps, at, at, rows)
    except Exception as error:
        raise ValueError(f"{takes}; it failed on them: {_check.reason(error)}") from error
    if total.shape != () or gaps.shape != (num_rows(data),):
        raise ValueError(
            f"{takes}, with a scalar for its total and one number for each of {num_rows(data)} rows; got "
            f"{_check.describe(total)} and {_check.describe(gaps)}"
        )


def row_x(row: PyTree) -> Array:
    """Return a datum's inputs, where they are called x."""
    return row["x"]


def row_y(row: PyTree) -> Array:
    """Return a datum's target, where it is called y."""
    return row["y"]
