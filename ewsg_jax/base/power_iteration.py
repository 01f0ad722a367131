"""The largest eigenvalue of a symmetric matrix that is known by its products with vectors."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Key, PyTree


def power_iteration(
    product: Callable[[PyTree], PyTree], like: PyTree, key: Key
) -> tuple[PyTree, PyTree]:
    """Return the direction v of length 1 in which a matrix H is largest without sign, and Hv.

    ‖Hv‖ is the largest absolute eigenvalue, also if both signs have it; vᵀHv is the eigenvalue with
    its sign.

    Args:
        product: `product(v) -> Hv`, of pytrees like `like`.
        like: a pytree of arrays, for shapes and dtypes.
        key: a typed PRNG key, of the first direction.
    """

    def unit(v: PyTree) -> PyTree:
        length = jnp.sqrt(pytrees.squared_norm(v))
        return jax.tree.map(lambda x: (x / length).astype(x.dtype), v)

    def step(carry: tuple[PyTree, PyTree], _: None) -> tuple[tuple[PyTree, PyTree], None]:
        v = unit(carry[1])
        return (v, product(v)), None

    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
    start = jax.tree.unflatten(structure, drawn)
    # From a direction at random it is a few percent short after so many products.
    return jax.lax.scan(step, (start, start), length=20)[0]
