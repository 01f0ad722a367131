"""Argument checks: one clear error that names the argument, what it got and what it takes.

Types, shapes and dtypes are checked always, values only if they are concrete.
"""

import difflib
import functools
import operator
import sys
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ewsg_jax.base import checked_arrays, freshness, limits, numeric
from ewsg_jax.base.forks import check_process
from ewsg_jax.base.typing import Data, Key, PyTree

Array = np.ndarray | jax.Array
MISSING = {
    "data": ": fill missing ones with 0 and give a column that is 1 for known values, which "
    "log_likelihood multiplies with; or, if log_likelihood leaves them out itself, give "
    "check_data=False"
}
"""What to do about values that are not finite, by the argument."""


TRACED_MODEL = (
    "a function that holds a number traced by one of these, such as a prior_scale of a model made "
    "under vmap: make a model for each number, and call once for each"
)
"""What is wrong with functions of which `freshness.holds_traced`."""

_ARRAYS_ONLY = "keep the arrays only, as equinox.partition does"


def describe(value: object) -> str:
    """Return a short description of a value for an error message, on one line."""
    if isinstance(value, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
        text = f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
        is_number = value.shape == () and jnp.issubdtype(value.dtype, np.number)
        known = is_number and not isinstance(value, jax.ShapeDtypeStruct) and not is_traced(value)
        return f"{text} that holds {value}" if known else text
    known = numeric.summary(value)
    if known is not None:
        return known
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def reason(error: Exception) -> str:
    """Return the kind and the first line of an error that a user's function raised."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text if len(text) <= 200 else text[:197] + '...'}"


def shapes(tree: PyTree) -> PyTree:
    """Return the pytree with the shape and dtype that jax gives each leaf instead of its values."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), tree)


def listed(name: str, tree: PyTree) -> str:
    """Return at most three leaves by name, shape and dtype: `data['x']: (3,) float32, …`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    parts = [
        f"{name}{jax.tree_util.keystr(path)}: {tuple(leaf.shape)} {leaf.dtype}"
        for path, leaf in leaves[:3]
    ]
    return ", ".join(parts + ["…"] * (len(leaves) > 3))


def datum(data: Data) -> PyTree:
    """Return the shapes and dtypes that one datum of a pytree of rows has in jax."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], jnp.result_type(x)), data)


def is_traced(value: object) -> bool:
    """Return whether the value is known only while tracing."""
    return isinstance(value, Tracer)


def are_known(tree: PyTree) -> bool:
    """Return whether all leaves have values: none is traced, or a shape alone."""
    return not any(
        isinstance(leaf, jax.ShapeDtypeStruct | Tracer) for leaf in jax.tree.leaves(tree)
    )


def on_host(function: str, arguments: PyTree) -> None:
    """Check that a function which works on the host is given known values."""
    check_process(function)
    takes = f"{function} must be called on the host, not under jit, vmap or grad"
    if any(map(is_traced, jax.tree.leaves(arguments))):
        raise TypeError(f"{takes}; got a traced argument")
    if freshness.holds_traced():
        raise TypeError(f"{takes}; got {TRACED_MODEL}")


def positive(name: str, value: object, schedule: bool = False) -> None:
    """Check a positive real number or scalar array; with `schedule`, or a function of the step."""
    takes = f"{name} must be a positive number or a scalar array"
    if schedule:
        takes = (
            f"{name} must be a positive number, a scalar array or a schedule (a function of "
            "the step)"
        )
        if callable(value):
            _schedule(takes, value)
            return
    known = _real(takes, value)
    if known is not None and not (np.isfinite(known) and known > 0):
        raise ValueError(f"{takes}; got {describe(value)}")
    # Steps of a size that is computed as 0 would leave chains where they are. A scale is checked
    # where its square is taken.
    dtype = jnp.result_type(float)
    if schedule and known is not None and known < float(jnp.finfo(dtype).tiny):
        raise ValueError(
            f"{takes}, which {dtype} holds from {float(jnp.finfo(dtype).tiny):.3g} on; got "
            f"{describe(value)}: give positions and data another unit, or switch on 64 bits, "
            f"{numeric.X64}"
        )


def decay(name: str, value: object) -> None:
    """Check a real number or scalar array in [0, 1)."""
    takes = f"{name} must be a number from 0 up to but not including 1"
    known = _real(takes, value)
    if known is not None and not 0 <= known < 1:
        raise ValueError(f"{takes}; got {describe(value)}")


def fraction(name: str, value: object) -> None:
    """Check a real number or scalar array in (0, 1)."""
    takes = f"{name} must be a number above 0 and below 1"
    known = _real(takes, value)
    if known is not None and not 0 < known < 1:
        raise ValueError(f"{takes}; got {describe(value)}")


def _real(takes: str, value: object) -> float | None:
    """Check a real number or scalar array, and return what it is if that is known."""
    # Other real numbers, such as fractions, are none that jax computes with.
    if isinstance(value, bool) or not isinstance(
        value, int | float | np.floating | np.integer | Array
    ):
        raise TypeError(f"{takes}; got {describe(value)}")
    if isinstance(value, np.ndarray | np.generic | jax.Array) and (
        value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating)
    ):
        raise ValueError(f"{takes}, of floating-point dtype; got {describe(value)}")
    if isinstance(value, int) and value > sys.float_info.max:
        raise ValueError(f"{takes}; got a whole number too large for a float")
    return None if is_traced(value) else float(value)


