"""What rows are read from: arrays, data sets of grain, Hugging Face or PyTorch, and several sources
one after the other or side by side; and buffers for rows.
"""

import abc
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ewsg_jax.base import checks, limits, numeric
from ewsg_jax.base.typing import Data, PyTree

ALIGNMENT = 64
"""Bytes at whose multiples an array begins that JAX takes as it is on a CPU, without a copy."""


def room(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array to be filled."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    skipped = -buffer.ctypes.data % ALIGNMENT
    return buffer[skipped : skipped + size].view(dtype).reshape(shape)


def check_finite(data: Data, where: Callable[[int], str]) -> None:
    """Raise ValueError if a pytree of NumPy arrays holds NaN or infinity; `where` names the first
    such row by its number.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        if not np.issubdtype(leaf.dtype, np.inexact):
            continue
        step = max(1, limits.NUMBERS_AT_ONCE // max(1, leaf[0].size))
        for first in range(0, len(leaf), step):
            rows = leaf[first : first + step]
            # A sum that is finite is one of finite numbers, and quicker than a look at each.
            with np.errstate(over="ignore", invalid="ignore"):
                if np.isfinite(rows.sum()):
                    continue
            wrong = ~np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
            if wrong.any():
                row = int(np.argmax(wrong))
                numbers = rows[row].reshape(-1)
                value = numbers[~np.isfinite(numbers)][0]
                name = jax.tree_util.keystr(path)
                raise ValueError(
                    f"data must be finite; {where(first + row)} holds {value} in data{name}"
                )


def check_unmasked(value: object, where: str) -> None:
    """Raise ValueError if numbers of an array, or arrays of a list, are masked.

    NumPy would take the numbers below the mask.
    """
    kinds = set(map(type, value)) if isinstance(value, list) else {type(value)}
    # A variable of netCDF reads as a masked array, with or without a mask.
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds) and np.ma.is_masked(
        np.ma.stack(value) if isinstance(value, list) else value
    ):
        raise ValueError(
            f"data must hold no masked numbers; {where} holds some: "
            f"{numeric.way(np.ma.masked_array(0))}"
        )


class RowReader(abc.ABC):
    """Rows that are read from somewhere.

    Attributes:
        num_rows: the number of rows.
        row: the shape and dtype of one row, a pytree.
    """

    num_rows: int
    row: PyTree

    @abc.abstractmethod
    def read(self, start: int, out: list[np.ndarray]) -> None:
        """Write rows from `start` on into arrays, one a leaf of `row`, as many as fit.

        Raises:
            OSError, ValueError: a row cannot be read, or is not what it was; the message names it.
        """

    def where(self, row: int) -> str:
        """Return the place of a row, for messages."""
        return f"row {row:,}"


class ArrayRows(RowReader):
    """Rows of an array: anything with shape, dtype and slices, as in NumPy, HDF5 or Zarr."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.num_rows = int(array.shape[0])
        self.row = jax.ShapeDtypeStruct(
            tuple(array.shape[1:]), np.dtype(array.dtype).newbyteorder("=")
        )

    def read(self, start: int, out: list[np.ndarray]) -> None:
        stop = start + len(out[0])
        where = f"rows {start:,} to {stop - 1:,}"
        try:
            rows = self._array[start:stop]
            array = numeric.native(np.asarray(rows))
        except Exception as error:
            raise unreadable(where, error) from error
        check_unmasked(rows, where)
        check_alike(array, out[0], where)
        out[0][...] = array


class ConcatenatedRows(RowReader):
    """The rows of several sources, one after the other."""

    def __init__(self, parts: Sequence[RowReader]) -> None:
        self.parts = list(parts)
        self._ends = np.cumsum([part.num_rows for part in self.parts])
        self.num_rows, self.row = int(self._ends[-1]), self.parts[0].row
        for part in self.parts[1:]:
            if _kinds(part.row) != _kinds(self.row):
                raise ValueError(
                    f"source must be of files whose rows are alike; {part.where(0)} is "
                    f"{_kinds(part.row)}, and {self.parts[0].where(0)} is {_kinds(self.row)}"
                )

    def read(self, start: int, out: list[np.ndarray]) -> None:
        done = 0
        while done < len(out[0]):
            number, row = self._place(start + done)
            part = self.parts[number]
            count = min(part.num_rows - row, len(out[0]) - done)
            part.read(row, [x[done : done + count] for x in out])
            done += count

    def where(self, row: int) -> str:
        number, row_of_part = self._place(row)
        return f"{self.parts[number].where(row_of_part)}, row {row:,} of all"

    def _place(self, row: int) -> tuple[int, int]:
        """Return which part a row is in, and its number there."""
        number = int(np.searchsorted(self._ends, row, side="right"))
        return number, row - (int(self._ends[number - 1]) if number else 0)


class CombinedRows(RowReader):
    """A pytree of sources, each a part of every row."""

    def __init__(self, tree: PyTree) -> None:
        self._parts, structure = jax.tree.flatten(
            tree, is_leaf=lambda part: isinstance(part, RowReader)
        )
        lengths = {part.num_rows for part in self._parts}
        if len(lengths) > 1:
            counts = ", ".join(f"{part.num_rows:,}" for part in self._parts)
            raise ValueError(
                f"source must be a pytree whose parts have as many rows as each other; got {counts}"
            )
        self.num_rows = lengths.pop()
        self.row = jax.tree.unflatten(structure, [part.row for part in self._parts])
        self._counts = [len(jax.tree.leaves(part.row)) for part in self._parts]

    def read(self, start: int, out: list[np.ndarray]) -> None:
        first = 0
        for part, count in zip(self._parts, self._counts, strict=True):
            part.read(start, out[first : first + count])
            first += count

    def where(self, row: int) -> str:
        places = dict.fromkeys(part.where(row) for part in self._parts)
        return " and ".join(places)


class UnchangedFile:
    """A file that is to stay what it is."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the size and time of a file, which must be there."""
        self.path = os.fspath(path)
        self._signature = self._look()

    def __str__(self) -> str:
        return repr(self.path)

    def check(self) -> None:
        """Raise ValueError if the file is another than it was, in size or time."""
        try:
            signature = self._look()
        except OSError as error:
            raise unreadable(str(self), error) from error
        for name, old, new in zip(
            ("bytes", "as time of its last change"), self._signature, signature, strict=True
        ):
            if old != new:
                raise ValueError(
                    f"data must stay what they are; {self} has {new:,} {name}, and had {old:,}"
                )

    def _look(self) -> tuple[int, int]:
        status = os.stat(self.path)
        return status.st_size, status.st_mtime_ns


def unreadable(where: str, error: Exception) -> OSError:
    """Return the error that rows could not be read."""
    reason = getattr(error, "strerror", None) or checks.reason(error)
    return OSError(
        getattr(error, "errno", None) or 5,
        f"data must be readable; {where} could not be read: {reason}",
    )


def check_alike(rows: np.ndarray, like: np.ndarray, where: str) -> None:
    """Raise ValueError if an array of rows has not the shape or the dtype of the first row's."""
    if rows.shape != like.shape or rows.dtype != like.dtype:
        raise ValueError(
            f"data must have rows like the first one, {like.dtype} of shape {like.shape[1:]}; "
            f"{where}: {rows.dtype} of shape {rows.shape[1:]}, {len(rows) if rows.ndim else 0} "
            f"of {len(like)} rows"
        )


def _kinds(row: PyTree) -> str:
    kinds = jax.tree.map(lambda x: f"{x.dtype} {x.shape}", row)
    return kinds if isinstance(kinds, str) else str(kinds)


class IndexedRows(RowReader):
    """Rows of anything with `__len__` and `__getitem__`.

    Several are read by a slice if it returns them, as of Hugging Face, and else one by one.
    """

    def __init__(self, items: Any) -> None:
        """Read the first row, a pytree of numbers, and find out how several are read."""
        self._items, self.num_rows = items, len(items)
        first = self._one(0)
        self._structure = jax.tree.structure(first)
        self.row = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), first)
        self._is_sliced = self._are_sliced(first)

    def read(self, start: int, out: list[np.ndarray]) -> None:
        stop = start + len(out[0])
        if self._is_sliced:
            try:
                rows = self._slice(start, stop)
            except Exception as error:
                raise unreadable(f"rows {start:,} to {stop - 1:,}", error) from error
            self._write(rows, out, f"rows {start:,} to {stop - 1:,}")
            return
        for row in range(start, stop):
            one = jax.tree.map(lambda x: x[None], self._one(row))
            self._write(one, [x[row - start : row - start + 1] for x in out], self.where(row))

    def _write(self, rows: PyTree, out: list[np.ndarray], where: str) -> None:
        if jax.tree.structure(rows) != self._structure:
            raise ValueError(
                f"data must have rows like the first one, {self._structure}; {where}: another "
                "structure"
            )
        for room, leaf in zip(out, jax.tree.leaves(rows), strict=True):
            check_alike(leaf, room, where)
            room[...] = leaf

    def _one(self, row: int) -> PyTree:
        try:
            return _arrays(self._items[row], f"row {row:,}")
        except ValueError:
            raise
        except Exception as error:
            raise unreadable(f"row {row:,}", error) from error

    def _are_sliced(self, first: PyTree) -> bool:
        """Return whether a slice gives several rows, as arrays or lists in the pytree of one."""
        count = min(2, self.num_rows)
        try:
            leaves = jax.tree.leaves(self._slice(0, count))
            same = [
                x.dtype == y.dtype and np.array_equal(x[0], y)
                for x, y in zip(leaves, jax.tree.leaves(first), strict=True)
            ]
        except Exception:  # Whatever it answers to what it does not take.
            return False
        return all(same) and len(leaves[0]) == count

    def _slice(self, start: int, stop: int) -> PyTree:
        where = f"rows {start:,} to {stop - 1:,}"
        return _arrays(self._items[start:stop], where, of_rows=self._structure)


def _arrays(tree: PyTree, where: str, of_rows: Any = None) -> PyTree:
    """Return a row, or several in the structure of one, with NumPy arrays of numbers as leaves."""
    if of_rows is None:
        # A list is an array that was written out, as by Hugging Face.
        leaves, structure = jax.tree.flatten(tree, is_leaf=lambda part: isinstance(part, list))
    else:
        leaves, structure = of_rows.flatten_up_to(tree), of_rows
    arrays = [numeric.native(np.asarray(leaf)) for leaf in leaves]
    if not arrays:
        raise ValueError(
            f"data must have rows that are pytrees of numbers; {where} is {checks.describe(tree)}"
        )
    for leaf, array in zip(leaves, arrays, strict=True):
        check_unmasked(leaf, where)
        if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
            raise ValueError(
                f"data must have rows that are pytrees of numbers; {where} holds "
                f"{checks.describe(leaf)}"
            )
    return jax.tree.unflatten(structure, arrays)
