"""Batches: which rows of the data each has, and the rows themselves, once they are fetched."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _check
from ewsg_jax._module import Part, module, static
from ewsg_jax._types import Array, Data, PyTree
from ewsg_jax.rows.spread import Spread
from ewsg_jax.rows.view import CHUNK_SIZE as CHUNK_SIZE
from ewsg_jax.rows.view import all_rows as all_rows
from ewsg_jax.rows.view import fold_over_rows as fold_over_rows
from ewsg_jax.rows.view import in_pieces, view
from ewsg_jax.rows.view import num_rows as num_rows
from ewsg_jax.rows.view import sum_over_rows as sum_over_rows


class Batch(NamedTuple):
    """Which rows a batch has; with the rows themselves, once they are fetched.

    Attributes:
        indices: row numbers, int32, any shape.
        pieces: the rows, the last axis of each leaf in pieces: shape (*indices.shape, …, pieces,
            width); None before they are fetched.
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
    """Randomness whose rows are not to be fetched ahead: nothing reads them, or the row numbers are
    kept.
    """

    randomness: PyTree


def fetch(randomness: PyTree, data: Data) -> PyTree:
    """Return what was drawn with the rows of each batch in it: the second and last stage of
    randomness.

    It may be done for the batches of many steps and chains at once.

    Args:
        randomness: what a kernel, an estimator or a law of rows has drawn, with any leading axes.
        data: a tree of arrays with the leading axis n.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data, law = jnp.arange(10.0), ewsg.rows.row_law(3, True, "random")
        >>> drawn = jax.vmap(lambda key: law.draw(key, data))(
        ...     jax.random.split(jax.random.key(0), 4)
        ... )
        >>> ewsg.rows.fetch(drawn, data).pieces.shape  # 4 batches of 3 rows
        (4, 3)
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
        ahead: whether this is ahead of the use. A step reads whole rows of a block that it slices
            itself sooner.

    Raises:
        TypeError: it is neither: row numbers alone do not say what each row stands for.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> batch = ewsg.rows.Batch(jnp.array([2, 0]))
        >>> ewsg.rows.fetched(batch, {"x": jnp.array([5.0, 6.0, 7.0])}).pieces["x"].tolist()
        [7.0, 5.0]
    """
    if isinstance(batch, Block):
        return gather_blocks(data, batch.start, batch.size, ahead=ahead, around=batch.around)
    if not isinstance(batch, Batch):
        raise no_batch(batch)
    return (
        batch if batch.pieces is not None else batch._replace(pieces=view(data).take(batch.indices))
    )


def check_drawn(law: Any, drawn: Any, data: Data) -> None:
    """Check, while tracing, that a law has drawn what it says.

    Raises:
        TypeError, ValueError: it is no batch; it has another number of rows than the law's share of
            a batch; or it has weights and the law does not say so, or the other way round.
    """
    if not isinstance(drawn, Batch | Block):
        raise no_batch(drawn, law)
    size = view(data).share(law.batch_size)
    shape = (drawn.size,) if isinstance(drawn, Block) else drawn.indices.shape
    if shape != (size,):
        raise ValueError(
            f"draw of {law!r} must return {size} rows, shape ({size},); got shape {shape}"
        )
    has_weights = isinstance(drawn, Batch) and drawn.weights is not None
    if has_weights != law.weighted:
        found = "a batch with weights" if has_weights else "a batch without weights"
        raise ValueError(
            f"weighted of {law!r} must say whether its batches have weights; got {law.weighted} "
            f"and {found}"
        )


def no_batch(drawn: object, law: object = "a law of rows") -> TypeError:
    """Return the error that something drawn is no batch: row numbers alone do not say what each row
    stands for.
    """
    return TypeError(
        f"draw of {law} must return an ewsg_jax.rows.Batch, of row numbers and perhaps weights, "
        "or a Block; got "
        f"{_check.describe(drawn)}"
    )


def gather(data: Data, indices: Array) -> Batch:
    """Gather rows by their numbers.

    Args:
        data: a tree of arrays with the leading axis n.
        indices: row numbers known to be in bounds, int32, any shape.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> ewsg.rows.gather(jnp.array([5.0, 6.0, 7.0]), jnp.array([2, 0])).pieces.tolist()
        [7.0, 5.0]
    """
    return fetched(Batch(indices), data)


def gather_blocks(
    data: Data, starts: Array, size: int, *, ahead: bool = True, around: bool = True
) -> Batch:
    """Gather blocks of consecutive rows, the first row following on the last.

    A block that reaches beyond the end has the first rows in front of the last ones.

    Args:
        data: a tree of arrays with the leading axis n.
        starts: where the blocks begin, int32, any shape.
        size: how many rows each has, at most n.
        ahead: whether this is ahead of the use. A step reads whole rows that it slices itself
            sooner.
        around: whether a block may reach beyond the end.
    """
    last = num_rows(data) - size
    place = jnp.arange(size, dtype=jnp.int32)
    if not around and not isinstance(data, Spread):
        return Batch(
            starts[..., None] + place, jax.tree.map(lambda x: _slices(x, starts, size, ahead), data)
        )
    first, wrapped = jnp.minimum(starts, last), jnp.maximum(0, starts - last)
    chosen = place < wrapped[..., None]
    indices = jnp.where(chosen, place, first[..., None] + place)
    if isinstance(data, Spread):
        return gather(data, indices)

    def pieces(leaf: Array) -> Array:
        blocks = _slices(leaf, first, size, ahead)
        begin = leaf[:size].reshape(size, *blocks.shape[chosen.ndim :])
        return jnp.where(chosen.reshape(*chosen.shape, *[1] * (begin.ndim - 1)), begin, blocks)

    return Batch(indices, jax.tree.map(pieces, data))


def rows_of(batch: Batch, data: Data) -> Data:
    """Return the rows of a batch, the leading axes those of its indices."""
    gathered = fetched(batch, data)
    shape = gathered.indices.shape
    return jax.tree.map(
        lambda x, leaf: x.reshape(*shape, *leaf.shape[1:]), gathered.pieces, view(data).cut
    )


def _slices(leaf: Array, starts: Array, size: int, ahead: bool) -> Array:
    """Return `size` rows from each start on, at most n − size."""

    def take(x: Array, first: Array) -> Array:
        sizes = (size, *x.shape[1:])
        axes = tuple(range(first.ndim, first.ndim + len(sizes)))
        numbers = jax.lax.GatherDimensionNumbers(
            axes, collapsed_slice_dims=(), start_index_map=(0,)
        )
        return jax.lax.gather(x, first[..., None], numbers, sizes, mode="promise_in_bounds")

    return in_pieces(leaf, starts, take) if ahead else take(leaf, starts)
