"""A block of rows: b consecutive ones from a uniform start, the first row following on the last."""

from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax import _random
from ewsg_jax._module import module
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.rows.gathering import Batch, num_rows
from ewsg_jax.rows.law import RowLaw, check_fits


@module
class Blocks(RowLaw[tuple[()]]):
    """b consecutive rows: quick to fetch, for data in random order."""

    distinct = True
    lists_batches = True

    def draw(self, key: Key, data: Data) -> Array:
        return _random.rows(key, num_rows(data), 1)[0]

    def batch(self, randomness: Array | Batch, memory: PyTree, data: Data) -> Batch:
        if isinstance(randomness, Batch):
            return randomness
        start, batch_size = randomness, self.batch_size
        # A block that reaches beyond the end: its places below `wrapped` hold the first rows.
        last = num_rows(data) - batch_size
        wrapped = jnp.maximum(0, start - last)
        place = jnp.arange(batch_size, dtype=jnp.int32)
        first = jnp.minimum(start, last)
        indices = jnp.where(place < wrapped, place, first + place)

        def pieces(leaf: Array) -> Array:
            block = jax.lax.dynamic_slice_in_dim(leaf, first, batch_size)
            chosen = (place < wrapped).reshape(-1, *[1] * (leaf.ndim - 1))
            return jnp.where(chosen, leaf[:batch_size], block)

        return Batch(indices, jax.tree.map(pieces, data))

    def check(self, data: Data) -> None:
        check_fits(self.batch_size, data, "rows='blocks'")

    def batches(self, data: Data) -> Array:
        return jnp.arange(num_rows(data), dtype=jnp.int32)

    def named(self) -> dict[str, Any]:
        return {"rows": "blocks"}
