"""The outputs of a function at a chunk of draws, or their sum, in one compiled program."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from ewsg_jax._types import Array, PyTree


@functools.partial(jax.jit, static_argnames=("function", "reduce"))
def outputs_at(
    function: Callable[..., PyTree], reduce: str, positions: PyTree, inputs: PyTree, count: Array
) -> PyTree:
    """The outputs at one chunk's draws; or, over the first `count` of them, their sum or the log of that of exp."""
    outputs = jax.vmap(function, (0, None))(positions, inputs)
    if reduce == "none":
        return outputs

    def leaf(x: Array) -> Array:
        x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        counted = (jnp.arange(x.shape[0]) < count).reshape(-1, *[1] * (x.ndim - 1))
        if reduce == "log":
            return jax.nn.logsumexp(jnp.where(counted, x, -jnp.inf), axis=0)
        return jnp.sum(jnp.where(counted, x, 0), axis=0)

    return jax.tree.map(leaf, outputs)
