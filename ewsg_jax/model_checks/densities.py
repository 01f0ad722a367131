"""Log densities of a model at many positions: on a few rows, or on all of them.

What a step follows is the gradient; what the density is at the position, only an evaluation says.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import CHUNK_SIZE, sum_over_rows
from ewsg_jax.vectors.row_subsets import evenly, take_rows
from ewsg_jax.vectors.some_rows import VECTORISED_POSITIONS

LEVELS = ((4, 32), (16, 64), (32, 128))
"""Positions and rows at which log_likelihood is evaluated, at most: a compiled program for each
level. The largest takes 4,096 evaluations, some milliseconds; set by hand."""


class Densities(NamedTuple):
    """Log densities at p positions, NumPy arrays.

    Attributes:
        log_prior: at each position, shape (p,).
        log_likelihood: its mean over rows at the first m ≤ p positions, shape (m,); -inf if that of
            a row is not finite, for the density is 0 then, however many other rows there are.
    """

    log_prior: np.ndarray
    log_likelihood: np.ndarray

    def potential(self, num_data: int) -> np.ndarray:
        """Return V at the first positions from these rows, scaled to all, shape (m,)."""
        return -self.log_prior[: len(self.log_likelihood)] - num_data * self.log_likelihood


def some_rows(data: Data) -> Data:
    """Return the rows on which `densities` evaluates, at most 128, evenly spaced."""
    return take_rows(data, evenly(jax.tree.leaves(data)[0].shape[0], LEVELS[-1][1]))


def sizes(evaluations: int, positions: PyTree) -> tuple[int, int, int]:
    """Return the number of positions for log_prior, and those of positions and of rows for
    log_likelihood, such that it is evaluated at most `evaluations` times.
    """
    numbers = max(1, pytrees.size(positions, leading_axes=1))
    levels = [
        (few, rows)
        for few, rows in LEVELS
        if few * rows <= evaluations and few * numbers <= limits.NUMBERS_AT_ONCE
    ]
    few, rows = levels[-1] if levels else LEVELS[0]
    # At 256 positions 1 % of draws outside are found in 92 % of calls.
    return max(few, min(limits.POSITIONS_AT_ONCE, limits.NUMBERS_AT_ONCE // numbers)), few, rows


def densities(posterior: Posterior, positions: PyTree, rows: Data, evaluations: int) -> Densities:
    """Return log densities at the first positions: as many of them, and of the rows, as `sizes`
    says. They are filled up to the size of one program, which later calls share.
    """
    count, length = (jax.tree.leaves(tree)[0].shape[0] for tree in (positions, rows))
    most, few, rows_at_once = sizes(evaluations, positions)
    used = evenly(length, rows_at_once)
    chosen = take_rows(positions, np.minimum(np.arange(most), count - 1))
    prior, likelihood = _evaluated(
        posterior, chosen, take_rows(rows, np.resize(used, rows_at_once)), few
    )
    values = np.asarray(likelihood)[: min(count, few), : len(used)]
    means = np.where(np.isfinite(values), values, -np.inf).mean(axis=1, dtype=np.float64)
    return Densities(np.asarray(prior, np.float64)[:count], means)


@functools.partial(jax.jit, static_argnums=(0, 3), compiler_options=QUICK)
def _evaluated(
    posterior: Posterior, positions: Position, rows: Data, few: int
) -> tuple[Array, Array]:
    prior = jax.vmap(lambda one: jnp.asarray(posterior.log_prior(one), float))(positions)
    first = jax.tree.map(lambda x: x[:few], positions)
    return prior, jax.vmap(lambda one: posterior.log_likelihoods(one, rows))(first)


def log_densities(posterior: Posterior, positions: Position, data: Data) -> np.ndarray:
    """Return −V at positions, a pytree with one leading axis, on all rows; float64, shape (p,)."""
    return log_priors(posterior, positions) + log_likelihoods(posterior, positions, data)


def log_priors(posterior: Posterior, positions: Position) -> np.ndarray:
    """Return log_prior at positions, a pytree with one leading axis; float64, shape (p,)."""
    return _in_blocks(functools.partial(_priors, posterior), positions)


def log_likelihoods(
    posterior: Posterior, positions: Position, data: Data, chunk_size: int = CHUNK_SIZE
) -> np.ndarray:
    """Return the sum of log_likelihood over all rows at positions, `chunk_size` rows at once;
    float64, shape (p,).
    """
    return _in_blocks(lambda block: _likelihoods(posterior, block, data, chunk_size), positions)


def _in_blocks(program: Callable[[Position], Array], positions: Position) -> np.ndarray:
    """Return values at any number of positions, by one program: filled up to whole blocks."""
    positions = jax.tree.map(np.asarray, positions)
    count = jax.tree.leaves(positions)[0].shape[0]
    block = np.arange(VECTORISED_POSITIONS)
    values = [
        program(take_rows(positions, np.minimum(first + block, count - 1)))
        for first in range(0, count, VECTORISED_POSITIONS)
    ]
    return np.concatenate([np.zeros(0), *values])[:count]


@functools.partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _priors(posterior: Posterior, positions: Position) -> Array:
    return jax.vmap(lambda x: jnp.asarray(posterior.log_prior(x)))(positions)


@functools.partial(jax.jit, static_argnums=(0, 3), compiler_options=QUICK)
def _likelihoods(posterior: Posterior, positions: Position, data: Data, chunk_size: int) -> Array:
    def total(position: Position) -> Array:
        return sum_over_rows(
            lambda rows: jnp.sum(posterior.log_likelihoods(position, rows)), data, chunk_size
        )

    return jax.vmap(total)(positions)
