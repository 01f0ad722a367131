"""Rows of the data: how many there are, sums over all of them, and some gathered by their numbers.

Gathering is the costliest part of a step on a CPU.
XLA's CPU backend copies a gathered row number by number; where the last axis is seen as pieces of 16 bytes it
copies piece by piece (measured with 50 random rows of 54 float32: 7.4 against 3.0 µs). So rows are gathered as
pieces, ahead of the step where there is a run that can do so, and put together where they are used.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _check, _tree
from ewsg_jax._module import Part, module, static
from ewsg_jax._types import Array, Data, PyTree
from ewsg_jax.rows.spread import Spread
from ewsg_jax.rows.view import CHUNK_SIZE as CHUNK_SIZE
from ewsg_jax.rows.view import fold_over_rows as fold_over_rows
from ewsg_jax.rows.view import num_rows as num_rows
from ewsg_jax.rows.view import view

BYTES_PER_PIECE = 16


class Batch(NamedTuple):
    """Which rows a batch has; with the rows themselves, once they are fetched.

    Attributes:
        indices: row numbers, int32, any shape.
        pieces: the rows, the last axis of each leaf in pieces: shape (*indices.shape, …, pieces, width); None
            before they are fetched.
        weights: what each row stands for, shaped like the indices; None for n/b rows each.
    """

    indices: Array
    pieces: PyTree = None
    weights: Array | None = None

    def without_rows(self) -> "Batch":
        """Return the row numbers and weights alone."""
        return self._replace(pieces=None)


@module
class Block(Part):
    """A batch of consecutive rows that are not fetched yet, the first row following on the last.

    Attributes:
        start: its first row, int32, any shape.
        size: how many rows it has, at most n.
        around: whether it may reach beyond the end.
    """

    start: Array
    size: int = static()
    around: bool = static(default=True)


class AsDrawn(NamedTuple):
    """Randomness whose rows are not to be fetched ahead: nothing looks at them, or the row numbers are kept."""

    randomness: PyTree


def all_rows(data: Data) -> int:
    """Return how many rows there are in all: of a window of a stream or a part of the data, more than are here."""
    return view(data).in_all


def sum_over_rows(function: Callable[[Data], PyTree], data: Data, chunk_size: int = CHUNK_SIZE) -> PyTree:
    """Return the sum over all rows of what a function makes of at most `chunk_size` of them."""
    return view(data).sum(function, chunk_size)


def map_over_rows(function: Callable[[Data], PyTree], data: Data, chunk_size: int = CHUNK_SIZE) -> PyTree:
    """Return `function(data)` for a function of each row apart, at most `chunk_size` rows at a time."""
    n = num_rows(data)
    if n <= chunk_size:
        return function(data)
    return jax.lax.map(
        lambda row: _tree.take(function(jax.tree.map(lambda x: x[None], row)), 0), data, batch_size=chunk_size
    )


def fetch(randomness: PyTree, data: Data) -> PyTree:
    """Return what was drawn with the rows of each batch in it: the second and last stage of randomness.

    It may be done for the batches of many steps and chains at once.

    Args:
        randomness: what a kernel, an estimator or a law of rows has drawn, with any leading axes.
        data: a tree of arrays with the leading axis n.
    """
    marks = (Batch, Block, AsDrawn)

    def of_part(part: Any) -> Any:
        return fetched(part, data, ahead=True) if isinstance(part, Batch | Block) else part

    return jax.tree.map(of_part, randomness, is_leaf=lambda part: isinstance(part, marks))


def fetched(batch: Batch | Block, data: Data, *, ahead: bool = False) -> Batch:
    """Return one batch with its rows, as it is where it has them.

    Args:
        batch: which rows, as a law of rows draws them.
        data: a tree of arrays with the leading axis n.
        ahead: whether this is ahead of the use. A step reads whole rows of a block that it slices itself sooner.

    Raises:
        TypeError: it is neither: row numbers alone do not say what each row stands for.
    """
    if isinstance(batch, Block):
        return gather_blocks(data, batch.start, batch.size, in_pieces=ahead, around=batch.around)
    if not isinstance(batch, Batch):
        raise TypeError(
            "draw of a law of rows must return an ewsg_jax.rows.Batch, of row numbers and perhaps weights, or a "
            f"Block; got {_check.describe(batch)}"
        )
    return batch if batch.pieces is not None else gather(data, batch.indices)._replace(weights=batch.weights)


def gather(data: Data, indices: Array) -> Batch:
    """Gather rows by their numbers.

    Args:
        data: a tree of arrays with the leading axis n.
        indices: row numbers known to be in bounds, int32, any shape.
    """
    return Batch(indices, view(data).take(indices, _gather))


def gather_blocks(data: Data, starts: Array, size: int, *, in_pieces: bool = True, around: bool = True) -> Batch:
    """Gather blocks of consecutive rows, the first row following on the last.

    A block that reaches beyond the end has the first rows in front of the last ones.

    Args:
        data: a tree of arrays with the leading axis n.
        starts: where the blocks begin, int32, any shape.
        size: how many rows each has, at most n.
        in_pieces: whether this is ahead of the use. A step reads whole rows that it slices itself sooner.
        around: whether a block may reach beyond the end.
    """
    last = num_rows(data) - size
    place = jnp.arange(size, dtype=jnp.int32)
    if not around and not isinstance(data, Spread):
        return Batch(starts[..., None] + place, jax.tree.map(lambda x: _slices(x, starts, size, in_pieces), data))
    first, wrapped = jnp.minimum(starts, last), jnp.maximum(0, starts - last)
    chosen = place < wrapped[..., None]
    indices = jnp.where(chosen, place, first[..., None] + place)
    if isinstance(data, Spread):
        return gather(data, indices)

    def pieces(leaf: Array) -> Array:
        blocks = _slices(leaf, first, size, in_pieces)
        begin = leaf[:size].reshape(size, *blocks.shape[chosen.ndim :])
        return jnp.where(chosen.reshape(*chosen.shape, *[1] * (begin.ndim - 1)), begin, blocks)

    return Batch(indices, jax.tree.map(pieces, data))


def rows_of(batch: Batch, data: Data) -> Data:
    """Return the rows of a batch, the leading axes those of its indices."""
    gathered = fetched(batch, data)
    shape = gathered.indices.shape
    return jax.tree.map(lambda x, leaf: x.reshape(*shape, *leaf.shape[1:]), gathered.pieces, view(data).cut)


def _gather(leaf: Array, indices: Array) -> Array:
    return _in_pieces(leaf, indices, _tree.take)


def _slices(leaf: Array, starts: Array, size: int, in_pieces: bool) -> Array:
    """Return `size` rows from each start on, at most n − size."""

    def take(x: Array, first: Array) -> Array:
        sizes = (size, *x.shape[1:])
        axes = tuple(range(first.ndim, first.ndim + len(sizes)))
        numbers = jax.lax.GatherDimensionNumbers(axes, collapsed_slice_dims=(), start_index_map=(0,))
        return jax.lax.gather(x, first[..., None], numbers, sizes, mode="promise_in_bounds")

    return _in_pieces(leaf, starts, take) if in_pieces else take(leaf, starts)


def _in_pieces(leaf: Array, where: Array, take: Callable[[Array, Array], Array]) -> Array:
    """Return what `take(leaf, where)` does, its last axis in pieces."""
    width = _width(leaf)
    if width == 1:
        return take(leaf, where)
    shape = leaf.shape[-1] // width, width

    # Elsewhere than on a CPU such a view of all the data may be a copy.
    def after(x: Array, i: Array) -> Array:
        found = take(x, i)
        return found.reshape(*found.shape[:-1], *shape)

    return jax.lax.platform_dependent(
        leaf, where, cpu=lambda x, i: take(x.reshape(*x.shape[:-1], *shape), i), default=after
    )


def _width(leaf: Array) -> int:
    """Return how many numbers make a piece: a power of two that divides the last axis."""
    return math.gcd(leaf.shape[-1], BYTES_PER_PIECE // leaf.dtype.itemsize) if leaf.ndim > 1 else 1
