"""Matrix factorisation: xᵢⱼ = wᵢᵀ vⱼ + noise at the entries that are seen, wᵢ, vⱼ ~ N(0, I).

Synthetic matrices stand in for those of the paper, MovieLens among them, which `datasets.movielens` reads.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import Array, Data, Key
from ewsg_jax.models.priors import normal_prior
from ewsg_jax.posterior import Posterior
from ewsg_jax.reproduction import metrics
from ewsg_jax.reproduction.problem import Problem
from ewsg_jax.reproduction.stable import StableNoise

Factors = dict[str, Array]
"""`"left"`, shape (rows, rank), and `"right"`, shape (columns, rank)."""


def product(factors: Factors, entries: Data) -> Array:
    """Return the product of the factors at entries."""
    return jnp.sum(factors["left"][entries["row"]] * factors["right"][entries["column"]], axis=-1)


RMSE = metrics.rmse(product)


@dataclass(frozen=True)
class _LogLikelihood:
    noise: StableNoise

    def __call__(self, factors: Factors, entry: Data) -> Array:
        return self.noise(entry["y"] - product(factors, entry))


def model(noise: StableNoise) -> Posterior[Factors]:
    """Return the posterior of the factors; data: {"row": (n,), "column": (n,), "y": (n,)}."""
    return Posterior(_LogLikelihood(noise), normal_prior(1.0), check_values=_any_values)


def _any_values(factors: Factors, entries: Data) -> None:
    """Refuse nothing: entries are made here."""


def synthetic(size: int, rank: int, noise: StableNoise, test_fraction: float, seed: int) -> Problem:
    """Return a square matrix of low rank from the prior with noise, to be judged by entries without, held out."""
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((2, size, rank))
    row, column = np.divmod(rng.permutation(size * size), size)
    exact = np.sum(left[row] * right[column], axis=-1)
    seen = exact + noise.draw(rng, exact.shape)
    first = round(test_fraction * size * size)

    def entries(part: slice, y: np.ndarray) -> Data:
        return {
            "row": jnp.asarray(row[part], jnp.int32),
            "column": jnp.asarray(column[part], jnp.int32),
            "y": jnp.asarray(y[part], jnp.float32),
        }

    def start(key: Key) -> Factors:
        one, other = jax.random.split(key)
        return {"left": jax.random.normal(one, (size, rank)), "right": jax.random.normal(other, (size, rank))}

    return Problem(
        model(noise), entries(slice(first, None), seen), entries(slice(first), exact), start, {"rmse": RMSE}
    )
