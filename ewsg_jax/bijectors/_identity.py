"""θ = u: for parts of a position that have no constraint."""

import jax.numpy as jnp

from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array
from ewsg_jax.bijectors._protocol import Bijector, Leafwise


@module
class Identity(Leafwise):
    """The bijector of `identity`."""

    def forward_leaf(self, x: Array) -> Array:
        return x

    def inverse_leaf(self, y: Array) -> Array:
        return y

    def log_det_parts(self, x: Array) -> Array:
        return jnp.zeros_like(x)


def identity() -> Bijector:
    """Return the map θ = u, for the unconstrained parts of a `tree`.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> ewsg.bijectors.identity().log_det(jnp.ones(2))
        Array(0., dtype=float32)
    """
    return Identity()
