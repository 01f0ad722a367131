"""Rows that lie on several devices: each device's part knows how sums over it become sums over all
rows.

What is summed over rows stays each part's own until it becomes a gradient or a potential, in
`Posterior` alone: one sum over the devices of d numbers. A batch of b rows is b/S from each of S
parts.
"""

import jax
import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array, Key, PyTree
from ewsg_jax.rows._padded import PartlyCounted

PARTS = "parts"
"""The name of the axis of the parts of the data that lie on one device."""


@module
class Shard(PartlyCounted):
    """One of several parts of the data, inside a shard_map or vmap over `axes`.

    The parts are equally long; rows that do not count are copies of some that do.

    Attributes:
        total: n of all parts.
        parts: how many there are, S.
        axes: the names of the mapped axes over which the parts lie, the slowest first.
    """

    total: int = static()
    parts: int = static()
    axes: tuple[str, ...] = static()

    @property
    def in_all(self) -> int:
        return self.total

    @property
    def number_in_all(self) -> int:
        return self.total

    @property
    def fewest(self) -> int:
        return self.total // self.parts

    @property
    def part(self) -> Array:
        """Which part this is."""
        return jax.lax.axis_index(self.axes)

    def draw(self, key: Key, batch_size: int, replace: bool = True) -> Array:
        return super().draw(self.key(key), self.share(batch_size), replace)

    def across(self, of_part: PyTree) -> PyTree:
        return jax.lax.psum(of_part, self.axes)

    def added(self, *parts: PyTree) -> tuple[PyTree, ...]:
        return (self.across(pytrees.combine(*((1, part) for part in parts))),)

    def same(self, tree: PyTree) -> PyTree:
        if PARTS not in self.axes:
            return tree
        is_first = jax.lax.axis_index(PARTS) == 0
        return jax.lax.psum(jax.tree.map(lambda x: jnp.where(is_first, x, 0), tree), PARTS)

    def key(self, key: Key) -> Key:
        return jax.random.fold_in(key, self.part)

    def share(self, batch_size: int) -> int:
        return batch_size // self.parts
