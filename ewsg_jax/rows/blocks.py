"""A block of rows: b consecutive ones from a uniform start, the first row following on the last."""

from typing import Any

import jax.numpy as jnp

from ewsg_jax import _random
from ewsg_jax._module import module
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.rows import gathering
from ewsg_jax.rows.gathering import Batch, num_rows
from ewsg_jax.rows.law import RowLaw, check_fits


@module
class Blocks(RowLaw[tuple[()]]):
    """b consecutive rows: quick to fetch, for data in random order."""

    distinct = True
    lists_batches = True

    def draw(self, key: Key, data: Data) -> Array:
        return _random.rows(key, num_rows(data), 1)[0]

    def gather(self, randomness: Array, data: Data) -> Batch:
        return gathering.gather_blocks(data, randomness, self.batch_size)

    def batch(self, randomness: Array | Batch, memory: PyTree, data: Data) -> Batch:
        if isinstance(randomness, Batch):
            return randomness
        return gathering.gather_blocks(data, randomness, self.batch_size, in_pieces=False)

    def check(self, data: Data) -> None:
        check_fits(self.batch_size, data, "rows='blocks'")

    def batches(self, data: Data) -> Array:
        return jnp.arange(num_rows(data), dtype=jnp.int32)

    def named(self) -> dict[str, Any]:
        return {"rows": "blocks"}
