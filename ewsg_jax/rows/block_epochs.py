"""Epochs of blocks: the data are cut into blocks of b consecutive rows, and an epoch takes each block once.

The order of the blocks is new in every epoch; or (sweeps) a forward epoch is followed by its mirror image, the last
block first, and every such pair has a new order (Paulin, Whalley, Chada & Leimkuhler 2024).

The rows are a circle. An epoch cuts the next ⌊n/b⌋ blocks from it, beginning where the last one ended, so that the
n mod b rows that it leaves out are the first of the next epoch's: in the long run all rows come as often. The first
epoch begins at a uniform row. Every batch is then a block from a uniform start and each row stands for n/b: the
estimate is unbiased. Where b divides n no row is left out, and all epochs have the blocks that begin at row 0.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _random
from ewsg_jax._module import module, static
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.rows import gathering
from ewsg_jax.rows.blocks import Blocks
from ewsg_jax.rows.gathering import Batch, num_rows
from ewsg_jax.rows.law import RowLaw
from ewsg_jax.tags import saved_as


@saved_as("block_epoch")
class BlockEpoch(NamedTuple):
    """Where a chain is in its stream of orders.

    Attributes:
        words: what its orders are made from (two) and its first row (two), uint32, shape (4,).
        number: of the epoch, the mirrored ones counted too, int32.
        place: blocks of it that are used up, int32.
        back: by how many rows its cut lies before the first one's, around the circle, int32.
    """

    words: Array
    number: Array
    place: Array
    back: Array


@module
class BlockEpochs(Blocks):
    """The next block of an epoch.

    Attributes:
        mirrored: whether every other epoch is the one before it backwards.
    """

    exchangeable = False
    lists_batches = False

    mirrored: bool = static(default=False)

    def init(self, key: Key) -> BlockEpoch:
        return BlockEpoch(jax.random.bits(key, (4,), jnp.uint32), jnp.int32(0), jnp.int32(0), jnp.int32(0))

    def draw(self, key: Key, data: Data) -> tuple[()]:
        return ()

    def ahead(self, randomness: PyTree, memory: BlockEpoch, steps: np.ndarray, data: Data) -> Array:
        return jnp.moveaxis(self._starts(memory, steps, data), -1, 0)

    def gather(self, randomness: PyTree, data: Data) -> PyTree:
        if not isinstance(randomness, jax.Array):
            return randomness
        return gathering.gather_blocks(data, randomness, self.batch_size, around=self._left_out(data) > 0)

    def batch(self, randomness: PyTree, memory: BlockEpoch, data: Data) -> Batch:
        if isinstance(randomness, Batch):
            return randomness
        start = randomness if isinstance(randomness, jax.Array) else self._starts(memory, np.zeros(1, int), data)[0]
        around = self._left_out(data) > 0
        return gathering.gather_blocks(data, start, self.batch_size, in_pieces=False, around=around)

    def advance(self, memory: BlockEpoch, data: Data) -> BlockEpoch:
        return self._after(memory, np.array(1), data)

    batches = RowLaw.batches

    def named(self) -> dict[str, Any]:
        return {"rows": "block_sweeps" if self.mirrored else "block_epochs"}

    def _after(self, memory: BlockEpoch, steps: np.ndarray, data: Data) -> BlockEpoch:
        """Return the memory so many steps on."""
        n, count, left_out = num_rows(data), self._count(data), self._left_out(data)
        # Unsigned, for near 2³¹ rows a place and some steps are no sum in 31 bits.
        place = memory.place.astype(jnp.uint32) + steps.astype(np.uint32)
        number, back = memory.number + (place // count).astype(jnp.int32), memory.back
        if left_out:
            # Worked out here, for their product with rows is no number of 32 bits.
            moves = [cut * left_out % n for cut in range(self._most(steps, data) + 1)]
            moved = jnp.asarray(moves, jnp.uint32)[self._order(number) - self._order(memory.number)]
            back = _around(back.astype(jnp.uint32) + moved, n)
        return BlockEpoch(memory.words, number, (place % count).astype(jnp.int32), back)

    def _starts(self, memory: BlockEpoch, steps: np.ndarray, data: Data) -> Array:
        """Return the first rows of the blocks so many steps on, on a last axis."""
        n, count, most = num_rows(data), self._count(data), self._most(steps, data)
        now = BlockEpoch(memory.words, *(counter[..., None] for counter in memory[1:]))
        then = self._after(now, steps, data)
        place, order = then.place, self._order(memory.number)
        if self.mirrored:
            place = jnp.where(then.number & 1, count - 1 - place, place)
        later = self._order(then.number) - order[..., None]

        def permuted(words: Array, order: Array, places: Array, later: Array) -> Array:
            return _random.permuted(words, order, places, count, later, most)

        of_chains = jnp.vectorize(permuted, signature="(w),(),(s),(s)->(s)")
        start = of_chains(memory.words[..., :2], order, place, later).astype(jnp.uint32) * self.batch_size
        if not self._left_out(data):
            return start.astype(jnp.int32)
        words = jnp.moveaxis(memory.words[..., 2 : 2 + _random.words_per_index(n)], -1, 0)
        first = _random.scaled(words, jnp.uint32(n))[..., None].astype(jnp.uint32)
        cut = _around(first + (n - then.back.astype(jnp.uint32)), n).astype(jnp.uint32)
        return _around(cut + start, n)

    def _order(self, number: Array) -> Array:
        """Return the number of an epoch's order."""
        return number >> 1 if self.mirrored else number

    def _count(self, data: Data) -> int:
        """Return how many blocks there are in an epoch."""
        return num_rows(data) // self.batch_size

    def _left_out(self, data: Data) -> int:
        """Return how many rows an epoch leaves out."""
        return num_rows(data) % self.batch_size

    def _most(self, steps: np.ndarray, data: Data) -> int:
        """Return how many orders later some step may be."""
        count = self._count(data)
        return (count - 1 + int(steps.max())) // count


def _around(number: Array, n: int) -> Array:
    """Return the remainder by n of what is at most 2n, uint32, for n below 2³¹."""
    return jnp.where(number >= n, number - n, number).astype(jnp.int32)
