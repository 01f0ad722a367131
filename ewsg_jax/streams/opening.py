"""What a source is: known by the type that is given."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import PyTree
from ewsg_jax.streams.files import Parquet, mapped, npy
from ewsg_jax.streams.items import Items
from ewsg_jax.streams.source import Array, Joined, Source, Together

TAKES = (
    "source must be a tree of arrays or memory maps, of paths of .npy or .parquet files or lists "
    "of such, or have __len__ and __getitem__"
)


def opened(source: Any) -> Source:
    """Return what rows are read from.

    Raises:
        TypeError, ValueError: it is nothing that rows are read from; the message names it.
        OSError: a file cannot be read.
        ImportError: a Parquet file, and no pyarrow.
    """
    if _is_one(source):
        found = _one(source)
    elif _has_rows(source) and not isinstance(source, dict | tuple):
        if not len(source):
            raise ValueError(f"{TAKES}; got one of 0 rows")
        found = Items(source)
    else:
        leaves = jax.tree.leaves(source, is_leaf=_is_one)
        for leaf in leaves:
            if not _is_one(leaf):
                raise TypeError(f"{TAKES}; got {_check.describe(leaf)}")
        if not leaves:
            raise TypeError(f"{TAKES}; got {_check.describe(source)}")
        found = Together(jax.tree.map(_one, source, is_leaf=_is_one))
    for leaf in jax.tree.leaves(found.row):
        if not (np.issubdtype(leaf.dtype, np.number) or leaf.dtype == bool):
            raise TypeError(f"{TAKES}, and hold numbers; got {leaf.dtype}")
    return found


def _one(part: Any) -> Source:
    """Return an array, a file or a list of files."""
    if isinstance(part, list):
        parts = [_one(path) for path in part]
        return parts[0] if len(parts) == 1 else Joined(parts)
    if isinstance(part, str | os.PathLike):
        return _file(Path(part))
    if not part.ndim or not part.shape[0]:
        raise ValueError(f"{TAKES}; got {_check.describe(part)}, without rows")
    if isinstance(part, jax.Array):
        part = np.asarray(part)
    found = mapped(part) if isinstance(part, np.memmap) else None
    return Array(part) if found is None else found


def _file(path: Path) -> Source:
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
    """Return whether a part of a tree is an array, a path or a list of paths."""
    if isinstance(part, list):
        return len(part) > 0 and all(map(_is_path, part))
    return _is_path(part) or all(
        hasattr(part, name) for name in ("shape", "dtype", "ndim", "__getitem__")
    )


def _has_rows(source: PyTree) -> bool:
    return hasattr(source, "__len__") and hasattr(source, "__getitem__")
