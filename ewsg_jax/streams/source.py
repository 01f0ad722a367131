"""What rows are read from: arrays, files, several of them one after the other or side by side."""

import abc
import os
from collections.abc import Sequence

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import PyTree


class Source(abc.ABC):
    """Rows that are read from somewhere.

    Attributes:
        num_rows: how many there are.
        row: the shape and dtype of one, a tree.
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
        """Return where a row is, for messages."""
        return f"row {row:,}"


class Array(Source):
    """Rows of an array: anything with shape, dtype and slices, as in NumPy, HDF5 or Zarr."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.num_rows = int(array.shape[0])
        self.row = jax.ShapeDtypeStruct(tuple(array.shape[1:]), np.dtype(array.dtype))

    def read(self, start: int, out: list[np.ndarray]) -> None:
        stop = start + len(out[0])
        try:
            found = np.asarray(self._array[start:stop])
        except Exception as error:
            raise unreadable(f"rows {start:,} to {stop - 1:,}", error) from error
        check_alike(found, out[0], f"rows {start:,} to {stop - 1:,}")
        out[0][...] = found


class Joined(Source):
    """The rows of several sources, one after the other."""

    def __init__(self, parts: Sequence[Source]) -> None:
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
            number, own = self._place(start + done)
            part = self.parts[number]
            count = min(part.num_rows - own, len(out[0]) - done)
            part.read(own, [x[done : done + count] for x in out])
            done += count

    def where(self, row: int) -> str:
        number, own = self._place(row)
        return f"{self.parts[number].where(own)}, row {row:,} of all"

    def _place(self, row: int) -> tuple[int, int]:
        """Return which part a row is in, and its number there."""
        number = int(np.searchsorted(self._ends, row, side="right"))
        return number, row - (int(self._ends[number - 1]) if number else 0)


class Together(Source):
    """A tree of sources, each a part of every row."""

    def __init__(self, tree: PyTree) -> None:
        self._parts, structure = jax.tree.flatten(
            tree, is_leaf=lambda part: isinstance(part, Source)
        )
        lengths = {part.num_rows for part in self._parts}
        if len(lengths) > 1:
            found = ", ".join(f"{part.num_rows:,}" for part in self._parts)
            raise ValueError(
                f"source must be a tree whose parts have as many rows as each other; got {found}"
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
        told = dict.fromkeys(part.where(row) for part in self._parts)
        return " and ".join(told)


class Watched:
    """A file that is to stay what it is."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the head of a file.

        Raises:
            OSError: there is none.
        """
        self.path = os.fspath(path)
        self._found = self._look()

    def __str__(self) -> str:
        return repr(self.path)

    def check(self) -> None:
        """Raise ValueError where the file is another than it was, in size or time."""
        try:
            found = self._look()
        except OSError as error:
            raise unreadable(str(self), error) from error
        for name, old, new in zip(
            ("bytes", "as time of its last change"), self._found, found, strict=True
        ):
            if old != new:
                raise ValueError(
                    f"data must stay what they are; {self} has {new:,} {name}, and had {old:,}"
                )

    def _look(self) -> tuple[int, int]:
        found = os.stat(self.path)
        return found.st_size, found.st_mtime_ns


def unreadable(where: str, error: Exception) -> OSError:
    """Return the error that rows could not be read."""
    told = getattr(error, "strerror", None) or _check.reason(error)
    return OSError(
        getattr(error, "errno", None) or 5,
        f"data must be readable; {where} could not be read: {told}",
    )


def check_alike(found: np.ndarray, wanted: np.ndarray, where: str) -> None:
    """Raise ValueError where an array of rows has not the shape or the dtype of the first row's."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise ValueError(
            f"data must have rows like the first one, {wanted.dtype} of shape {wanted.shape[1:]}; "
            f"{where}: {found.dtype} of shape {found.shape[1:]}, {len(found) if found.ndim else 0} "
            f"of {len(wanted)} rows"
        )


def _kinds(row: PyTree) -> str:
    told = jax.tree.map(lambda x: f"{x.dtype} {x.shape}", row)
    return told if isinstance(told, str) else str(told)
