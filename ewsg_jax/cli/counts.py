"""Regressions of counts: Poisson, and negative binomial with a known overdispersion.

The mean is μ = exp(xᵀw). Poisson: Var y = μ. Negative binomial (NB2): Var y = μ + αμ², whose α is
found by maximum likelihood together with the weights, as `glm.nb` of R does, and then held: the two
are nearly independent. Constants of the rows, such as log y!, are left out. To rates per unit of an
exposure the logarithm of that is added: η = xᵀw + log(exposure), an offset.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize, special

import ewsg_jax as ewsg
from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.bounds._protocol import row_x
from ewsg_jax.cli.config import ConfigError

LOG_EXPOSURE = "log_exposure"
"""The name of the array of the rows' offsets, if they have these."""


@dataclass(frozen=True)
class Counts:
    """The log likelihood of a count y, up to what depends on y alone; α is 0 for Poisson."""

    alpha: float = 0.0

    def __call__(self, log_mean: Array, row: Data) -> Array:
        """Return it: y η − μ, or y η − (y + 1/α) log(1 + αμ)."""
        y, log_mean = pytrees.promoted(row["y"], _with_offset(log_mean, row))
        if not self.alpha:
            return y * log_mean - jnp.exp(log_mean)
        of_mean = jax.nn.softplus(log_mean + math.log(self.alpha))
        return y * log_mean - (y + 1 / self.alpha) * of_mean


@dataclass(frozen=True)
class CountResidual:
    """The derivative of `Counts` by η: (y − μ)/(1 + αμ)."""

    alpha: float = 0.0

    def __call__(self, log_means: Array, rows: Data) -> Array:
        """Return it for b rows."""
        y, log_means = pytrees.promoted(rows["y"], _with_offset(log_means, rows))
        residual = y - jnp.exp(log_means)
        if not self.alpha:
            return residual
        # In the other tail y/(αμ) − 1/α, without an infinity.
        far = y - (y + 1 / self.alpha) * jax.nn.sigmoid(log_means + math.log(self.alpha))
        near = residual / (1 + self.alpha * jnp.exp(jnp.minimum(log_means, 0.0)))
        return jnp.where(log_means > 0, far, near)


def _with_offset(log_mean: Array, rows: Data) -> Array:
    return log_mean + rows[LOG_EXPOSURE] if LOG_EXPOSURE in rows else log_mean


def count_regression(alpha: float = 0.0) -> ewsg.Posterior[Array]:
    """Return the regression of counts, with a flat prior, which `with_prior` replaces."""
    return ewsg.Posterior.linear(
        Counts(alpha),
        _flat,
        inputs=row_x,
        residual=CountResidual(alpha),
        log_concave=True,
        normalised=False,
    )


def _flat(weights: Array) -> float:
    return 0.0


def overdispersion(
    x: np.ndarray, y: np.ndarray, ridge: float, offset: np.ndarray | float = 0.0
) -> float:
    """Return the α of largest likelihood, weights and α by turns; 0 if counts vary no more than
    Poisson's.

    Args:
        x: inputs, shape (n, d).
        y: counts, shape (n,).
        ridge: the inverse variance of the weights, which makes the fit one if x has dependent
            columns.
        offset: what is added to the log mean, shape (n,).

    Raises:
        ConfigError: the fit does not settle.
    """
    alpha, previous = 0.0, math.inf
    for _ in range(50):
        log_mean = _fitted(x, y, alpha, ridge, offset)
        # In log α, within bounds that no data of counts leave.
        of_log = functools.partial(_negative_log_likelihood, y, np.exp(log_mean))
        best: Any = optimize.minimize_scalar(of_log, bounds=(-12.0, 8.0), method="bounded")
        alpha = math.exp(best.x)
        if abs(alpha - previous) <= 1e-4 * alpha:
            break
        previous = alpha
    # At the lower bound it is Poisson's: the two differ by less than float32 holds.
    return 0.0 if alpha < 1e-5 else alpha


def _negative_log_likelihood(y: np.ndarray, mean: np.ndarray, log_alpha: float) -> float:
    alpha = math.exp(log_alpha)
    r = 1 / alpha
    values, counts = np.unique(y, return_counts=True)
    of_y = np.sum(counts * (special.gammaln(values + r) - special.gammaln(r)))
    return -float(of_y + np.sum(special.xlogy(y, alpha * mean) - (y + r) * np.log1p(alpha * mean)))


def _fitted(
    x: np.ndarray, y: np.ndarray, alpha: float, ridge: float, offset: np.ndarray | float
) -> np.ndarray:
    """Return log μ of each row by iterated least squares (Fisher scoring)."""
    log_mean = np.log(y + 0.5 * max(float(y.mean()), 1e-3))
    weights = np.zeros(x.shape[1])
    for _ in range(100):
        mean = np.exp(np.clip(log_mean, -30, 30))
        information = mean / (1 + alpha * mean)
        working = log_mean - offset + (y - mean) / mean
        xw = x * information[:, None]
        new = np.linalg.solve(xw.T @ x + ridge * np.eye(x.shape[1]), xw.T @ working)
        log_mean = x @ new + offset
        if np.max(np.abs(new - weights)) < 1e-6 * (1 + np.max(np.abs(new))):
            return log_mean
        weights = new
    raise ConfigError(
        "--dispersion is missing: the fit that could say the overdispersion does not settle"
    )
