"""Blocks of rows: b consecutive ones, the first row following on the last.

Each from a uniform start, or the blocks into which the data are cut, each once an epoch. The order
of these is new in every epoch; or (sweeps) a forward epoch is followed by its mirror image, the
last block first, and every such pair has a new order (Paulin, Whalley, Chada & Leimkuhler 2024).

The rows are a circle, from which each order cuts its ⌊n/b⌋ blocks, beginning at a uniform row of
its own. Every batch is then a block from a uniform start and each row stands for n/b: the estimate
is unbiased. If b divides n no row is left out, and all epochs have the blocks that begin at row 0.
"""

import jax.numpy as jnp

from ewsg_jax.base import rng
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.rows._epochs import place_in_epoch
from ewsg_jax.rows._scheme import Order, SamplingScheme, check_fits
from ewsg_jax.rows._view import Batch, Block, num_rows


@module
class Blocks(SamplingScheme):
    """b consecutive rows: quick to fetch, for data in random order."""

    needs = frozenset({Need.ONE_N, Need.ONE_PLACE})

    distinct = True

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Block:
        return Block(start=rng.rows(key, num_rows(data), 1)[0], size=self.batch_size)

    def check(self, data: Data) -> None:
        check_fits(self.batch_size, data, "rows='blocks'")

    def batches(self, data: Data) -> Batch | Block:
        return Block(start=jnp.arange(num_rows(data), dtype=jnp.int32), size=self.batch_size)


@module
class BlockEpochs(Blocks):
    """The next block of an epoch.

    Attributes:
        mirrored: whether every other epoch is the one before it backwards.
    """

    ordered = True

    mirrored: bool = static(default=False)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Block:
        assert order is not None
        n, b = num_rows(data), self.batch_size
        count, left_out = divmod(n, b)
        number, place = place_in_epoch(order, count)
        if self.mirrored:
            place = jnp.where(number & 1, count - 1 - place, place)
            number = number >> 1
        start = rng.permuted(order.words[:2], number, place, count) * b
        if left_out:
            # Unsigned, because near 2³¹ rows the sum of two row numbers needs 32 bits.
            first = rng.permuted(order.words[2:], number, jnp.int32(0), n).astype(jnp.uint32)
            start = first + start.astype(jnp.uint32)
            start = jnp.where(start >= n, start - n, start).astype(jnp.int32)
        return Block(start=start, size=b, around=left_out > 0)

    batches = SamplingScheme.batches

    @property
    def rows(self) -> str:
        """Its name."""
        return "block_sweeps" if self.mirrored else "block_epochs"

    def check(self, data: Data) -> None:
        check_fits(self.batch_size, data, f"rows={self.rows!r}")
