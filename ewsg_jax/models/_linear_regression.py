"""Bayesian linear regression: yᵢ ~ N(xᵢᵀw, noise_scale²). Conjugate."""

from dataclasses import dataclass

import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.constants import LogDensity
from ewsg_jax.base.modules import text
from ewsg_jax.base.typing import Array, Data, Scalar
from ewsg_jax.bounds._protocol import row_x
from ewsg_jax.models._priors import normal_prior, of_scale
from ewsg_jax.posterior.posterior import Posterior


@dataclass(frozen=True)
class _RegressionSquares:
    """The log density of a target up to its constant."""

    precision: Scalar

    def __call__(self, mean: Array, row: Data) -> Array:
        y, mean = pytrees.promoted(row["y"], mean)
        return -0.5 * self.precision * jnp.square(y - mean)


@dataclass(frozen=True)
class _Residual:
    precision: Scalar

    def __call__(self, means: Array, rows: Data) -> Array:
        y, means = pytrees.promoted(rows["y"], means)
        return self.precision * (y - means)


def linear_regression(*, noise_scale: float = 1.0, prior_scale: float = 1.0) -> Posterior[Array]:
    """Return the posterior of the weights of a linear model with known noise.

    Data: {"x": (n, d), "y": (n,)}. Position: an array (d,). An intercept is a column of ones in x.

    Args:
        noise_scale: standard deviation of y around its mean.
        prior_scale: standard deviation of the prior N(0, prior_scale² I); `math.inf` for a flat
            one.

    Raises:
        TypeError, ValueError: an argument is not a positive number.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.array([[1.0, 0.0], [0.0, 2.0]]), "y": jnp.array([1.0, 1.0])}
        >>> ewsg.models.linear_regression().gradient(jnp.zeros(2), data)
        Array([-1., -2.], dtype=float32)
    """
    precision, constant = of_scale("noise_scale", noise_scale)
    return Posterior.linear(
        LogDensity(_RegressionSquares(precision), constant),
        normal_prior(prior_scale),
        inputs=row_x,
        residual=_Residual(precision),
        log_concave=True,
        normalised=True,
        name=f"linear_regression(noise_scale={text(noise_scale)}, prior_scale={text(prior_scale)})",
    )
