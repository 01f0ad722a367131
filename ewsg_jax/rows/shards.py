"""Rows that lie on several devices: each device's part knows how sums over it become sums over all rows.

What is summed over rows stays each part's own until it becomes a gradient or a potential, in `Posterior` alone: one
sum over the devices of d numbers. A batch of b rows is b/S from each of S parts.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ewsg_jax import _tree
from ewsg_jax._types import Array, Data, Key, PyTree

PARTS = "parts"
"""The name of the axis of the parts of the data that lie on one device."""


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=("rows", "size"), meta_fields=("total", "parts", "axes")
)
@dataclass(frozen=True)
class Shard:
    """One of several parts of the data, seen where `axes` are mapped: by `jax.shard_map`, by `jax.vmap`, or both.

    A tree like any other data. The parts are equally long; rows that do not count are copies of such as do.

    Attributes:
        rows: of this part.
        size: how many rows of this part count where a row counts, 0 where it does not, int32, shape (rows,).
        total: n of all parts.
        parts: how many there are, S.
        axes: the names of the mapped axes over which the parts lie, the slowest first.
    """

    rows: Data
    size: Array
    total: int
    parts: int
    axes: tuple[str, ...]


def summed(of_part: PyTree, data: Data) -> PyTree:
    """Return the sum over all parts of what each has; what it is where the data are whole."""
    return jax.lax.psum(of_part, data.axes) if isinstance(data, Shard) else of_part


def same(tree: PyTree, data: Data) -> PyTree:
    """Return what all parts have alike, as one where several lie on a device, for which the memory holds it."""
    if not isinstance(data, Shard) or PARTS not in data.axes:
        return tree
    is_first = jax.lax.axis_index(PARTS) == 0
    return jax.lax.psum(jax.tree.map(lambda x: jnp.where(is_first, x, 0), tree), PARTS)


def own_key(key: Key, data: Data) -> Key:
    """Return a key of this part's own: that of batches, whose rows each part draws from its own."""
    if not isinstance(data, Shard):
        return key
    return jax.random.fold_in(key, part_number(data))


def part_number(data: Shard) -> Array:
    """Return which part this is."""
    number = jnp.int32(0)
    for axis in data.axes:
        number = number * jax.lax.axis_size(axis) + jax.lax.axis_index(axis)
    return number


def share(batch_size: int, data: Data) -> int:
    """Return how many of a batch's rows come from this part; all where the data are whole."""
    return batch_size // data.parts if isinstance(data, Shard) else batch_size


def added(data: Data, *parts: PyTree) -> tuple[PyTree, ...]:
    """Return trees whose sum is that of these over all rows: these where the data are whole, else one."""
    if not isinstance(data, Shard):
        return parts
    return (summed(_tree.combine(*((1, part) for part in parts)), data),)
