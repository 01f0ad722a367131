"""Gaussian location: xᵢ ~ N(θ, noise_scale² I). Conjugate; EWSG section 5.1: a flat prior."""

import math
from dataclasses import dataclass

import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.constants import LogDensity, size
from ewsg_jax.base.modules import text
from ewsg_jax.base.typing import Array, Scalar
from ewsg_jax.models._priors import normal_prior, of_scale
from ewsg_jax.posterior.posterior import Posterior


@dataclass(frozen=True)
class _LocationSquares:
    """The log density up to its constant."""

    precision: Scalar

    def __call__(self, mean: Array, x: Array) -> Array:
        # Broadcasting would make another model of a mean of another shape.
        if jnp.shape(mean) != jnp.shape(x):
            raise ValueError(
                f"position must be shaped like a datum, {jnp.shape(x)}; got an array of shape "
                f"{jnp.shape(mean)}"
            )
        x, mean = pytrees.promoted(x, mean)
        return -0.5 * self.precision * jnp.sum(jnp.square(x - mean))


def gaussian_location(
    *, noise_scale: float = 1.0, prior_scale: float = math.inf
) -> Posterior[Array]:
    """Return the posterior of the mean of Gaussian data.

    Data: an array (n, d). Position: an array (d,). With a flat prior the posterior is
    N(mean of the data, noise_scale²/n I).

    Args:
        noise_scale: standard deviation of a datum around the mean.
        prior_scale: standard deviation of the prior N(0, prior_scale² I); `math.inf` for a flat
            one.

    Raises:
        TypeError, ValueError: an argument is not a positive number.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> ewsg.models.gaussian_location().gradient(jnp.zeros(1), jnp.array([[1.0], [3.0]]))
        Array([-4.], dtype=float32)
    """
    precision, constant = of_scale("noise_scale", noise_scale)
    return Posterior(
        LogDensity(_LocationSquares(precision), constant, size),
        normal_prior(prior_scale),
        log_concave=True,
        normalised=True,
        name=f"gaussian_location(noise_scale={text(noise_scale)}, prior_scale={text(prior_scale)})",
    )
