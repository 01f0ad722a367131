"""Buffers for rows, and a check of their values."""

from collections.abc import Callable

import jax
import numpy as np

from ewsg_jax._types import Data

ALIGNMENT = 64
"""Bytes at whose multiples an array begins that JAX takes as it is on a CPU, without a copy."""
NUMBERS_AT_ONCE = 2**20


def room(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array to be filled."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    whole = np.empty(size + ALIGNMENT, np.uint8)
    skipped = -whole.ctypes.data % ALIGNMENT
    return whole[skipped : skipped + size].view(dtype).reshape(shape)


def check_finite(data: Data, where: Callable[[int], str]) -> None:
    """Raise ValueError where data hold NaN or infinity, naming the first such row.

    Args:
        data: a tree of NumPy arrays.
        where: returns where a row of such a number is.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        if not np.issubdtype(leaf.dtype, np.inexact):
            continue
        step = max(1, NUMBERS_AT_ONCE // max(1, leaf[0].size))
        for first in range(0, len(leaf), step):
            some = leaf[first : first + step]
            # A sum that is finite is one of finite numbers, and quicker than a look at each.
            with np.errstate(over="ignore", invalid="ignore"):
                if np.isfinite(some.sum()):
                    continue
            wrong = ~np.isfinite(some).reshape(len(some), -1).all(axis=1)
            if wrong.any():
                row = int(np.argmax(wrong))
                told = some[row].reshape(-1)
                value = told[~np.isfinite(told)][0]
                name = jax.tree_util.keystr(path)
                raise ValueError(
                    f"data must be finite; {where(first + row)} holds {value} in data{name}"
                )
