"""Reshuffled epochs: every row once in each n draws, in a new order each time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _random
from ewsg_jax._module import module
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.needs import Need
from ewsg_jax.rows import gathering
from ewsg_jax.rows.gathering import Batch, num_rows
from ewsg_jax.rows.law import RowLaw, check_fits
from ewsg_jax.tags import saved_as


@saved_as("epoch")
class Epoch(NamedTuple):
    """Where a chain is in its stream of permutations.

    Attributes:
        words: what all its permutations are made from, uint32, shape (2,).
        number: of the epoch, int32.
        offset: rows of it that are used up, int32.
    """

    words: Array
    number: Array
    offset: Array


@module
class Epochs(RowLaw[Epoch]):
    """The next b rows of an epoch.

    Not distinct: a batch that ends an epoch may begin the next one with a row that it holds.
    """

    needs = frozenset({Need.ONE_N, Need.ONE_PLACE})

    exchangeable = False

    def init(self, key: Key) -> Epoch:
        return Epoch(jax.random.bits(key, (2,), jnp.uint32), jnp.int32(0), jnp.int32(0))

    def draw(self, key: Key, data: Data) -> tuple[()]:
        return ()

    def ahead(self, randomness: PyTree, memory: Epoch, steps: np.ndarray, data: Data) -> Array:
        return jnp.moveaxis(self._rows(memory, steps, data), -2, 0)

    def gather(self, randomness: PyTree, data: Data) -> PyTree:
        return gathering.gather(data, randomness) if isinstance(randomness, jax.Array) else randomness

    def batch(self, randomness: PyTree, memory: Epoch, data: Data) -> Batch:
        if isinstance(randomness, Batch):
            return randomness
        rows = randomness if isinstance(randomness, jax.Array) else self._rows(memory, np.zeros(1, int), data)[0]
        return gathering.gather(data, rows)

    def _rows(self, memory: Epoch, steps: np.ndarray, data: Data) -> Array:
        """Return the row numbers of the batches so many steps on, on two last axes."""
        n = num_rows(data)
        # Rows drawn by then, in epochs and places: counted here, for they are no numbers of 32 bits.
        used = steps.astype(np.int64)[:, None] * self.batch_size + np.arange(self.batch_size)
        epochs, places = (jnp.asarray(x.ravel(), jnp.uint32) for x in np.divmod(used, n))
        most = int(used.max() + n - 1) // n

        def of_chain(words: Array, number: Array, offset: Array) -> Array:
            place = offset.astype(jnp.uint32) + places
            later = (epochs + (place >= n)).astype(jnp.int32)
            place = jnp.where(place >= n, place - n, place).astype(jnp.int32)
            return _random.permuted(words, number, place, n, later, most).reshape(used.shape)

        return jnp.vectorize(of_chain, signature="(w),(),()->(s,b)")(memory.words, memory.number, memory.offset)

    def advance(self, memory: Epoch, data: Data) -> Epoch:
        # Counted in epochs and offsets, so that no number of steps is too large.
        left = num_rows(data) - memory.offset
        ended = self.batch_size >= left
        offset = jnp.where(ended, self.batch_size - left, memory.offset + self.batch_size)
        return Epoch(memory.words, memory.number + ended, offset)

    def check(self, data: Data) -> None:
        check_fits(self.batch_size, data, "rows='epochs'")

    def named(self) -> dict[str, Any]:
        return {"rows": "epochs"}
