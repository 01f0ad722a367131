"""Weighted sums of gradients over rows: the gradient of a sum, not a sum of gradients."""

import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.posterior.linear import LinearPredictor
from ewsg_jax.rows._view import sum_over_rows


class RowFunctions(Protocol):
    """What is summed: methods of a `Posterior`."""

    @property
    def predictor(self) -> LinearPredictor | None:
        """How data enter through linear predictors."""
        ...

    def row_gradients(self, position: Any, rows: Data) -> PyTree:
        """Return the ∇Vᵢ of rows in the smallest form."""
        ...

    def sum_of_rows(self, row_gradients: PyTree, rows: Data) -> Position:
        """Return their sum."""
        ...

    def log_likelihoods(self, position: Any, rows: Data) -> Array:
        """Return the log likelihood of each row."""
        ...


def sum_of_gradients(
    posterior: RowFunctions, position: Position, rows: Data, weights: Array | None = None
) -> Any:
    """Return Σ wᵢ∇Vᵢ over rows, at least in float32; without weights Σ ∇Vᵢ."""
    if posterior.predictor is not None:
        of_rows = posterior.row_gradients(position, rows)
        if weights is not None:
            of_rows = pytrees.scaled_rows(pytrees.widened(of_rows), weights)
        return pytrees.in_dtypes_of(pytrees.widened(position), posterior.sum_of_rows(of_rows, rows))
    # One backward pass for the sum: gradients of rows one by one would take b positions of
    # memory.
    gradient = functools.partial(
        jax.grad(functools.partial(_weighted_potential, posterior)), position
    )
    is_half = any(x.dtype.itemsize < 4 for x in jax.tree.leaves(position))
    return _in_parts(gradient, rows, weights) if is_half else gradient(rows, weights)


def _weighted_potential(
    posterior: RowFunctions, position: Position, rows: Data, weights: Array | None
) -> Array:
    """Return Σ wᵢVᵢ over rows, without weights Σ Vᵢ."""
    values = posterior.log_likelihoods(position, rows)
    return -jnp.sum(values if weights is None else pytrees.scaled_rows(values, weights))


def _in_parts(
    gradient: Callable[[Data, Array | None], Position], rows: Data, weights: Array | None
) -> Position:
    """Return `gradient(rows, weights)`, a weighted sum, in float32 by a few rows at a time."""
    # Gradients are multiplied by weights in the position's dtype too: by such as are at most 1.
    largest = 1.0 if weights is None else jnp.maximum(jnp.max(jnp.abs(weights)), 1e-30)
    part = rows, weights if weights is None else weights / largest
    # In half precision few rows may be added up: bfloat16 counts up to 256.
    total = sum_over_rows(lambda part: pytrees.widened(gradient(*part)), part, 256)
    return total if weights is None else pytrees.combine((largest, total))
