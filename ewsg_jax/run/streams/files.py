"""Rows in files: .npy, memory maps, Parquet; and what a source is, by the type that is given."""

import math
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ewsg_jax.base import checks, numeric, optional
from ewsg_jax.base.typing import PyTree
from ewsg_jax.run.streams.source import (
    ArrayRows,
    CombinedRows,
    ConcatenatedRows,
    IndexedRows,
    RowReader,
    UnchangedFile,
    check_alike,
    unreadable,
)


class Raw(RowReader):
    """Rows of one array that lies in a file in C order.

    They are read, not mapped: a map whose file became shorter would end the process.
    """

    def __init__(
        self, path: str | os.PathLike[str], dtype: np.dtype, shape: tuple[int, ...], offset: int
    ) -> None:
        """Read the head of the file."""
        self._file, self._dtype, self._offset = UnchangedFile(path), dtype, offset
        self.num_rows = shape[0]
        self.row = jax.ShapeDtypeStruct(shape[1:], dtype.newbyteorder("="))
        self._bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        # What memory cannot hold until it is read again would only drive other things out of it.
        is_large = os.path.getsize(path) > memory() / 2
        self._is_large = is_large and hasattr(os, "posix_fadvise")

    def read(self, start: int, out: list[np.ndarray]) -> None:
        (room,) = out
        # Bytes of the other order are read beside, and turned round as they are copied.
        into = room if self._dtype.isnative else np.empty(room.shape, self._dtype)
        view, done = memoryview(into.reshape(-1).view(np.uint8).data), 0
        # A file that changes under a run would mix two data sets: looked at before and after.
        self._file.check()
        try:
            with open(self._file.path, "rb", buffering=0) as file:
                file.seek(self._offset + start * self._bytes)
                # A read may return fewer bytes than it was asked for.
                while done < len(view):
                    count = file.readinto(view[done:])
                    if not count:
                        break
                    done += count
                if self._is_large:
                    os.posix_fadvise(
                        file.fileno(),
                        self._offset + start * self._bytes,
                        done,
                        os.POSIX_FADV_DONTNEED,
                    )
        except OSError as error:
            raise unreadable(self.where(start + done // self._bytes), error) from error
        if done < len(view):
            raise ValueError(
                f"data must be whole files; {self._file} ends in row "
                f"{start + done // self._bytes:,} of {self.num_rows:,}"
            )
        self._file.check()
        if into is not room:
            room[...] = into

    def where(self, row: int) -> str:
        return f"row {row:,} of {self._file}"


def memory() -> float:
    """Return how many bytes of memory this machine has; infinity if that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def npy(path: Path) -> Raw:
    """Return the rows of a .npy file, which must hold rows of numbers in C order."""
    no_array = f"source must be of .npy files; {str(path)!r} is not one"
    try:
        array = np.load(path, mmap_mode="r")
    except (EOFError, ValueError, zipfile.BadZipFile) as error:
        size, said = os.path.getsize(path), str(error)
        if not size:
            raise ValueError(f"{no_array}: it is empty") from error
        # What NumPy says of a file that ends in its head, and of one that ends in its rows.
        is_short = any(part in said for part in ("EOF", "mmap length"))
        short = f"it is cut short, at {size:,} bytes: " if is_short else ""
        raise ValueError(f"{no_array}: {short}{said}") from error
    if not isinstance(array, np.memmap):
        array.close()
        raise ValueError(f"{no_array}: it is an archive of arrays, as a .npz file is")
    if not array.ndim or not array.flags.c_contiguous:
        kind = "in Fortran order" if array.ndim else "an array"
        raise ValueError(
            f"source must be of .npy files of rows of numbers in C order; {str(path)!r} holds "
            f"{kind} of {array.dtype} and shape {array.shape}"
        )
    return Raw(path, array.dtype, array.shape, array.offset)


def mapped(array: np.memmap) -> Raw | None:
    """Return a memory map's rows as those of its file; None if they are not one piece."""
    # A slice of a map is a map, too: the file's own is at the bottom.
    base: Any = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    name = getattr(array, "filename", None)
    if name is None or not isinstance(base, np.memmap) or not os.path.exists(name):
        return None
    # What was written into a map of mode "c" is not in the file.
    if base.mode == "c" or not array.flags.c_contiguous or not array.ndim:
        return None
    # What was written into the map may not be in the file yet.
    if base.mode != "r":
        base.flush()
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return Raw(name, array.dtype, array.shape, int(base.offset) + start)


class Parquet(RowReader):
    """Rows of a Parquet file: a dict of its columns."""

    def __init__(self, path: Path) -> None:
        """Read the head of the file, whose columns must be numbers."""
        parquet = optional.module("pyarrow.parquet", "stream of Parquet files")
        self._file = UnchangedFile(path)
        try:
            self._parquet = parquet.ParquetFile(str(path))
        except Exception as error:
            raise ValueError(
                f"source must be of Parquet files; {str(path)!r} is not one: {error}"
            ) from error
        groups = self._parquet.metadata
        self._ends = np.cumsum([groups.row_group(i).num_rows for i in range(groups.num_row_groups)])
        self.num_rows = groups.num_rows
        self._last: tuple[int, list[np.ndarray]] | None = None
        if not self.num_rows:
            raise ValueError(f"source must be of files with rows; {str(path)!r} has none")
        names = self._parquet.schema_arrow.names
        self.row = dict.fromkeys(names)
        columns = self._group(0)
        for name, column in zip(sorted(names), columns, strict=True):
            self.row[name] = jax.ShapeDtypeStruct(column.shape[1:], column.dtype)

    def read(self, start: int, out: list[np.ndarray]) -> None:
        self._file.check()
        done = 0
        while done < len(out[0]):
            group = int(np.searchsorted(self._ends, start + done, side="right"))
            before = int(self._ends[group - 1]) if group else 0
            try:
                columns = self._group(group)
            except Exception as error:
                raise unreadable(self.where(start + done), error) from error
            first = start + done - before
            count = min(int(self._ends[group]) - before - first, len(out[0]) - done)
            for room, column in zip(out, columns, strict=True):
                rows = column[first : first + count]
                check_alike(rows, room[done : done + count], self.where(start + done))
                room[done : done + count] = rows
            done += count
        self._file.check()

    def where(self, row: int) -> str:
        return f"row {row:,} of {self._file}"

    def _group(self, number: int) -> list[np.ndarray]:
        """Return the columns of a row group by order of names; the last group is kept."""
        if self._last is None or self._last[0] != number:
            table = self._parquet.read_row_group(number)
            self._last = (
                number,
                [_numbers(table.column(name), name) for name in sorted(table.column_names)],
            )
        return self._last[1]


def _numbers(column: Any, name: str) -> np.ndarray:
    """Return a column as an array of rows, a column of lists of one length as a matrix."""
    if column.null_count:
        raise ValueError(f"column {name!r} has {column.null_count} rows without a value")
    values = column.combine_chunks()
    size = getattr(values.type, "list_size", None)
    flat = (values if size is None else values.flatten()).to_numpy(zero_copy_only=False)
    if flat.dtype == object:
        raise ValueError(f"column {name!r} holds {values.type}, no numbers")
    return flat if size is None else flat.reshape(-1, size)


SOURCE_TAKES = (
    "source must be a pytree of arrays or memory maps, of paths of .npy or .parquet files or lists "
    "of such, or have __len__ and __getitem__"
)


def opened(source: Any) -> RowReader:
    """Return the source of rows; raise an error that names a source that cannot be read."""
    if _is_one(source):
        rows = _one(source)
    elif _has_rows(source) and not isinstance(source, dict | tuple):
        if not len(source):
            raise ValueError(f"{SOURCE_TAKES}; got one of 0 rows")
        rows = IndexedRows(source)
    else:
        leaves = jax.tree.leaves(source, is_leaf=_is_one)
        for leaf in leaves:
            if not _is_one(leaf):
                raise TypeError(f"{SOURCE_TAKES}; got {checks.describe(leaf)}")
        if not leaves:
            raise TypeError(f"{SOURCE_TAKES}; got {checks.describe(source)}")
        rows = CombinedRows(jax.tree.map(_one, source, is_leaf=_is_one))
    # A file of a list may be without rows, not all of them.
    if not rows.num_rows:
        raise ValueError(f"{SOURCE_TAKES}; got one of 0 rows")
    for leaf in jax.tree.leaves(rows.row):
        if not (np.issubdtype(leaf.dtype, np.number) or leaf.dtype == bool):
            raise TypeError(f"{SOURCE_TAKES}, and hold numbers; got {leaf.dtype}")
    return rows


def _one(part: Any) -> RowReader:
    """Return the rows of an array, a file or a list of files."""
    if isinstance(part, list):
        parts = [_one(path) for path in part]
        return parts[0] if len(parts) == 1 else ConcatenatedRows(parts)
    if isinstance(part, str | os.PathLike):
        return _file(Path(part))
    if not part.ndim or not part.shape[0]:
        raise ValueError(f"{SOURCE_TAKES}; got {checks.describe(part)}, without rows")
    if isinstance(part, np.ma.MaskedArray):
        raise TypeError(f"{SOURCE_TAKES}; got {checks.describe(part)}: {numeric.way(part)}")
    if isinstance(part, jax.Array):
        part = np.asarray(part)
    in_file = mapped(part) if isinstance(part, np.memmap) else None
    return ArrayRows(part) if in_file is None else in_file


def _file(path: Path) -> RowReader:
    if not path.exists():
        raise FileNotFoundError(f"source must be of files that exist; got {str(path)!r}")
    if path.suffix == ".npy":
        return npy(path)
    if path.suffix in (".parquet", ".pq"):
        return Parquet(path)
    raise ValueError(f"source must be of .npy or .parquet files; got {str(path)!r}")


def _is_path(part: object) -> bool:
    return isinstance(part, str | os.PathLike)


def _is_one(part: object) -> bool:
    """Return whether a part of a pytree is an array, a path or a list of paths."""
    if isinstance(part, list):
        return len(part) > 0 and all(map(_is_path, part))
    return _is_path(part) or all(
        hasattr(part, name) for name in ("shape", "dtype", "ndim", "__getitem__")
    )


def _has_rows(source: PyTree) -> bool:
    return hasattr(source, "__len__") and hasattr(source, "__getitem__")
