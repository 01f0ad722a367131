"""A block of rows: b consecutive ones from a uniform start, the first row following on the last."""

from typing import Any

import jax.numpy as jnp

from ewsg_jax import _random
from ewsg_jax._module import module
from ewsg_jax._types import Data, Key, PyTree
from ewsg_jax.needs import Need
from ewsg_jax.rows import gathering
from ewsg_jax.rows.gathering import Batch, num_rows
from ewsg_jax.rows.law import RowLaw, check_fits


@module
class Blocks(RowLaw[Any]):
    """b consecutive rows: quick to fetch, for data in random order."""

    needs = frozenset({Need.ONE_N, Need.ONE_PLACE})

    distinct = True
    lists_batches = True

    def draw(self, key: Key, data: Data) -> PyTree:
        return _random.rows(key, num_rows(data), 1)[0]

    def gather(self, randomness: PyTree, data: Data) -> PyTree:
        return gathering.gather_blocks(data, randomness, self.batch_size)

    def batch(self, randomness: PyTree, memory: Any, data: Data) -> Batch:
        if isinstance(randomness, Batch):
            return randomness
        return gathering.gather_blocks(data, randomness, self.batch_size, in_pieces=False)

    def check(self, data: Data) -> None:
        check_fits(self.batch_size, data, self.name)

    def batches(self, data: Data) -> PyTree:
        return jnp.arange(num_rows(data), dtype=jnp.int32)

    def named(self) -> dict[str, Any]:
        return {"rows": "blocks"}
