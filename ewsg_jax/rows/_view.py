"""One view of the data: which rows are here, which of them count, and how sums over them become
sums over all rows.

A user gives a pytree of arrays that share their leading axis n. A run may see it as a window of a
stream, as one of several parts, padded to the length of other data sets, or on several devices.
Each of these is a `Rows` of its own, and code that is written for `Rows` serves them all. They are
pytrees like any other data, cut and gathered row by row.

Gathering is the costliest part of a step on a CPU. So a run gathers rows for many steps at once.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import Part, module, static
from ewsg_jax.base.typing import Array, Data, Key, PyTree

CHUNK_SIZE = 4096
"""Rows that a sum over all data takes at once."""


class Batch(NamedTuple):
    """Which rows a batch has; with the rows themselves, once they are fetched.

    Attributes:
        indices: row numbers, int32, any shape.
        rows: the rows, leaves of shape (*indices.shape, …); None before they are fetched.
        weights: how many rows each row stands for, shaped like the indices; None for n/b.
    """

    indices: Array
    rows: PyTree = None
    weights: Array | None = None


@module
class Block(Part):
    """A batch of consecutive rows that are not fetched yet, the first row following on the last.

    Attributes:
        start: the number of its first row, int32, any shape.
        size: how many rows it has, at most n.
        around: whether it may reach beyond the end, and continue at row 0.
    """

    start: Array
    size: int = static()
    around: bool = static(default=True)


class AsDrawn(NamedTuple):
    """Randomness whose rows are not fetched ahead: nothing reads them, or numbers are kept."""

    randomness: PyTree


@module
class Rows(Part):
    """All rows of a data set, in memory; the base class of the other views.

    How many rows there are, by view. A window has m of N rows, a part on a device has r of n, and L
    is the length that data sets or parts are padded to:

                        in memory    window    padded            part on a device
        length          n            m         L                 L
        in_all          n            N         L                 n of all parts
        counted         n            m         n                 r
        number          n            N         n                 r
        number_in_all   n            N         n                 n of all parts
        fewest          n            m         least n of all    the least r

    Attributes:
        rows: a pytree of arrays.
    """

    rows: Data

    @property
    def tree(self) -> Data:
        """The rows as a pytree of arrays that share their leading axis, or their shapes."""
        return self.rows

    @property
    def cut(self) -> Data:
        """The pytree that is cut and gathered row by row: the rows, and which of them count."""
        return self.rows

    @property
    def length(self) -> int:
        """How many rows are here."""
        return jax.tree.leaves(self.rows)[0].shape[0]

    @property
    def in_all(self) -> int:
        """How many rows the whole data set has: for a window or a part, more than are here."""
        return self.length

    @property
    def counted(self) -> Array | int:
        """How many rows here count: batches are drawn among them."""
        return self.length

    @property
    def number(self) -> Array | int:
        """The n that a batch's sum is scaled to, a part's own for a part; an array is a float."""
        return self.length

    @property
    def number_in_all(self) -> Array | int:
        """The n of all parts together."""
        return self.number

    @property
    def fewest(self) -> int:
        """The least n of several data sets or parts if it is known, else the array's length."""
        return self.length

    def draw(self, key: Key, batch_size: int, replace: bool = True) -> Array:
        """Return the row numbers of a batch; a part draws its share, from its own rows."""
        return rng.rows(key, self.length, batch_size, replace)

    def map_rows(self, function: Callable[..., PyTree], *shared: PyTree) -> PyTree:
        """Return `function(*shared, row)` of each row, 0 for rows that do not count."""
        return jax.vmap(function, (*[None] * len(shared), 0))(*shared, self.rows)

    def only_counted(self, of_rows: PyTree) -> PyTree:
        """Return values of rows, leading axis row, with 0 for rows that do not count."""
        return of_rows

    def sum(self, function: Callable[[Data], PyTree], chunk_size: int) -> PyTree:
        """Return a sum over all rows, by a function that sums over at most `chunk_size` rows."""
        return sum_in_chunks(function, self.cut, chunk_size)

    def take(self, indices: Array) -> Data:
        """Return rows by numbers in bounds, any shape."""
        return pytrees.take(self.cut, indices)

    def blocks(self, starts: Array, size: int, *, around: bool) -> Batch:
        """Return blocks of consecutive rows, the first row following on the last.

        A block that reaches beyond the end has the first rows in front of the last ones.

        Args:
            starts: the first row of each block, int32, any shape.
            size: how many rows each block has, at most n.
            around: whether a block may reach beyond the end, and continue at row 0.
        """
        if not around:
            numbers = starts[..., None] + _places(starts, size)
            return Batch(numbers, jax.tree.map(lambda x: _slices(x, starts, size), self.cut))
        numbers, first, is_begin = places_of_blocks(starts, size, self.length)

        def of_leaf(leaf: Array) -> Array:
            blocks = _slices(leaf, first, size)
            # Rows in front of the end and rows of the beginning, chosen row by row.
            rest = blocks.shape[is_begin.ndim :]
            begin = leaf[:size].reshape(*[1] * starts.ndim, size, *rest)
            shape = *is_begin.shape, *[1] * len(rest)
            return jnp.where(is_begin.reshape(shape), begin, blocks)

        return Batch(numbers, jax.tree.map(of_leaf, self.cut))

    def across(self, of_part: PyTree) -> PyTree:
        """Return the sum over all parts of a value that each part has."""
        return of_part

    def added(self, *parts: PyTree) -> tuple[PyTree, ...]:
        """Return pytrees whose sum is the sum of these over all parts."""
        return parts

    def same(self, tree: PyTree) -> PyTree:
        """Return a value that all parts share, once for all parts on one device."""
        return tree

    def key(self, key: Key) -> Key:
        """Return a key of this part's own, for batches that each part draws from its rows."""
        return key

    def share(self, batch_size: int) -> int:
        """Return how many of a batch's rows come from here."""
        return batch_size


