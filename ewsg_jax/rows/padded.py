"""A data set made as long as others by rows that do not count, so that one program serves them all."""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax import _check, _tree
from ewsg_jax._types import Array, Data, PyTree
from ewsg_jax.rows.gathering import all_rows, num_rows
from ewsg_jax.rows.shards import Shard
from ewsg_jax.rows.spread import Spread
from ewsg_jax.rows.window import Window


class Padded(NamedTuple):
    """Data of which the first n rows count; the others are copies of such.

    A tree like any other data, gathered and cut row by row; under `vmap` each data set has an n of its own.

    Attributes:
        rows: the data.
        size: n where a row counts, 0 where it does not, int32, shape (rows,).
    """

    rows: Data
    size: Array


def counted(data: Data) -> Array | int:
    """Return among how many rows batches are drawn: those that count, of a part its own, of a window those here."""
    return data.size[0] if isinstance(data, Padded | Shard) else num_rows(data)


def real_counted(data: Data) -> Array | int:
    """Return n, to which a batch's sum is scaled: of a window all rows; in floating point where it is an array."""
    n = counted(data) if isinstance(data, Padded | Shard) else all_rows(data)
    return n if isinstance(n, int) else n.astype(float)


def real_total(data: Data) -> Array | int:
    """Return n of all the data as what one divides by: that of `real_counted`, but of a part of the data."""
    return data.total if isinstance(data, Shard) else real_counted(data)


def fewest(data: Data) -> int:
    """Return the least n of some data sets, as far as it is known: none is larger than the array."""
    if isinstance(data, Shard):
        return data.total // data.parts
    if not isinstance(data, Padded) or isinstance(data.size, jax.ShapeDtypeStruct) or _check.is_traced(data.size):
        return num_rows(data)
    sizes = np.asarray(data.size)
    return int(sizes[sizes > 0].min())


def unpadded(data: Data) -> Data:
    """Return data's rows; their shapes where they lie on several devices."""
    if isinstance(data, Spread):
        return data.shapes()
    return data.rows if isinstance(data, Padded | Shard | Window) else data


def only_counted(of_rows: PyTree, rows: Data) -> PyTree:
    """Return what rows give, leading axis row, with 0 for those that do not count."""
    return _tree.scaled_rows(of_rows, rows.size > 0) if isinstance(rows, Padded | Shard) else of_rows
