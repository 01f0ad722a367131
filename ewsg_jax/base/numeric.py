"""What JAX makes of a user's arrays: numbers that its dtypes do not hold are refused before they
become others.

By default JAX has 32 bits. It takes an int64 of NumPy for an int32 and keeps the last 32 bits of
each number; a float64 of 1e44 becomes infinite, one of 1e-60 becomes 0. Nothing is checked if the
dtype stays as it is: arrays of JAX, float32, int32, or everything once 64 bits are switched on.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ewsg_jax.base import limits
from ewsg_jax.base.typing import PyTree
from ewsg_jax.base.warn import warn

MOST_ROUNDING = 5e-4
"""Rounding of a column, as a share of its range, beyond which a warning says so. Set by hand."""
X64 = "jax.config.update('jax_enable_x64', True) before arrays are made"
TEXT = "give each string a number, as numpy.unique(…, return_inverse=True)[1] does"
TIME = (
    "subtract a first time and divide by a unit, as (t - t.min()) / numpy.timedelta64(1, 's') does"
)
SPARSE = (
    "make it dense, or give the columns and the values of each row's entries as two arrays of one "
    "width, filled up with values 0"
)
LIBRARIES = {
    "pandas": "take the NumPy array out of it with .to_numpy(), of categories their codes, of "
    "numbers of "
    "which some are missing .to_numpy(float, na_value=0) and a column that says where they are",
    "polars": "take the NumPy array out of it with .to_numpy()",
    "pyarrow": "take the NumPy array out of it with .to_numpy()",
    "xarray": "take the NumPy array out of it with .values",
    "torch": "take the NumPy array out of it with .detach().cpu().numpy()",
    "tensorflow": "take the NumPy array out of it with .numpy()",
    "scipy": SPARSE,
}
"""What to do with what other libraries hold numbers in."""
TABLE_ADVICE = (
    'take NumPy arrays out of it, such as data = {"x": table[[…]].to_numpy(), "y": '
    "table[…].to_numpy()} with the "
    "names of columns; of categories take their codes (.cat.codes, −1 for a missing one), of "
    "columns with missing values .to_numpy(float, na_value=0) and a column that says where they are"
)
TABLES = {
    "polars": TABLE_ADVICE.split(";")[0],
    "pyarrow": "take NumPy arrays out of it, such as {name: table[name].to_numpy() for name in "
    "table.column_names}",
    "xarray": "take NumPy arrays out of it, such as {name: table[name].values for name in table}",
}
"""What to do with tables of other libraries; `TABLE_ADVICE` for all others."""


def native(tree: PyTree) -> PyTree:
    """Return a pytree with arrays that JAX takes as they are.

    Those of NumPy have the byte order of this machine: files of FITS, netCDF 3 and IDL have the
    other one. Those of JAX that were made with 64 bits, which are off now, become arrays of NumPy,
    whose numbers are checked before they have 32.
    """

    def of_leaf(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray | np.generic) and not leaf.dtype.isnative:
            return leaf.astype(leaf.dtype.newbyteorder("="))
        if not isinstance(leaf, jax.Array) or isinstance(leaf, Tracer):
            return leaf
        # Keys have no dtype of NumPy.
        is_plain = isinstance(leaf.dtype, np.dtype)
        is_wide = is_plain and jax.dtypes.canonicalize_dtype(leaf.dtype) != leaf.dtype
        return np.asarray(leaf) if is_wide else leaf

    return jax.tree.map(of_leaf, tree, is_leaf=is_whole)


def is_whole(value: object) -> bool:
    """Return whether a value is one thing though JAX takes it apart, such as a sparse array."""
    return type(value).__module__.startswith("jax.experimental.sparse")


def way(value: Any) -> str | None:
    """Return how to make an array of numbers of a value, None if nothing better is known."""
    if isinstance(value, np.ma.MaskedArray):
        return (
            "fill it with .filled(0) and give a column that is 0 for missing values, to multiply "
            "with"
        )
    if isinstance(value, str | bytes):
        return TEXT
    if isinstance(value, Iterator):
        return "stack what it yields, numpy.stack(list(rows)); or give ewsg_jax.stream(…)"
    if is_whole(value):
        return SPARSE
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    library = type(value).__module__.split(".")[0]
    if columns_of(value) is not None:
        return TABLES.get(library, TABLE_ADVICE)
    if library in LIBRARIES:
        is_text = library == "pandas" and str(getattr(value, "dtype", "")) in (
            "object",
            "str",
            "string",
        )
        return TEXT if is_text else LIBRARIES[library]
    if kind in ("U", "S", "T"):
        return TEXT
    if kind in ("M", "m"):
        return TIME
    if kind == "O":
        return f"make its numbers one array with numpy.asarray(…, float); of strings, {TEXT}"
    if kind == "V" and getattr(value.dtype, "names", None):
        return "take it apart into one array a field, {name: x[name] for name in x.dtype.names}"
    return None


def columns_of(value: Any) -> list[tuple[str, str]] | None:
    """Return the names and dtypes of the columns of a table of another library, None for anything
    else.

    Tables of pandas and what looks like them (polars, modin, cuDF, Dask), of pyarrow and of xarray.
    """
    if isinstance(value, type):
        return None
    try:
        if hasattr(value, "column_names") and hasattr(value, "schema"):
            return [
                (str(name), str(kind))
                for name, kind in zip(value.column_names, value.schema.types, strict=True)
            ]
        if hasattr(value, "data_vars"):
            return [(str(name), str(column.dtype)) for name, column in value.data_vars.items()]
        if hasattr(value, "columns") and hasattr(value, "dtypes"):
            return [
                (str(name), str(kind))
                for name, kind in zip(value.columns, value.dtypes, strict=True)
            ]
    except Exception:
        # A table that does not say what it holds is described as anything else.
        return None
    return None


def summary(value: Any) -> str | None:
    """Return what a table, column or array of another library is, without content; else None."""
    kind = type(value).__name__
    kind = f"an {kind}" if kind[0] in "AEIOU" else f"a {kind}"
    columns = columns_of(value)
    if columns is not None:
        shown = ", ".join(f"{name} ({dtype})" for name, dtype in columns[: limits.NAMES_SHOWN])
        more = f", … ({len(columns)} in all)" if len(columns) > limits.NAMES_SHOWN else ""
        return f"{kind} with columns {shown}{more}" if columns else f"{kind} without columns"
    if type(value).__module__.split(".")[0] not in LIBRARIES:
        return None
    shape = getattr(value, "shape", None) or ((len(value),) if hasattr(value, "__len__") else None)
    dtype = getattr(value, "dtype", getattr(value, "type", None))
    if not isinstance(shape, tuple) or dtype is None:
        return None
    named = "" if getattr(value, "name", None) is None else f" {value.name!r}"
    return f"{kind}{named} of shape {tuple(shape)} and dtype {dtype}"


def check(where: str, name: str, value: object, rounding: bool = False) -> None:
    """Raise ValueError if an array or a number does not fit the dtype that JAX gives it.

    Args:
        where: what the leaf is called in messages.
        name: the argument that it is a part of.
        value: the leaf; an array of JAX is not checked.
        rounding: whether a warning says which columns keep few of their digits.
    """
    if isinstance(value, bool | jax.Array | jax.ShapeDtypeStruct):
        return
    array = native(np.asarray(value))
    if array.dtype == object and isinstance(value, int):
        raise ValueError(
            _beyond(where, name, "a whole number", value, value, np.dtype(jnp.result_type(int)))
        )
    if array.dtype == np.longdouble and array.dtype != np.float64:
        got = f"{where} of dtype {array.dtype}: .astype(float)"
        raise ValueError(f"{name} must be of a dtype that JAX has; got {got}")
    if array.dtype.kind not in "iufc" or not array.size:
        return
    narrow = np.dtype(jnp.result_type(array))
    if narrow.itemsize >= array.dtype.itemsize:
        return
    if array.dtype.kind in "iu":
        low, high, info = array.min(), array.max(), np.iinfo(narrow)
        if int(low) < info.min or int(high) > info.max:
            raise ValueError(_beyond(where, name, str(array.dtype), low, high, narrow))
        return
    parts = (np.real(array), np.imag(array)) if array.dtype.kind == "c" else (array,)
    real = np.dtype(np.finfo(narrow).dtype)
    for part in parts:
        _check_reals(where, name, part, real, rounding and len(parts) == 1)


def _check_reals(
    where: str, name: str, array: np.ndarray, narrow: np.dtype, rounding: bool
) -> None:
    """Check floating-point numbers, column by column."""
    low, high = _ranges(array)
    size, info = np.maximum(np.abs(low), np.abs(high)), np.finfo(narrow)
    with np.errstate(over="ignore", under="ignore"):
        overflows = np.isinf(size.astype(narrow))
    if overflows.any():
        least, most = low[overflows].min(), high[overflows].max()
        raise ValueError(_beyond(where, name, str(array.dtype), least, most, narrow))
    # If other numbers of its column are larger, such a number is as good as 0.
    vanishes = (size > 0) & (size < float(info.tiny))
    if vanishes.any():
        least, most = low[vanishes].min(), high[vanishes].max()
        raise ValueError(_beyond(where, name, str(array.dtype), least, most, narrow))
    if not rounding:
        return
    span = high - low
    is_coarse = size * float(info.eps) / 2 > MOST_ROUNDING * span
    suspects = (span > limits.FLOAT64_ROUNDING * size) & is_coarse
    for column in np.flatnonzero(suspects):
        flat = array.reshape(len(array), -1)[:, column].astype(np.float64)
        off = float(np.nanmax(np.abs(flat - flat.astype(narrow).astype(np.float64))))
        length = float(high[column] - low[column])
        if off > MOST_ROUNDING * length:
            which = "" if suspects.size == 1 else f", column {column},"
            warn(
                f"{where}{which} runs from {low[column]:.17g} to {high[column]:.17g}, which "
                f"{narrow.name} rounds by up to {off:.3g}, {off / length:.1%} of that range: "
                f"subtract an offset before, or switch on 64 bits, {X64}"
            )
            return


def _ranges(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and largest finite number of each column, float64; 0 without any."""
    rows = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    low, high = np.full(rows.shape[1], math.inf), np.full(rows.shape[1], -math.inf)
    for chunk in _pieces(rows):
        least, most = chunk.min(axis=0), chunk.max(axis=0)
        if not (np.isfinite(least).all() and np.isfinite(most).all()):
            finite = np.isfinite(chunk)
            least = np.where(finite, chunk, math.inf).min(axis=0)
            most = np.where(finite, chunk, -math.inf).max(axis=0)
        low, high = np.minimum(low, least), np.maximum(high, most)
    known = low <= high
    return np.where(known, low, 0.0), np.where(known, high, 0.0)


def _pieces(rows: np.ndarray) -> Iterator[np.ndarray]:
    length = max(1, limits.NUMBERS_AT_ONCE // max(1, rows.shape[1]))
    for first in range(0, len(rows), length):
        yield rows[first : first + length]


def _beyond(where: str, name: str, kind: str, low: Any, high: Any, narrow: np.dtype) -> str:
    if np.issubdtype(narrow, np.integer):
        info, reached = np.iinfo(narrow), f"{int(low):,} to {int(high):,}"
        holds = f"{info.min:,} to {info.max:,}"
        advice = (
            "of times subtract the first and divide by a unit, of ids take numpy.unique(…, "
            "return_inverse=True)[1]"
        )
    else:
        info, reached = np.finfo(narrow), f"{float(low):.6g} to {float(high):.6g}"
        holds = f"sizes from {float(info.tiny):.3g} to {float(info.max):.3g}, and 0"
        advice = "divide by a scale or take logarithms"
    return (
        f"{name} must hold numbers that {narrow.name} holds, {holds}, which is what JAX makes of "
        f"{kind}; got {where} from {reached}: {advice} before, or switch on 64 bits, {X64}"
    )
