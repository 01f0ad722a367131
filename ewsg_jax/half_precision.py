"""Gradients of sums over rows in half precision, where they add up in the position's dtype."""

from collections.abc import Callable

import jax.numpy as jnp

from ewsg_jax import _tree
from ewsg_jax._types import Array, Data, P
from ewsg_jax.rows.view import sum_over_rows

MOST_ROWS = 256
"""Rows whose gradients differentiation may add up: as far as bfloat16 can count."""


def in_parts(gradient: Callable[[Data, Array | None], P], rows: Data, weights: Array | None) -> P:
    """Return `gradient(rows, weights)`, a weighted sum, in float32 by a few rows at a time."""

    def of_part(part: tuple[Data, Array | None]) -> P:
        return _tree.widened(gradient(*part))

    # Gradients are multiplied by weights in the position's dtype too: by such as are at most 1.
    largest = 1.0 if weights is None else jnp.maximum(jnp.max(jnp.abs(weights)), 1e-30)
    part = rows, weights if weights is None else weights / largest
    total = sum_over_rows(of_part, part, MOST_ROWS)
    return total if weights is None else _tree.combine((largest, total))
