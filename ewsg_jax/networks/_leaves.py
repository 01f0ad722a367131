"""The leaves of a network's parameters by name, and which of them are state, such as statistics."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks
from ewsg_jax.base.leaves import named_leaves
from ewsg_jax.base.typing import PyTree


def check_params(params: PyTree) -> list[tuple[str, Any]]:
    """Check the argument `params`, and return its leaves by name, arrays of JAX.

    Raises:
        TypeError, ValueError: it is no pytree of arrays, or a leaf holds NaN or infinity.
    """
    checks.held("params", params)
    named = named_leaves(jax.tree.map(jnp.asarray, params))
    if not named:
        raise ValueError(
            f"params must have at least one array; got {checks.describe(params)}, without leaves"
        )
    checks.finite("params", jax.tree.map(jnp.asarray, params))
    return named


def has_state(params: PyTree) -> bool:
    """Return whether parameters are Flax's variables with another collection than "params"."""
    return any(is_state(name, params) for name, _ in named_leaves(params))


def is_state(name: str, params: PyTree) -> bool:
    """Return whether the leaf of a name is in another collection of Flax's variables than "params",
    such as "batch_stats".
    """
    has_collections = isinstance(params, Mapping) and "params" in params
    return has_collections and not name.startswith("params/")
