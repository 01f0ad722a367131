"""A block of rows: b consecutive ones from a uniform start, the first row following on the last."""

import jax.numpy as jnp

from ewsg_jax import _random
from ewsg_jax._module import module
from ewsg_jax._types import Data, Key
from ewsg_jax.needs import Need
from ewsg_jax.rows.law import Order, RowLaw, check_fits
from ewsg_jax.rows.view import Batch, Block, num_rows


@module
class Blocks(RowLaw):
    """b consecutive rows: quick to fetch, for data in random order."""

    needs = frozenset({Need.ONE_N, Need.ONE_PLACE})

    distinct = True

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Block:
        return Block(start=_random.rows(key, num_rows(data), 1)[0], size=self.batch_size)

    def check(self, data: Data) -> None:
        check_fits(self.batch_size, data, "rows='blocks'")

    def batches(self, data: Data) -> Batch | Block:
        return Block(start=jnp.arange(num_rows(data), dtype=jnp.int32), size=self.batch_size)
