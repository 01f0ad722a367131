"""Bayesian linear regression: yᵢ ~ N(xᵢᵀw, noise_scale²). Conjugate."""

import jax.numpy as jnp

from ewsg_jax import _check
from ewsg_jax.models._priors import normal_prior
from ewsg_jax.posterior import Posterior


def linear_regression(*, noise_scale: float = 1.0, prior_scale: float = 1.0) -> Posterior:
    """Return the posterior of the weights of a linear model with known noise.

    Data: {"x": (n, d), "y": (n,)}. Position: an array (d,). An intercept is a column of ones in x.

    Args:
        noise_scale: standard deviation of y around its mean.
        prior_scale: standard deviation of the prior N(0, prior_scale² I); `math.inf` for a flat one.

    Raises:
        TypeError, ValueError: an argument is not a positive number.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.array([[1.0, 0.0], [0.0, 2.0]]), "y": jnp.array([1.0, 1.0])}
        >>> ewsg.models.linear_regression().gradient(jnp.zeros(2), data)
        Array([-1., -2.], dtype=float32)
    """
    _check.positive("noise_scale", noise_scale)
    precision = noise_scale**-2
    return Posterior.linear(
        lambda mean, row: -0.5 * precision * jnp.square(row["y"] - mean),
        normal_prior(prior_scale),
        inputs=lambda row: row["x"],
        residual=lambda means, rows: precision * (rows["y"] - means),
    )
