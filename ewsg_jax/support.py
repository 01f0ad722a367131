"""Whether positions lie where the posterior has a density: gradients alone do not say it.

Where a prior is flat between walls, or a likelihood is -inf for some rows, the gradient outside is 0 or that of the
inside. Chains that follow gradients go there without a sign.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import Array, Data, Position, PyTree
from ewsg_jax.compiling import QUICK
from ewsg_jax.posterior import Posterior

POSITIONS, MOST_NUMBERS = 256, 2**22
"""Positions of which log_prior is evaluated, at the most, and numbers in all of them."""
LEVELS = ((4, 32), (16, 64), (32, 128))
"""Positions and rows of which log_likelihood is evaluated, at the most: a program for each."""
CURE = (
    "give bounded parameters a bijector (posterior.transformed(ewsg_jax.bijectors.positive()), interval, simplex, "
    "ordered), which takes their support to all numbers; where the data bound it, one that begins at their largest "
    "or least value"
)
"""What helps against draws outside."""


class Densities(NamedTuple):
    """What was evaluated, NumPy arrays.

    Attributes:
        log_prior: of each position, shape (p,).
        log_likelihood: the mean over rows at the first positions, shape (m,), m ≤ p.
        rows_outside: of how many rows it is not finite there, shape (m,).
        num_rows: of how many it was evaluated.
    """

    log_prior: np.ndarray
    log_likelihood: np.ndarray
    rows_outside: np.ndarray
    num_rows: int

    @property
    def outside_prior(self) -> np.ndarray:
        """Whether log_prior of each position is -inf, infinite or NaN, shape (p,)."""
        return ~np.isfinite(self.log_prior)

    @property
    def outside_likelihood(self) -> np.ndarray:
        """Whether log_likelihood of a row is not finite at the first positions, shape (m,)."""
        return self.rows_outside > 0

    def potential(self, num_data: int) -> np.ndarray:
        """Return V at the first positions from these rows, scaled to all, shape (m,)."""
        return -self.log_prior[: len(self.log_likelihood)] - num_data * self.log_likelihood


class Outside(NamedTuple):
    """Which share of positions lie where the density is 0 or not a number.

    Attributes:
        prior: by log_prior, of all positions evaluated.
        likelihood: by log_likelihood of a row, of those where it was evaluated.
    """

    prior: float
    likelihood: float

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self.prior > 0 or self.likelihood > 0

    def __str__(self) -> str:
        parts = ((self.prior, "log_prior is"), (self.likelihood, "log_likelihood of a row is"))
        return "; ".join(f"{100 * share:.3g} % of draws where {what} -inf or NaN" for share, what in parts if share)


def outside(
    posterior: Posterior, positions: PyTree, data: Data, evaluations: int = LEVELS[-1][0] * LEVELS[-1][1]
) -> Outside:
    """Return which share of positions lie where the posterior has no density.

    Args:
        posterior: what is sampled.
        positions: a tree of arrays with a leading axis, of which at most 256 are evaluated, evenly spaced.
        data: the rows, of which at most 128 are evaluated, at 32 of the positions.
        evaluations: of log_likelihood, about how many may be made.
    """
    most, few, _ = sizes(evaluations, positions)
    places = evenly(jax.tree.leaves(positions)[0].shape[0], most)
    first = places[evenly(len(places), few)]
    order = np.concatenate([first, np.setdiff1d(places, first)])
    chosen = jax.tree.map(lambda x: np.asarray(x)[order], positions)
    found = densities(posterior, chosen, some_rows(data), evaluations)
    return Outside(float(found.outside_prior.mean()), float(found.outside_likelihood.mean()))


@functools.lru_cache(maxsize=256)
def evenly(length: int, most: int) -> np.ndarray:
    """Return at most so many of the numbers 0, …, length − 1, evenly spaced, the first and the last among them."""
    numbers = np.unique(np.linspace(0, length - 1, min(most, length)).astype(int))
    numbers.flags.writeable = False
    return numbers


def some_rows(data: Data) -> Data:
    """Return the rows that are evaluated, at most 128."""
    return take_rows(data, evenly(jax.tree.leaves(data)[0].shape[0], LEVELS[-1][1]))


def take_rows(data: Data, places: np.ndarray | tuple[np.ndarray, int]) -> Data:
    """Return some rows; of arrays in the host's memory without a compiled program."""

    def taken(x: Array | np.ndarray) -> Array | np.ndarray:
        here = isinstance(x, np.ndarray) or all(device.platform == "cpu" for device in x.devices())
        return np.asarray(x)[places] if here else x[places]

    return jax.tree.map(taken, data)


def sizes(evaluations: int, positions: PyTree) -> tuple[int, int, int]:
    """Return of how many positions log_prior is evaluated, and of how many with how many rows log_likelihood.

    Args:
        evaluations: of log_likelihood, that may be made.
        positions: with a leading axis.
    """
    numbers = max(1, sum(x[:1].size for x in jax.tree.leaves(positions)))
    fit = [one for one in LEVELS if one[0] * one[1] <= evaluations and one[0] * numbers <= MOST_NUMBERS]
    few, rows = fit[-1] if fit else LEVELS[0]
    return max(few, min(POSITIONS, MOST_NUMBERS // numbers)), few, rows


def densities(posterior: Posterior, positions: PyTree, rows: Data, evaluations: int) -> Densities:
    """Return log_prior of the first positions, and log_likelihood of rows at the first of these, as `sizes` says.

    Numbers of positions and rows are made up to those of one program, which later calls share.
    """
    count, num_rows = (jax.tree.leaves(tree)[0].shape[0] for tree in (positions, rows))
    most, few, rows_at_once = sizes(evaluations, positions)
    used = evenly(num_rows, rows_at_once)
    places = np.minimum(np.arange(most), count - 1)
    chosen = jax.tree.map(lambda x: np.asarray(x)[places], positions)
    prior, likelihood = _evaluated(posterior, chosen, take_rows(rows, np.resize(used, rows_at_once)), few)
    values = np.asarray(likelihood)[: min(count, few), : len(used)]
    bad = ~np.isfinite(values)
    means = np.where(bad, 0, values).mean(axis=1, dtype=np.float64)
    means[bad.any(axis=1)] = -np.inf
    return Densities(np.asarray(prior, np.float64)[:count], means, bad.sum(axis=1), len(used))


@functools.partial(jax.jit, static_argnums=(0, 3), compiler_options=QUICK)
def _evaluated(posterior: Posterior, positions: Position, rows: Data, few: int) -> tuple[Array, Array]:
    prior = jax.vmap(lambda one: jnp.asarray(posterior.log_prior(one), float))(positions)
    first = jax.tree.map(lambda x: x[:few], positions)
    return prior, jax.vmap(lambda one: posterior.log_likelihoods(one, rows))(first)
