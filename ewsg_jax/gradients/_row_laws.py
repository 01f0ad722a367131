"""Which rows a batch has: independent ones, a subset, a block, or the next ones of a reshuffled epoch."""

import itertools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _random, _rows
from ewsg_jax._rows import Batch, num_rows
from ewsg_jax._tags import saved_as
from ewsg_jax._types import Array, Data, Key, PyTree

RowLawName = Literal["random", "blocks", "epochs"]
ROW_LAWS = ("random", "blocks", "epochs")

MOST_BATCHES = 100_000
"""How many batches `batches` lists at the most."""


class RowLaw(NamedTuple):
    """How the b rows of each step are chosen; each row stands for n/b rows in the mean.

    Attributes:
        draw: `draw(key, data) -> randomness`.
        gather: `gather(randomness, data) -> randomness` with its rows, which may be done ahead.
        batch: `batch(randomness, memory, data) -> Batch`, of either randomness.
        check: `check(data)`: raises where the data do not go with the law.
        init: `init(key) -> memory`.
        advance: `advance(memory, data) -> memory`, once a step.
        batches: `batches(data) -> randomness`, all equally probable ones on a leading axis, or None.
        exchangeable: whether the batches drawn for one step may be exchanged.
        distinct: whether no batch holds a row twice.
    """

    draw: Callable[[Key, Data], PyTree]
    gather: Callable[[PyTree, Data], PyTree]
    batch: Callable[[PyTree, PyTree, Data], Batch]
    check: Callable[[Data], None]
    init: Callable[[Key], PyTree] = lambda key: ()
    advance: Callable[[PyTree, Data], PyTree] = lambda memory, data: memory
    batches: Callable[[Data], PyTree] | None = None
    exchangeable: bool = True
    distinct: bool = False


@saved_as("epoch")
class Epoch(NamedTuple):
    """Where a chain is in its stream of permutations.

    Attributes:
        words: what all its permutations are made from, uint32, shape (2,).
        number: of the epoch, int32.
        offset: rows of it that are used up, int32.
    """

    words: Array
    number: Array
    offset: Array


def row_law(batch_size: int, replace: bool, rows: RowLawName) -> RowLaw:
    """Return the law of a name.

    Args:
        batch_size: b.
        replace: for `"random"`: with replacement, or a uniform subset.
        rows: `"random"`; `"blocks"`: b consecutive rows (the first follows on the last) from a uniform start, quick
            to fetch, for data in random order; `"epochs"`: every row once in each n, in a new order each time.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.
    """
    _check.integer("batch_size", batch_size)
    _check.boolean("replace", replace)
    _check.one_of("rows", rows, ROW_LAWS)
    if rows != "random" and not replace:
        raise ValueError(f"replace must be True for rows={rows!r}, whose batches hold each row once; got False")
    if rows == "random":
        return _random_rows(batch_size, replace)
    return _blocks(batch_size) if rows == "blocks" else _epochs(batch_size)


def _random_rows(batch_size: int, replace: bool) -> RowLaw:
    def draw(key: Key, data: Data) -> Array:
        return _random.rows(key, num_rows(data), batch_size, replace)

    def batches(data: Data) -> Array:
        n = num_rows(data)
        count = n**batch_size if replace else math.comb(n, batch_size)
        if count > MOST_BATCHES:
            # Python refuses to write out numbers of thousands of digits.
            number = f"{count:,}" if count < 10**18 else f"about 10^{math.log10(count):.0f}"
            raise ValueError(
                f"exact weights need every batch: n = {n} and batch_size = {batch_size} give {number} of them, "
                f"at most {MOST_BATCHES:,} are listed; take batch_size=1 or a finite chain_length"
            )
        listed = (
            itertools.product(range(n), repeat=batch_size)
            if replace
            else itertools.combinations(range(n), batch_size)
        )
        return jnp.asarray(np.array(list(listed), np.int32))

    def check(data: Data) -> None:
        if not replace:
            _check_fits(batch_size, data, "replace=False")

    return RowLaw(draw, _gather, _gathered, check, batches=batches, distinct=not replace)


def _blocks(batch_size: int) -> RowLaw:
    def draw(key: Key, data: Data) -> Array:
        return _random.rows(key, num_rows(data), 1)[0]

    def batch(start: Array | Batch, memory: PyTree, data: Data) -> Batch:
        if isinstance(start, Batch):
            return start
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

    def gather(starts: Array, data: Data) -> Array:
        return starts

    def check(data: Data) -> None:
        _check_fits(batch_size, data, "rows='blocks'")

    def batches(data: Data) -> Array:
        return jnp.arange(num_rows(data), dtype=jnp.int32)

    return RowLaw(draw, gather, batch, check, batches=batches, distinct=True)


def _epochs(batch_size: int) -> RowLaw:
    def init(key: Key) -> Epoch:
        return Epoch(jax.random.bits(key, (2,), jnp.uint32), jnp.int32(0), jnp.int32(0))

    def draw(key: Key, data: Data) -> tuple[()]:
        return ()

    def batch(randomness: tuple[()], memory: Epoch, data: Data) -> Batch:
        n = num_rows(data)
        place = memory.offset + jnp.arange(batch_size, dtype=jnp.int32)
        this, following = (
            _random.permuted(memory.words, memory.number + later, jnp.where(place < n, place, place - n), n)
            for later in (0, 1)
        )
        return _rows.gather(data, jnp.where(place < n, this, following))

    def gather(randomness: tuple[()], data: Data) -> tuple[()]:
        return randomness

    def advance(memory: Epoch, data: Data) -> Epoch:
        # Counted in epochs and offsets, so that no number of steps is too large.
        offset = memory.offset + batch_size
        ended = offset >= num_rows(data)
        return Epoch(memory.words, memory.number + ended, jnp.where(ended, offset - num_rows(data), offset))

    def check(data: Data) -> None:
        _check_fits(batch_size, data, "rows='epochs'")

    # Not distinct: a batch that ends an epoch may begin the next one with a row that it holds.
    return RowLaw(draw, gather, batch, check, init, advance, exchangeable=False)


def _gather(indices: Array, data: Data) -> Batch:
    return _rows.gather(data, indices)


def _gathered(batch: Array | Batch, memory: PyTree, data: Data) -> Batch:
    return batch if isinstance(batch, Batch) else _rows.gather(data, batch)


def _check_fits(batch_size: int, data: Data, why: str) -> None:
    if batch_size > num_rows(data):
        raise ValueError(f"batch_size must be at most n = {num_rows(data)} when {why}; got {batch_size}")


def refuse_unexchangeable(estimator: Any) -> None:
    """Check that the batches of an estimator may be weighted."""
    if not estimator.exchangeable:
        raise ValueError(
            "estimator must draw exchangeable batches to be weighted; got rows='epochs', where choosing among the "
            "next rows of an epoch would change which rows are left; take rows='random' or 'blocks'"
        )