def _schedule(takes: str, function: Callable[..., Any]) -> None:
    """Check that a schedule maps an int32 step to a scalar."""
    try:
        shape = jax.eval_shape(function, jax.ShapeDtypeStruct((), jnp.int32))
    except Exception as error:
        raise ValueError(
            f"{takes}; the function given failed on an int32 step: {reason(error)}"
        ) from error
    kind = getattr(shape, "dtype", np.dtype(object))
    is_real = jnp.issubdtype(kind, np.floating) or jnp.issubdtype(kind, np.integer)
    if not is_real or shape.shape != ():
        raise ValueError(
            f"{takes}; the schedule returned {describe(shape)} instead of a real scalar"
        )


def integer(name: str, value: object, minimum: int = 1, maximum: int | None = None) -> int:
    """Check and return a whole number in [minimum, maximum]."""
    bounds = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, {bounds}; got {describe(value)}")
    if value < minimum or (maximum is not None and value > maximum):
        raise ValueError(f"{name} must be a whole number, {bounds}; got {value}")
    return int(value)


def place(name: str, value: Any, count: int) -> int:
    """Check and return the index of one of `count` things; a negative one counts from the end.

    Raises:
        TypeError: it is not a whole number.
        IndexError: it is out of range, by which a loop over them ends.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be a whole number from 0 to {count - 1}; got {describe(value)}"
        ) from None
    if not -count <= number < count:
        raise IndexError(f"{name} must be from 0 to {count - 1}; got {number}")
    return number


def boolean(name: str, value: object) -> bool:
    """Check and return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {describe(value)}")
    return bool(value)


def one_of(name: str, value: object, options: Iterable[str]) -> None:
    """Check a choice among names; the message suggests the nearest."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        shown = ", ".join(map(repr, options[: limits.LINES_SHOWN]))
        more = f", … ({len(options)} in all)" if len(options) > limits.LINES_SHOWN else ""
        raise ValueError(
            f"{name} must be one of {shown}{more}; got {describe(value)}{nearest(value, options)}"
        )


def nearest(value: object, options: Iterable[str]) -> str:
    """Return ' (did you mean …?)' or nothing."""
    close = difflib.get_close_matches(str(value), list(options), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def texts(name: str, value: object) -> None:
    """Check a list or tuple of texts. One text is none, though Python iterates over its letters."""
    takes = f"{name} must be a list of texts"
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"{takes}; got {describe(value)}")
    for item in value:
        if not isinstance(item, str):
            raise TypeError(f"{takes}; got {describe(item)} in it")


def function(name: str, value: object, signature: str) -> Callable[..., Any]:
    """Check and return a callable."""
    if not callable(value):
        raise TypeError(f"{name} must be a function {signature}; got {describe(value)}")
    return value


def instance(name: str, value: object, kind: type, made_by: str) -> None:
    """Check that a value is one of the library's own objects."""
    if not isinstance(value, kind):
        hint = ": call it to make one" if isinstance(value, type | types.FunctionType) else ""
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(
            f"{name} must be {article} {kind.__name__} ({made_by}); got {describe(value)}{hint}"
        )


def key(value: object, name: str = "key") -> Key:
    """Check and return one typed PRNG key."""
    takes = f"{name} must be one typed PRNG key, as jax.random.key(0) makes"
    if not (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)):
        raise TypeError(f"{takes}; got {describe(value)}")
    if value.shape != ():
        raise ValueError(f"{takes}; got an array of keys of shape {value.shape}")
    return value


def position(value: PyTree, name: str = "position") -> PyTree:
    """Check a pytree of floating-point arrays and return it with jax arrays as leaves."""
    value = numeric.native(value)
    floating(name, value)
    return jax.tree.map(_as_array, value)


