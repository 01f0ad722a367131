"""Log densities and their gradients on a subset of rows at many positions, each by one program.

Checks of gradients, of the likelihood's size and searches for other modes all use these programs,
so that a plan compiles them once. Small arithmetic is done on the host, in float64.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base.compiling import QUICK, run
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import Batch, num_rows
from ewsg_jax.vectors.layout import Layout, log_prior
from ewsg_jax.vectors.row_subsets import evenly, take_rows

MOST_SUBSET_ROWS = 1_024
"""Rows of the subset, evenly spaced over all. Set by hand."""
PADDED_POSITIONS = 40
"""Positions that one call of a program takes: other numbers are padded. Set by hand."""
VECTORISED_POSITIONS = 8
"""Positions of a call that are evaluated at once, which bounds the memory. Set by hand."""


class SomeRows(NamedTuple):
    """A posterior's two functions on a subset of rows.

    Attributes:
        posterior: the target.
        layout: the layout of its positions.
        rows: R of all n rows, leaves (R, …).
        stands_for: n/R, how many rows each of them stands for.
    """

    posterior: Posterior
    layout: Layout
    rows: Data
    stands_for: float

    @classmethod
    def of(cls, posterior: Posterior, layout: Layout, data: Data) -> "SomeRows":
        """Return the subset of data that are not on several devices."""
        n = num_rows(data)
        count = min(n, MOST_SUBSET_ROWS)
        return cls(posterior, layout, take_rows(data, evenly(n, count)), n / count)

    @property
    def size(self) -> int:
        """The number of rows R."""
        return num_rows(self.rows)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the positions that the model is given."""
        return jnp.result_type(float, *self.layout.dtypes)

    def signs(self, count: int) -> np.ndarray:
        """Return weights ±1 of rows, shape (count, R), from a fixed seed: the square of a sum over
        rows with random signs is on average the sum of squares, so that nothing cancels.
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
            weights: the wᵢ of the rows at each place, shape (count, R), or (R,) at all places.
        """
        return self._in_blocks(
            _gradients, places, np.broadcast_to(weights, (len(places), self.size))
        )

    def _in_blocks(self, program: Any, *arguments: np.ndarray) -> np.ndarray:
        """Return the values of a program at any number of places, padded to full blocks."""
        count, block = len(arguments[0]), PADDED_POSITIONS
        padded = [
            np.resize(x, (-(-count // block), block, *x.shape[1:])).astype(self.dtype)
            for x in arguments
        ]
        values = [
            np.asarray(run(program, self.posterior, self.layout, *of_block, self.rows), np.float64)
            for of_block in zip(*padded, strict=True)
        ]
        return np.concatenate(values)[:count]


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _values(posterior: Posterior, layout: Any, places: Array, rows: Data) -> Array:
    def at(flat: Array) -> Array:
        of_rows = posterior.log_likelihoods(layout.tree(flat), rows).astype(flat.dtype)
        return jnp.concatenate([log_prior(posterior, layout, flat)[None], of_rows])

    return jax.lax.map(at, places, batch_size=VECTORISED_POSITIONS)


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _gradients(
    posterior: Posterior, layout: Any, places: Array, weights: Array, rows: Data
) -> Array:
    def at(place: tuple[Array, Array]) -> Array:
        flat, of_rows = place
        batch = Batch(jnp.arange(len(of_rows)), rows, of_rows)
        likelihood = ravel_pytree(posterior.batch_sum(layout.tree(flat), rows, batch))[0]
        of_prior = jax.grad(functools.partial(log_prior, posterior, layout))(flat)
        return jnp.stack([of_prior, -likelihood.astype(flat.dtype)])

    return jax.lax.map(at, (places, weights), batch_size=VECTORISED_POSITIONS)
