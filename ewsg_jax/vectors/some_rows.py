"""Log densities and their gradients on some rows at many places, each by one small program.

Checks of gradients, of the likelihood's size and searches for other modes all ask for these, so
that a plan compiles them once. What takes few numbers is done on the host, in float64.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import Batch, num_rows
from ewsg_jax.vectors.layout import Layout, log_prior
from ewsg_jax.vectors.row_subsets import evenly, take_rows

MOST_ROWS = 1_024
"""Rows that are taken, evenly spaced over all."""
BLOCK, TOGETHER = 40, 8
"""Places that one call takes, and how many of these are worked out together."""


class SomeRows(NamedTuple):
    """A posterior's two functions on some rows.

    Attributes:
        posterior: whose.
        layout: of its positions.
        rows: R of all n, leaves (R, …).
        stands_for: how many rows each of them stands for, n/R.
    """

    posterior: Posterior
    layout: Layout
    rows: Data
    stands_for: float

    @classmethod
    def of(cls, posterior: Posterior, layout: Layout, data: Data) -> "SomeRows":
        """Return those of data that are not on several devices."""
        n = num_rows(data)
        count = min(n, MOST_ROWS)
        return cls(posterior, layout, take_rows(data, evenly(n, count)), n / count)

    @property
    def size(self) -> int:
        """R."""
        return num_rows(self.rows)

    @property
    def dtype(self) -> np.dtype:
        """That in which places are given to the model."""
        return jnp.result_type(float, *self.layout.dtypes)

    def signs(self, count: int) -> np.ndarray:
        """Return weights ±1 of rows, shape (count, R), always the same: in a sum over rows with
        random signs nothing cancels, and its square is on average the sum of squares.
        """
        return 2.0 * np.random.default_rng(count).integers(0, 2, (count, self.size)) - 1

    def values(self, places: np.ndarray) -> np.ndarray:
        """Return the log prior and each row's log likelihood at places (count, d), shape
        (count, 1 + R).
        """
        return self._in_blocks(_values, places)

    def gradients(self, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the gradient of the log prior, and of Σᵢ wᵢ log likelihoodᵢ, shape (count, 2, d).

        Args:
            places: shape (count, d).
            weights: of rows at each place, shape (count, R), or (R,) at all.
        """
        return self._in_blocks(
            _gradients, places, np.broadcast_to(weights, (len(places), self.size))
        )

    def _in_blocks(self, program: Any, *arguments: np.ndarray) -> np.ndarray:
        """Return what a program makes of places, filled up so that it serves any number of them."""
        count = len(arguments[0])
        padded = [
            np.resize(x, (-(-count // BLOCK), BLOCK, *x.shape[1:])).astype(self.dtype)
            for x in arguments
        ]
        found = [
            np.asarray(program(self.posterior, self.layout, *each, self.rows), np.float64)
            for each in zip(*padded, strict=True)
        ]
        return np.concatenate(found)[:count]


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _values(posterior: Posterior, layout: Any, places: Array, rows: Data) -> Array:
    def at(flat: Array) -> Array:
        of_rows = posterior.log_likelihoods(layout.tree(flat), rows).astype(flat.dtype)
        return jnp.concatenate([log_prior(posterior, layout, flat)[None], of_rows])

    return jax.lax.map(at, places, batch_size=TOGETHER)


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _gradients(
    posterior: Posterior, layout: Any, places: Array, weights: Array, rows: Data
) -> Array:
    def at(given: tuple[Array, Array]) -> Array:
        flat, own = given
        batch = Batch(jnp.arange(len(own)), rows, own)
        likelihood = ravel_pytree(posterior.batch_sum(layout.tree(flat), rows, batch))[0]
        of_prior = jax.grad(functools.partial(log_prior, posterior, layout))(flat)
        return jnp.stack([of_prior, -likelihood.astype(flat.dtype)])

    return jax.lax.map(at, (places, weights), batch_size=TOGETHER)