def floating(name: str, value: PyTree) -> None:
    """Check a pytree of floating-point arrays."""
    takes = f"{name} must be a pytree of floating-point arrays"
    leaves = jax.tree_util.tree_leaves_with_path(value)
    if not leaves:
        raise ValueError(f"{takes}; got a pytree without leaves, {describe(value)}")
    for path, leaf in leaves:
        where = f"{name}{jax.tree_util.keystr(path)}"
        # Such as a mode or a state.
        holds_one = (
            f": give its position, not the whole {type(value).__name__}"
            if hasattr(value, "position")
            else ""
        )
        way = numeric.way(leaf)
        if not isinstance(leaf, int | float | complex | np.generic | Array) or isinstance(
            leaf, np.ma.MaskedArray
        ):
            hint = f": {_ARRAYS_ONLY}" if callable(leaf) else f": {way}" if way else ""
            raise TypeError(f"{takes}; {where} is {describe(leaf)}{holds_one or hint}")
        if not jnp.issubdtype(getattr(leaf, "dtype", type(leaf)), jnp.floating):
            if any(base.__module__.startswith("flax.") for base in type(value).__mro__):
                way = "keep the parameters only, nnx.split(network, nnx.Param, ...)[1]"
            hint = holds_one or f": {way or 'convert it with jax.numpy.asarray(…, float)'}"
            raise TypeError(f"{takes}; {where} is {describe(leaf)}{hint}")
        numeric.check(where, name, leaf)


def not_empty(name: str, value: PyTree) -> None:
    """Check that a pytree of arrays has a number in it: without one there is no mode and no sd."""
    if not any(leaf.size for leaf in jax.tree.leaves(value)):
        raise ValueError(f"{name} must have at least one number; got {listed(name, value)}")


def held(name: str, value: PyTree) -> None:
    """Check that a pytree holds arrays and numbers, which fit the dtypes that JAX gives them."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(value, is_leaf=numeric.is_whole):
        where = f"{name}{jax.tree_util.keystr(path)}"
        way = _ARRAYS_ONLY if callable(leaf) else numeric.way(leaf)
        if way is not None:
            raise TypeError(
                f"{name} must be a pytree of arrays or numbers; {where} is {describe(leaf)}: {way}"
            )
        numeric.check(where, name, leaf)


def arrays(name: str, value: PyTree) -> PyTree:
    """Return a pytree with its leaves as arrays of JAX; raises what `held` raises."""
    held(name, value)
    return jax.tree.map(jnp.asarray, numeric.native(value))


def _as_array(leaf: Any) -> Array:
    is_one = isinstance(leaf, jax.Array) and not getattr(leaf, "weak_type", False)
    return leaf if is_one else jnp.asarray(leaf, jnp.result_type(leaf))


def data(value: Data) -> int:
    """Check a pytree of arrays that share their leading axis; return its length, 1 to 2³¹ − 1."""
    takes = "data must be a pytree of arrays that share their leading axis, the rows"
    leaves = jax.tree_util.tree_leaves_with_path(value, is_leaf=numeric.is_whole)
    if not leaves:
        raise ValueError(f"{takes}; got a pytree without leaves, {describe(value)}")
    lengths = {}
    for path, leaf in leaves:
        where = f"data{jax.tree_util.keystr(path)}"
        way = numeric.way(leaf)
        is_masked = isinstance(leaf, np.ma.MaskedArray)
        if not isinstance(leaf, np.ndarray | jax.Array | jax.ShapeDtypeStruct) or is_masked:
            what = "the whole (not each number)" if isinstance(leaf, int | float) else "it"
            instead = getattr(leaf, "instead", way or f"convert {what} with jax.numpy.asarray")
            stacked = "" if way else to_stack("data", value)
            raise TypeError(f"{takes}; {where} is {describe(leaf)}{stacked or f': {instead}'}")
        if way or not (
            jnp.issubdtype(leaf.dtype, np.number) or jnp.issubdtype(leaf.dtype, np.bool_)
        ):
            raise TypeError(
                f"{takes}, and hold numbers; {where} is {describe(leaf)}{f': {way}' if way else ''}"
            )
        if not leaf.dtype.isnative:
            raise TypeError(
                f"{takes}, in the byte order of this machine; {where} is of dtype {leaf.dtype}: "
                f".astype({leaf.dtype.name!r})"
            )
        if leaf.ndim == 0:
            raise ValueError(
                f"{takes}; {where} is a scalar, {describe(leaf)}{to_stack('data', value)}"
            )
        numeric.check(where, "data", leaf, rounding=True)
        lengths[where] = leaf.shape[0]
    if len(set(lengths.values())) > 1:
        shown = [f"{where}: {n}" for where, n in lengths.items()]
        more = ["…"] * (len(shown) > limits.LINES_SHOWN)
        of_leaves = ", ".join(shown[: limits.LINES_SHOWN] + more)
        raise ValueError(f"{takes}; their lengths differ: {of_leaves}{to_stack('data', value)}")
    n = next(iter(lengths.values()))
    if n == 0:
        raise ValueError(f"{takes}; got 0 rows")
    if n > limits.INT32_MAX:
        raise ValueError(
            f"{takes}, at most {limits.INT32_MAX:,} of them, whose numbers have 32 bits; got "
            f"{n:,} rows"
        )
    return n


def to_stack(name: str, value: PyTree) -> str:
    """Return how a list of things of one structure is stacked, in words; nothing if it is none."""
    if type(value) not in (list, tuple) or len(value) < 2:
        return ""
    is_number = isinstance(value[0], int | float | str)
    if is_number or len({jax.tree.structure(one) for one in value}) > 1:
        return ""
    way = ": stack the list first, `jax.tree.map(lambda *x: numpy.stack(x), *rows)`"
    return way.replace("rows", name)


def finite(name: str, value: PyTree) -> None:
    """Check that a pytree of arrays holds no NaN and no infinity; traced leaves are passed over.

    Arrays of JAX, which do not change, are checked once.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        if not is_traced(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact):
            checked_arrays.remembered(
                "finite",
                functools.partial(_finite, name + jax.tree_util.keystr(path), name, leaf),
                leaf,
            )


