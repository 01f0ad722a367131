"""A normal distribution with unknown mean and scale: xᵢ ~ N(μ, σ²), position (μ, log σ)."""

import math

import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.constants import HALF_LOG_2PI, LogDensity
from ewsg_jax.base.modules import text
from ewsg_jax.base.typing import Array
from ewsg_jax.bounds import normal_taylor
from ewsg_jax.models._priors import normal_prior
from ewsg_jax.posterior.posterior import Posterior


def _varying(position: Array, x: Array) -> Array:
    if jnp.shape(position) != (2,) or jnp.shape(x):
        raise ValueError(
            "position must be an array (2,), the mean and the log of the scale, and a datum a "
            f"number; got arrays of shapes {jnp.shape(position)} and {jnp.shape(x)}"
        )
    x, position = pytrees.promoted(x, position)
    return -position[1] - 0.5 * jnp.square((x - position[0]) * jnp.exp(-position[1]))


def normal(*, prior_scale: float = math.inf) -> Posterior[Array]:
    """Return the posterior of the mean and the logarithm of the scale of normal data.

    Data: an array (n,). Position: an array (2,), μ and log σ. With a flat prior the posterior is
    proper from n = 2 data that differ.

    Args:
        prior_scale: standard deviation of the prior N(0, prior_scale² I) of (μ, log σ); `math.inf`
            for a flat one.

    Raises:
        TypeError, ValueError: an argument is not a positive number.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> ewsg.models.normal().gradient(jnp.zeros(2), jnp.array([1.0, 3.0]))
        Array([-4., -8.], dtype=float32)
    """
    name = f"normal(prior_scale={text(prior_scale)})"
    density = LogDensity(_varying, -HALF_LOG_2PI)
    return Posterior(
        density, normal_prior(prior_scale), bound=normal_taylor(), name=name, normalised=True
    )
