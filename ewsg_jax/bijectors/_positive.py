"""θ = log(1 + exp(u)): positive numbers."""

import jax
import jax.numpy as jnp

from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array
from ewsg_jax.bijectors._protocol import Bijector, Leafwise, lies_inside


@module
class Positive(Leafwise):
    """The bijector of `positive`."""

    def forward_leaf(self, x: Array) -> Array:
        return softplus(x)

    def inverse_leaf(self, y: Array) -> Array:
        return inverse_softplus(y)

    def log_det_parts(self, x: Array) -> Array:
        return jax.nn.log_sigmoid(x)


def positive() -> Bijector:
    """Return the map θ = log(1 + exp(u)) (softplus) of every number of a position, θ > 0.

    Softplus and not exp, because its derivative is at most one: a potential whose gradient grows no
    faster than θ keeps a gradient in u that grows no faster than u. With exp it grows
    exponentially, and steps of a fixed size then diverge from far enough out (Roberts
    and Tweedie 1996, section 3.2, for Langevin dynamics). Below about −3 the two are the same, θ ≈
    exp(u). For exp, pass your own object to `Posterior.transformed`.

    θ is never less than the smallest normal number of its dtype, 1.2e-38 in float32, so log θ is
    finite.

    Returns:
        A bijector of pytrees of any shapes. `inverse` raises ValueError for numbers that are not
        positive.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> positive = ewsg.bijectors.positive()
        >>> positive.forward(jnp.array([-1.0, 3.0]))
        Array([0.3132617, 3.0485873], dtype=float32)
        >>> positive.inverse(jnp.array([0.3132617, 3.0485873])).round(5)
        Array([-1.,  3.], dtype=float32)
    """
    return Positive()


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)), at least the smallest normal number."""
    return jnp.maximum(jax.nn.softplus(x), jnp.finfo(x.dtype).tiny)


def inverse_softplus(y: Array) -> Array:
    """Return log(exp(y) − 1), as y + log(1 − exp(−y)), which cannot overflow."""
    lies_inside("positive", y > 0)
    return y + jnp.log(-jnp.expm1(-y))
