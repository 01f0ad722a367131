"""A log likelihood that is written over a batch, and whether its rows are independent in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, products
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.posterior.negative_indices import ASKED_ROWS, moved_position
from ewsg_jax.rows._view import view

BatchedLogLikelihood = Callable[[Any, Data], Array]

_NAME = "batched_log_likelihood"
_CAUSES = (
    "is it a mean or a sum over the batch, does it have a layer over the batch (batch "
    "normalisation in training mode), or do rows depend on the rows before them?"
)


@dataclass(frozen=True)
class OneRow:
    """The log likelihood of one datum, by a batch of one row.

    Attributes:
        batched: `batched(position, rows) -> values` of b rows, shape (b,).
    """

    batched: BatchedLogLikelihood

    def __call__(self, position: Position, datum: Data) -> Array:
        """Return the log likelihood of a datum."""
        rows = jax.tree.map(lambda x: jnp.expand_dims(x, 0), datum)
        return jnp.reshape(self.batched(position, rows), ())


def in_full(function: object, predictor: object) -> BatchedLogLikelihood:
    """Check the argument `batched_log_likelihood`, and return it with products in full.

    Raises:
        TypeError: it is no function, or is given with a linear predictor.
    """
    of_batch = checks.function(_NAME, function, "(position, rows) -> values")
    if predictor is not None:
        raise TypeError(
            f"{_NAME} must be left out with a predictor, by which all rows of a batch are one "
            f"product; got {checks.describe(function)}"
        )
    return products.in_full(of_batch)


def of_rows(batched: BatchedLogLikelihood, position: Position, rows: Data) -> Array:
    """Return the log likelihood of each row, shape (b,), 0 for rows that do not count."""
    seen = view(rows)
    return seen.only_counted(jnp.asarray(batched(position, seen.tree)))


def check_shape(batched: BatchedLogLikelihood, position: Position, datum: Data) -> None:
    """Raise ValueError unless a function returns a number for each row, of shapes alone.

    Args:
        batched: the function.
        position: shapes of a position.
        datum: shapes of one datum.
    """
    # A value for each coordinate of the position, say, has another length for one of the two.
    for count in (3, 1):
        rows = jax.tree.map(lambda x, b=count: jax.ShapeDtypeStruct((b, *x.shape), x.dtype), datum)
        takes = (
            f"{_NAME} must return one floating-point number for each row, shape ({count},) for "
            f"{count} rows"
        )
        try:
            values = jax.eval_shape(lambda *a: jnp.asarray(batched(*a)), position, rows)
        except Exception as error:
            shapes = f"{checks.listed('position', position)}, {checks.listed('rows', rows)}"
            raise ValueError(
                f"{takes}; it failed on them: {checks.reason(error)} ({shapes})"
            ) from error
        if values.shape != (count,) or not jnp.issubdtype(values.dtype, jnp.floating):
            way_out = " (a mean or a sum over the batch is no likelihood of rows)"
            raise ValueError(
                f"{takes}; it returned {checks.describe(values)}"
                f"{way_out if values.shape == () else ''}"
            )


def check_rows(
    batched: BatchedLogLikelihood,
    log_likelihood: Callable[[Any, Data], Array],
    position: Position,
    data: Data,
) -> None:
    """Raise ValueError if some rows have other values in a batch than one by one.

    Args:
        batched: the function of a batch; hashable.
        log_likelihood: the function of one datum; hashable.
        position: a position; values are compared near it, for a position of zeros may hide weights.
        data: the n rows, of which some evenly spaced ones are compared.
    """
    n = view(data).length
    numbers = np.unique(np.linspace(0, n - 1, ASKED_ROWS).astype(int))
    # Those of arrays on the device are taken in the program.
    rows = jax.tree.map(lambda x: x if isinstance(x, jax.Array) else x[numbers], view(data).tree)
    for at in (moved_position(position), position):
        values = _both(batched, log_likelihood, at, rows, numbers)
        together, alone = map(np.asarray, values)
        known = np.isfinite(together) | np.isfinite(alone)
        if known.any():
            break
    else:
        return
    largest = np.max(np.abs(together[np.isfinite(together)]), initial=0.0)
    tolerance = np.sqrt(jnp.finfo(together.dtype).eps) * float(largest)
    with np.errstate(invalid="ignore"):
        differs = known & ~(np.abs(together.astype(float) - alone.astype(float)) <= tolerance)
    # Infinities of one sign have no difference.
    differs &= together != alone
    if differs.any():
        place = int(np.argmax(differs))
        raise ValueError(
            f"{_NAME} must return for each row what that row has alone, for a likelihood of "
            f"independent rows; got {together[place]:.6g} for row {numbers[place]:,} among "
            f"{len(numbers)} rows and {alone[place]:.6g} for it alone: {_CAUSES}"
        )


@jax.jit(static_argnums=(0, 1), compiler_options=QUICK)
def _both(
    batched: BatchedLogLikelihood,
    log_likelihood: Callable[[Any, Data], Array],
    position: Position,
    rows: Data,
    numbers: Array,
) -> tuple[Array, Array]:
    """Return values of rows of these numbers by both functions, shape (b,) each; arrays of as many
    rows have just these.
    """
    rows = jax.tree.map(lambda x: x if len(x) == len(numbers) else x[numbers], rows)
    alone = jax.vmap(log_likelihood, (None, 0))(position, rows)
    return jnp.asarray(batched(position, rows)), jnp.asarray(alone)