def view(data: Data) -> Rows:
    """Return the view of data."""
    return data if isinstance(data, Rows) else Rows(rows=data)


def fetch(randomness: PyTree, data: Data) -> PyTree:
    """Return drawn randomness with the rows of each batch filled in: the second and last stage.

    It may be done for the batches of many steps and chains at once.

    Args:
        randomness: what a kernel, an estimator or a sampling scheme has drawn, with any leading
            axes.
        data: a pytree of arrays with the leading axis n.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data, scheme = jnp.arange(10.0), ewsg.rows.sampling_scheme(3, True, "random")
        >>> drawn = jax.vmap(lambda key: scheme.draw(key, data))(
        ...     jax.random.split(jax.random.key(0), 4)
        ... )
        >>> ewsg.rows.fetch(drawn, data).rows.shape  # 4 batches of 3 rows
        (4, 3)
    """
    marks = (Batch, Block, AsDrawn)

    def of_part(part: PyTree) -> PyTree:
        return fetched(part, data) if isinstance(part, Batch | Block) else part

    return jax.tree.map(of_part, randomness, is_leaf=lambda part: isinstance(part, marks))


def fetched(batch: Batch | Block, data: Data) -> Batch:
    """Return one batch with its rows; a batch that has them is returned as it is.

    Args:
        batch: a batch, as a sampling scheme draws it or as `fetch` returns it.
        data: a pytree of arrays with the leading axis n.

    Raises:
        TypeError: it is not a batch: row numbers alone do not say how many rows each stands for.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> batch = ewsg.rows.Batch(jnp.array([2, 0]))
        >>> ewsg.rows.fetched(batch, {"x": jnp.array([5.0, 6.0, 7.0])}).rows["x"].tolist()
        [7.0, 5.0]
    """
    if isinstance(batch, Block):
        return view(data).blocks(batch.start, batch.size, around=batch.around)
    if not isinstance(batch, Batch):
        raise TypeError(
            "batch must be an ewsg_jax.rows.Batch or a Block, which say what each row stands "
            f"for; got {checks.describe(batch)} (an estimator whose Estimate.batch holds more "
            "needs a gradient_at of its own)"
        )
    return batch if batch.rows is not None else batch._replace(rows=view(data).take(batch.indices))


def gather(data: Data, indices: Array) -> Batch:
    """Gather rows by their numbers.

    Args:
        data: a pytree of arrays with the leading axis n.
        indices: row numbers known to be in bounds, int32, any shape.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> ewsg.rows.gather(jnp.array([5.0, 6.0, 7.0]), jnp.array([2, 0])).rows.tolist()
        [7.0, 5.0]
    """
    return fetched(Batch(indices), data)


def sum_in_chunks(function: Callable[[Data], PyTree], data: Data, chunk_size: int) -> PyTree:
    """Return `function(data)` of a function that sums over rows, `chunk_size` rows at a time.

    No copy of the data is made; memory is that of one chunk (times the chains, under `vmap`).
    """
    # One chunk needs no loop and no total.
    if num_rows(data) <= chunk_size:
        return function(data)

    def add(total: PyTree, rows: Data, before: Array | int) -> PyTree:
        return pytrees.combine((1, total), (1, function(rows)))

    shape = jax.eval_shape(lambda: function(jax.tree.map(lambda x: x[:chunk_size], data)))
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shape)
    return fold_over_rows(add, zero, data, chunk_size)


