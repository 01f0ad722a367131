"""Work that is due for some chains at some steps, and is done once for all of them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, PyTree


@jax.custom_batching.custom_vmap
def _anywhere(due: Array) -> Array:
    """Return whether work is due for any chain under `vmap`; the result is never batched."""
    return due


@_anywhere.def_vmap
def _(axis_size: int, in_batched: object, due: Array) -> tuple[Array, bool]:
    return _anywhere(jnp.any(due, axis=0)), False


def where_due(due: Array, renew: Callable[[], PyTree], current: PyTree) -> PyTree:
    """Return `renew()` for chains for which it is due, else `current`; computed only if any is.

    A plain `lax.cond` under `vmap` becomes a `select` that computes both sides at every step.

    Args:
        due: whether to renew; a scalar bool, one per chain under `vmap`.
        renew: returns a pytree like `current`.
        current: a pytree of arrays.
    """
    return jax.lax.cond(
        _anywhere(due), lambda: pytrees.where(due, renew(), current), lambda: current
    )
