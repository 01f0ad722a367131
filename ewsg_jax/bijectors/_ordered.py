"""Increasing numbers: a first one and positive distances."""

import jax
import jax.numpy as jnp

from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array
from ewsg_jax.bijectors._positive import inverse_softplus, softplus
from ewsg_jax.bijectors._protocol import Bijector, Leafwise, has_last_axis, lies_inside


@module
class Ordered(Leafwise):
    """The bijector of `ordered`."""

    def forward_leaf(self, x: Array) -> Array:
        has_last_axis("ordered", x, 1)
        return jnp.cumsum(jnp.concatenate([x[..., :1], softplus(x[..., 1:])], axis=-1), axis=-1)

    def inverse_leaf(self, y: Array) -> Array:
        has_last_axis("the inverse of ordered", y, 1)
        distances = jnp.diff(y, axis=-1)
        lies_inside("increasing along its last axis", distances > 0)
        return jnp.concatenate([y[..., :1], inverse_softplus(distances)], axis=-1)

    def log_det_parts(self, x: Array) -> Array:
        has_last_axis("ordered", x, 1)
        return jax.nn.log_sigmoid(x[..., 1:])


def ordered() -> Bijector:
    """Return the map of the last axis of every leaf to increasing numbers, θ₁ < θ₂ < ….

    θ₁ = u₁ and θᵢ = θᵢ₋₁ + log(1 + exp(uᵢ)); softplus for the reason that `positive` gives. In
    floating point two neighbours are equal if their distance is below the rounding of their size.

    Returns:
        A bijector of pytrees whose leaves have at least one axis. `inverse` raises ValueError for
        numbers that do not increase.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> ordered = ewsg.bijectors.ordered()
        >>> ordered.forward(jnp.array([2.0, 0.0, 0.0]))
        Array([2.       , 2.6931472, 3.3862944], dtype=float32)
        >>> ordered.inverse(jnp.array([-1.0, 0.0, 5.0])).round(3)
        Array([-1.   ,  0.541,  4.993], dtype=float32)
    """
    return Ordered()