def _finite(where: str, name: str, leaf: Array) -> None:
    # Arrays in the host's memory are looked at where they are, with nothing to compile.
    here = isinstance(leaf, np.ndarray) or all(
        device.platform == "cpu" for device in leaf.devices()
    )
    with jax.ensure_compile_time_eval():
        count = (
            int(np.sum(~np.isfinite(np.asarray(leaf))))
            if here
            else int(jnp.sum(~jnp.isfinite(leaf)))
        )
    if count:
        advice = MISSING.get(name, "")
        raise ValueError(
            f"{name} must be finite; {where} holds {count} NaN or infinite values{advice}"
        )


def labels(name: str, value: Array, count: int) -> None:
    """Check that an array of known values holds whole numbers from 0 to `count` − 1."""
    numbers = np.asarray(value)
    wrong = ~((numbers >= 0) & (numbers < count) & (numbers == np.floor(numbers)))
    if wrong.any():
        takes = "0 and 1 only" if count == 2 else f"whole numbers from 0 to {count - 1} only"
        first = (
            f"{numbers[wrong][0]} in row {np.argmax(wrong)} ({np.count_nonzero(wrong)} such rows)"
        )
        raise ValueError(f"{name} must hold {takes}; got {first}")


def indices(name: str, value: object, n: int) -> None:
    """Check row numbers: an array (b,) of whole numbers from 0 to n − 1, b ≥ 1."""
    takes = f"{name} must be an array of row numbers, shape (b,), from 0 to {n - 1}"
    if not isinstance(value, Array) or not jnp.issubdtype(value.dtype, np.integer):
        raise TypeError(f"{takes}; got {describe(value)}")
    if value.ndim != 1 or not value.shape[0]:
        raise ValueError(f"{takes}; got {describe(value)}")
    if not is_traced(value):
        low, high = (int(x) for x in (np.asarray(value).min(), np.asarray(value).max()))
        if low < 0 or high >= n:
            raise ValueError(f"{takes}; got {low if low < 0 else high}")


def numbers(name: str, value: object, shape: tuple[int, ...]) -> None:
    """Check an array of real numbers of a shape."""
    takes = f"{name} must be an array of numbers of shape {shape}"
    if not isinstance(value, Array):
        raise TypeError(f"{takes}; got {describe(value)}")
    is_real = jnp.issubdtype(value.dtype, np.floating) or jnp.issubdtype(value.dtype, np.integer)
    if value.shape != shape or not is_real:
        raise ValueError(f"{takes}; got {describe(value)}")


def same_tree(takes: str, name: str, value: PyTree, like: PyTree, dtypes: bool = True) -> None:
    """Check that a pytree has the leaves of another, each of the same shape and dtype.

    Args:
        takes: the first half of the message.
        name: what the pytree is called in the message.
        value: the pytree.
        like: the other one.
        dtypes: whether dtypes are compared.
    """
    leaves, wanted = (
        {
            name + jax.tree_util.keystr(path): leaf
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        }
        for tree in (value, like)
    )
    for where in wanted:
        if where not in leaves:
            raise ValueError(f"{takes}; got one without {where}")
    for where, leaf in leaves.items():
        if where not in wanted:
            raise ValueError(f"{takes}; got one with {where}, which this one does not have")
        shape = jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf))
        if shape.shape != wanted[where].shape or (dtypes and shape.dtype != wanted[where].dtype):
            raise ValueError(f"{takes}, {where} {describe(wanted[where])}; got {describe(shape)}")


def fits(name: str, limit: int, needed: int, what: str) -> None:
    """Check that stored arrays fit in a limit of bytes."""
    if needed > limit:
        raise ValueError(
            f"{name} must be at least {needed:,} ({needed / 2**30:.3g} GiB), the bytes of {what}; "
            f"got {limit:,}"
        )
