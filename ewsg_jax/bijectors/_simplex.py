"""Stick breaking: k − 1 numbers to k positive ones that sum to one."""

import jax
import jax.numpy as jnp

from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array
from ewsg_jax.bijectors._protocol import Bijector, Leafwise, has_last_axis, lies_inside


@module
class Simplex(Leafwise):
    """The bijector of `simplex`."""

    def forward_leaf(self, x: Array) -> Array:
        return jnp.maximum(jnp.exp(self.log_det_parts(x)), jnp.finfo(x.dtype).tiny)

    def inverse_leaf(self, y: Array) -> Array:
        has_last_axis("the inverse of simplex", y, 2)
        lies_inside("positive", y > 0)
        tolerance = 10 * y.shape[-1] * float(jnp.finfo(y.dtype).eps)
        lies_inside("parts that sum to one", jnp.abs(jnp.sum(y, axis=-1) - 1) <= tolerance)
        # What is left after each part is summed up from the last part, without a difference from
        # one.
        left = jnp.flip(jnp.cumsum(jnp.flip(y, axis=-1), axis=-1), axis=-1)[..., 1:]
        free = y[..., :-1]
        return jnp.log(free) - jnp.log(left) + _log_remaining(free)

    def log_det_parts(self, x: Array) -> Array:
        # log θᵢ = log zᵢ + Σ_{j<i} log(1 − zⱼ). Their sum is the log determinant, ∏ zᵢ (1 − zᵢ)
        # ∏_{j<i} (1 − zⱼ).
        has_last_axis("simplex", x, 1)
        logits = x - _log_remaining(x)
        left = jnp.cumsum(jax.nn.log_sigmoid(-logits), axis=-1)
        none, one = jnp.zeros_like(x[..., :1]), jnp.concatenate
        return one([jax.nn.log_sigmoid(logits), none], axis=-1) + one([none, left], axis=-1)


def simplex() -> Bijector:
    """Return the map of each leaf's last axis from k − 1 numbers to k positive ones of sum one.

    Stick breaking (Stan reference manual, "Unit simplex"): θᵢ = zᵢ (1 − Σ_{j<i} θⱼ) with
    zᵢ = 1/(1 + exp(−uᵢ + log(k − i))), and θ_k is what is left, so u = 0 is θ = (1/k, …, 1/k). The
    density is that of the first k − 1 parts, in which a Dirichlet density is written: log|det| = Σᵢ
    log θᵢ over all k.

    A part is never less than the smallest normal number of its dtype, so log θᵢ is finite.

    Returns:
        A bijector of pytrees with leaves of shapes (…, k − 1), to (…, k), k ≥ 2. `inverse` raises
        ValueError for parts that are not positive or do not sum to one.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> simplex = ewsg.bijectors.simplex()
        >>> simplex.forward(jnp.zeros(3))
        Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
        >>> simplex.inverse(jnp.array([0.5, 0.25, 0.25])).round(3)
        Array([0.693, 0.   ], dtype=float32)
    """
    return Simplex()


def _log_remaining(x: Array) -> Array:
    """Log(k − i) for i = 1, …, k − 1: the parts that share what is left."""
    return jnp.log(jnp.arange(x.shape[-1], 0, -1).astype(x.dtype))
