"""The gradient and the Hessian of −log prior at some points: those of a normal prior are known by
two.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors import differences
from ewsg_jax.vectors.layout import Layout, log_prior


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def prior_derivatives(
    posterior: Posterior, layout: Layout, points: Array | np.ndarray
) -> tuple[Array, Array]:
    """Return the gradients and the Hessians of −log prior at points (count, d): shapes (count, d)
    and (count, d, d). One program serves all that take two points.
    """

    def potential(flat: Array) -> Array:
        return -log_prior(posterior, layout, flat)

    def both(flat: Array) -> tuple[Array, Array]:
        gradient, unit = jax.grad(potential), jnp.eye(flat.size, dtype=flat.dtype)
        hessian = jax.vmap(lambda v: differences.derivative(gradient, flat, v))(unit)
        return gradient(flat), hessian

    return jax.lax.map(both, points)
