"""Symmetric stable noise, of the characteristic function exp(−|s t|^α), as a mixture of normal laws.

It is √(2φ) s times a standard normal number, φ positive and (α/2)-stable. Where samplers of the field draw a φ
for every datum, here φ is summed over: as many values as are wanted, evenly spaced on a logarithmic scale, each
with the probability of its cell by Kanter's formula. So the likelihood has a gradient, and no datum has a
parameter of its own.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import Array

RARE = 1e-6
"""Probability that is left out beyond either end of the values."""


def positive_stable_cdf(values: np.ndarray, index: float, num_angles: int = 4000) -> np.ndarray:
    """Return P(φ ≤ x) of the positive stable law E exp(−tφ) = exp(−t^a), 0 < a < 1 (Kanter 1975)."""
    angle = (np.arange(num_angles) + 0.5) * np.pi / num_angles
    a = index
    slow = np.sin(a * angle) ** (a / (1 - a)) * np.sin((1 - a) * angle) / np.sin(angle) ** (1 / (1 - a))
    return np.exp(-slow * np.asarray(values)[:, None] ** (-a / (1 - a))).mean(1)


@functools.cache
def mixture(alpha: float, num_values: int = 48) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return weights and variances of normal laws whose mixture is the stable law of unit scale, 0 < α < 2."""
    wide = np.geomspace(1e-4, 1e8, 400)
    below = positive_stable_cdf(wide, alpha / 2)
    low, high = wide[np.searchsorted(below, RARE)], wide[min(np.searchsorted(below, 1 - RARE), len(wide) - 1)]
    edges = np.geomspace(low, high, num_values + 1)
    weights = np.diff(positive_stable_cdf(edges, alpha / 2))
    return tuple(weights / weights.sum()), tuple(2 * np.sqrt(edges[1:] * edges[:-1]))


@dataclass(frozen=True)
class StableNoise:
    """The log density of a stable number of exponent α, 0 < α ≤ 2; of 2 it is normal with variance 2s²."""

    alpha: float
    scale: float

    def __call__(self, value: Array) -> Array:
        """Return it."""
        weights, variances = ((1.0,), (2.0,)) if self.alpha == 2 else mixture(self.alpha)
        log_weights, precisions = np.log(weights), 1 / np.multiply(variances, self.scale**2)
        constants = jnp.asarray(log_weights + 0.5 * np.log(precisions / (2 * np.pi)), jnp.float32)
        square = jnp.square(value)[..., None]
        return jax.nn.logsumexp(constants - 0.5 * jnp.asarray(precisions, jnp.float32) * square, axis=-1)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return numbers of this law (Chambers, Mallows & Stuck 1976)."""
        angle, wait = rng.uniform(-np.pi / 2, np.pi / 2, shape), rng.exponential(size=shape)
        a = self.alpha
        inner = (np.cos((1 - a) * angle) / wait) ** ((1 - a) / a)
        return self.scale * np.sin(a * angle) / np.cos(angle) ** (1 / a) * inner
