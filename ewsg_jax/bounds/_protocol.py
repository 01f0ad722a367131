"""What a lower bound of the likelihood is."""

import abc
from collections.abc import Callable
from typing import Generic, TypeVar

import jax

from ewsg_jax.base import checks
from ewsg_jax.base.modules import Part, module
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.rows._view import num_rows

Summary = TypeVar("Summary")
"""What a bound's sum over all data depends on: a pytree of arrays, of a size without n."""


@module
class Bound(Part, abc.ABC, Generic[Summary]):
    """A lower bound Bᵢ(θ) of each datum's likelihood Lᵢ(θ), with Bᵢ(c) = Lᵢ(c) at a point c.

    Near c, Σ log Bᵢ is large and its changes are small, and log Lᵢ − log Bᵢ is a small difference
    of large numbers: so a bound returns differences, which lose no digits. Write all three methods.
    """

    @abc.abstractmethod
    def summarize(self, center: Position, data: Data, chunk_size: int) -> Summary:
        """Return the summary: one pass over the data, made once."""

    @abc.abstractmethod
    def total(self, position: Position, center: Position, summary: Summary) -> Array:
        """Return Σᵢ (log Bᵢ(position) − log Bᵢ(center)), whose cost is free of n."""

    @abc.abstractmethod
    def gaps(self, position: Position, center: Position, rows: Data) -> Array:
        """Return log Lᵢ − log Bᵢ of each row, shape (b,), at least 0 up to rounding."""


Inputs = Callable[[Data], Array]
"""A function of a datum, such as `lambda row: row["x"]`."""


def check_bound(bound: Bound, position: Position, data: Data) -> None:
    """Check by shapes that a bound goes with a position and data.

    Raises:
        ValueError: a function of the bound fails on them, or does not return what it must.
    """
    takes = "bound must be one for this position and these data"
    at, rows = checks.shapes(position), checks.shapes(data)
    try:
        summary = jax.eval_shape(
            lambda center, data: bound.summarize(center, data, num_rows(data)), at, rows
        )
        total = jax.eval_shape(bound.total, at, at, summary)
        gaps = jax.eval_shape(bound.gaps, at, at, rows)
    except Exception as error:
        raise ValueError(f"{takes}; it failed on them: {checks.reason(error)}") from error
    if total.shape != () or gaps.shape != (num_rows(data),):
        raise ValueError(
            f"{takes}, with a scalar for its total and one number for each of {num_rows(data)} "
            f"rows; got {checks.describe(total)} and {checks.describe(gaps)}"
        )


def row_x(row: PyTree) -> Array:
    """Return the inputs of a datum, its "x"."""
    return row["x"]


def row_y(row: PyTree) -> Array:
    """Return the target of a datum, its "y"."""
    return row["y"]
