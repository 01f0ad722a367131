"""A normal law in μ and σ under a flat prior: the posterior's exact moments, and the error of averages."""

import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from ewsg_jax._types import Array
from ewsg_jax.posterior import Posterior


def _log_likelihood(position: Array, row: Array) -> Array:
    return -jnp.log(jnp.abs(position[1])) - 0.5 * jnp.square((row - position[0]) / position[1])


MODEL = Posterior(_log_likelihood, lambda position: 0.0, name="normal law in μ and σ")


def draws_of(seed: int, count: int) -> np.ndarray:
    """Return log-normal draws, of μ = 0 and σ = 1."""
    return np.exp(np.random.default_rng(seed).standard_normal(count))


def truth(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return E θ and sd θ of θ = (μ, σ) under a flat prior: 1/σ² has a gamma law of shape n/2 − 1."""
    n, shape, half = len(rows), len(rows) / 2 - 1, np.sum((rows - rows.mean()) ** 2) / 2
    scale = np.sqrt(half) * np.exp(gammaln(shape - 0.5) - gammaln(shape))
    square = half / (shape - 1)
    return np.array([rows.mean(), scale]), np.sqrt([square / n, square - scale**2])


def errors(draws: np.ndarray, rows: np.ndarray, at: np.ndarray) -> list[float]:
    """Return the error after the draws at each index, draws (chain, draw, 2); ∞ where one is not finite."""
    mean, sd = truth(rows)
    z = (np.asarray(draws, float) - mean) / sd
    sums = np.cumsum(np.concatenate([z, z**2 - 1], axis=-1), axis=1)
    sums = np.concatenate([0 * sums[:, :1], sums], axis=1)
    last, first = at + 1, (at + 1) // 2
    averages = (sums[:, last] - sums[:, first]) / (last - first)[:, None]
    found = np.mean(averages**2, axis=(0, 2))
    return [float(f"{x:.3g}") if np.isfinite(x) else float("inf") for x in found]
