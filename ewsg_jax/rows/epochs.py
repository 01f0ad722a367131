"""Reshuffled epochs: every row once in each n draws, in a new order each time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _random
from ewsg_jax._module import module
from ewsg_jax._types import Array, Data, Key
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

    exchangeable = False

    def init(self, key: Key) -> Epoch:
        return Epoch(jax.random.bits(key, (2,), jnp.uint32), jnp.int32(0), jnp.int32(0))

    def draw(self, key: Key, data: Data) -> tuple[()]:
        return ()

    def batch(self, randomness: tuple[()], memory: Epoch, data: Data) -> Batch:
        n = num_rows(data)
        # Compared with what is left, for near 2³¹ rows an offset and a batch are no sum in 32 bits.
        left = n - memory.offset
        number = jnp.arange(self.batch_size, dtype=jnp.int32)
        place = jnp.where(number < left, memory.offset + number, number - left)
        return gathering.gather(data, _random.permuted(memory.words, memory.number, place, n, number >= left))

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
