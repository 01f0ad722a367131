"""Weighted sums of gradients whose position has half precision."""

from collections.abc import Callable

import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, Data, P
from ewsg_jax.rows._view import sum_over_rows


def in_parts(gradient: Callable[[Data, Array | None], P], rows: Data, weights: Array | None) -> P:
    """Return `gradient(rows, weights)`, a weighted sum, in float32 by a few rows at a time."""
    # Gradients are multiplied by weights in the position's dtype too: by such as are at most 1.
    largest = 1.0 if weights is None else jnp.maximum(jnp.max(jnp.abs(weights)), 1e-30)
    part = rows, weights if weights is None else weights / largest
    # In half precision few rows may be added up: bfloat16 counts up to 256.
    total = sum_over_rows(lambda part: pytrees.widened(gradient(*part)), part, 256)
    return total if weights is None else pytrees.combine((largest, total))