@functools.lru_cache(maxsize=256)
def _of_one_length(n: int, chunk_size: int) -> int:
    """Return the largest length that divides n, above half of `chunk_size`; else `chunk_size`.

    Rows that are left over need a second copy of the function in the program, which takes as long
    to compile as the first: a sixth of all time from model to answer for 6,000 counts.
    """
    lengths = range(min(n, chunk_size), chunk_size // 2, -1)
    return next((length for length in lengths if n % length == 0), chunk_size)


def num_rows(data: Data) -> int:
    """Return how many rows are here, the length of the leading axis that all leaves share.

    For sampling schemes, whose row numbers are below it; a window or a part has its own.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> ewsg.rows.num_rows({"x": jnp.zeros((10, 3)), "y": jnp.zeros(10)})
        10
    """
    return view(data).length


def all_rows(data: Data) -> int:
    """Return how many rows the data set has: for a window or a part, more than are here.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> ewsg.rows.all_rows({"x": jnp.zeros((10, 3)), "y": jnp.zeros(10)})
        10
    """
    return view(data).in_all


def sum_over_rows(
    function: Callable[[Data], PyTree], data: Data, chunk_size: int = CHUNK_SIZE
) -> PyTree:
    """Return a sum over all rows, by a function that sums over at most `chunk_size` rows."""
    return view(data).sum(function, chunk_size)


def map_over_rows(
    function: Callable[[Data], PyTree], data: Data, chunk_size: int = CHUNK_SIZE
) -> PyTree:
    """Return `function(data)` of a function of single rows, `chunk_size` rows at a time."""
    n = num_rows(data)
    if n <= chunk_size:
        return function(data)
    return jax.lax.map(
        lambda row: pytrees.take(function(jax.tree.map(lambda x: x[None], row)), 0),
        data,
        batch_size=chunk_size,
    )


def fold_over_rows(
    add: Callable[[PyTree, Data, Array | int], PyTree],
    total: PyTree,
    data: Data,
    chunk_size: int = CHUNK_SIZE,
) -> PyTree:
    """Return the total of `add(total, rows, before)` over chunks; `before` rows are in the total.

    Chunks are shorter than `chunk_size`, by less than a half, if they can then all have one length.
    """
    n = num_rows(data)
    chunk_size = _of_one_length(n, chunk_size)
    chunks, rest = divmod(n, chunk_size)

    def rows(start: Array | int, size: int) -> Data:
        return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, size), data)

    def add_chunk(i: Array, total: PyTree) -> PyTree:
        return add(total, rows(i * chunk_size, chunk_size), i * chunk_size)

    # No loop where there is one chunk.
    if n == chunk_size:
        return add(total, data, 0)
    total = jax.lax.fori_loop(0, chunks, add_chunk, total) if chunks else total
    # The rest last, so that all chunks of the loop have one length.
    return total if rest == 0 else add(total, rows(n - rest, rest) if chunks else data, n - rest)


def places_of_blocks(starts: Array, size: int, length: int) -> tuple[Array, Array, Array]:
    """Return the row numbers of blocks that may reach beyond the end, the first row of the slice
    for each, and which rows of the slice are replaced by the first rows of the data.
    """
    last, place = length - size, _places(starts, size)
    first, wrapped = jnp.minimum(starts, last), jnp.maximum(0, starts - last)
    is_begin = place < wrapped[..., None]
    return jnp.where(is_begin, place, first[..., None] + place), first, is_begin


def _places(starts: Array, size: int) -> Array:
    """Return 0, 1, … behind the axes of the starts, which have one axis less."""
    return jnp.arange(size, dtype=jnp.int32).reshape(*[1] * starts.ndim, size)


def _slices(leaf: Array, starts: Array, size: int) -> Array:
    """Return `size` rows from each start on, at most n − size."""
    # They lie side by side, so that a slice is one copy.
    sizes = (size, *leaf.shape[1:])
    axes = tuple(range(starts.ndim, starts.ndim + len(sizes)))
    numbers = jax.lax.GatherDimensionNumbers(axes, collapsed_slice_dims=(), start_index_map=(0,))
    return jax.lax.gather(leaf, starts[..., None], numbers, sizes, mode="promise_in_bounds")
