"""The log likelihood of every row at every draw, or its mean over draws: some rows at a time."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, limits, numeric
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.memory import free_on_the_host
from ewsg_jax.base.typing import Data, PyTree
from ewsg_jax.draws.predict import prepare, run
from ewsg_jax.posterior.posterior import Posterior, check_posterior

LIKELIHOOD_ROWS = 8192
"""Rows evaluated at once, by default: bounds the memory. Set by hand."""
LOO_COPIES = 3
"""Arrays of draws × rows that a leave-one-out estimate holds: the result and two temporaries."""


def check_density(posterior: Any) -> Posterior:
    """Check that a posterior's log likelihood may be compared between models, as far as it says.

    Raises:
        TypeError: it is no posterior.
        ValueError: it was made with `normalised=False`.
    """
    check_posterior(posterior)
    if posterior.normalised is False:
        raise ValueError(
            "posterior must be one whose log_likelihood is the log of a density with all its "
            "constants; got one with normalised=False, whose values cannot be compared between "
            "models: add what is left out, such as −log σ − log(2π)/2 of a normal density, and "
            "give normalised=True"
        )
    return posterior


def mean_of_rows(
    draws: PyTree, log_likelihoods: Callable[[Any, Data], Any], data: Data, chunk_size: int
) -> Any:
    """Return the log of the mean over draws of the likelihood of each row, shape (n,)."""
    data = numeric.native(data)
    checks.data(data)
    checks.integer("chunk_size", chunk_size)
    program, parts = None, []
    for rows, count in row_chunks(data, chunk_size):
        program = program or prepare(draws, log_likelihoods, rows, "log", None)
        parts.append(run(program, rows)[:count])
    return np.concatenate(parts)


@reads_now("posterior")
def of_rows(draws: PyTree, posterior: Posterior, data: Data, chunk_size: int) -> np.ndarray:
    """Return the log likelihood of each row at each draw, shape (chain, draw, row).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the result is larger than
            what is free.
    """
    data = numeric.native(data)
    n = checks.data(data)
    checks.integer("chunk_size", chunk_size)
    first = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), draws)
    posterior.check(first, data)
    chains, length = jax.tree.leaves(draws)[0].shape[:2]
    rows = jax.eval_shape(lambda: jax.tree.map(lambda x: jnp.asarray(x[:1]), data))
    dtype = jax.eval_shape(posterior.log_likelihoods, first, rows).dtype
    _check_fits(chains * length, n, dtype.itemsize)
    values, before, program = np.empty((chains, length, n), dtype), 0, None
    for rows, count in row_chunks(data, chunk_size):
        program = program or prepare(draws, posterior.log_likelihoods, rows, "none", None)
        values[..., before : before + count] = run(program, rows)[..., :count]
        before += count
    return values


def row_chunks(data: Data, chunk_size: int) -> Iterator[tuple[Data, int]]:
    """Yield the rows in chunks of one length, filled up with the last row, and how many count."""
    n = checks.data(data)
    size = min(chunk_size, n)
    for start in range(0, n, size):
        rows = np.minimum(np.arange(start, start + size), n - 1)
        yield jax.tree.map(lambda x, rows=rows: np.asarray(x)[rows], data), min(size, n - start)


def _check_fits(num_draws: int, num_rows: int, itemsize: int) -> None:
    needed = num_draws * num_rows * itemsize
    free = free_on_the_host() if needed * LOO_COPIES > limits.SMALL_BYTES else None
    if free is not None and needed * LOO_COPIES > free:
        raise ValueError(
            f"data must be so few rows that {num_draws:,} draws × {num_rows:,} rows fit in memory, "
            f"{LOO_COPIES} times {needed / 2**30:.3g} GiB; got {free / 2**30:.3g} GiB that are "
            "free: sample with a larger thin, or take fewer rows, a random part of them"
        )
