"""Argument checks: one clear error that names the argument, what it got and what it takes.

Types, shapes and dtypes are checked always, values only where they are concrete.
"""

import difflib
import numbers
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ewsg_jax._types import Data, Key, PyTree


def describe(value: Any) -> str:
    """Return a short description of a value for an error message."""
    if isinstance(value, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def is_traced(value: Any) -> bool:
    """Return whether the value is known only while tracing."""
    return isinstance(value, Tracer)


def positive(name: str, value: Any, schedule: bool = False) -> None:
    """Check a positive real number or scalar array and, where `schedule`, a function of the step."""
    takes = f"{name} must be a positive number or a scalar array"
    if schedule:
        takes = f"{name} must be a positive number, a scalar array or a schedule (a function of the step)"
        if callable(value):
            _schedule(takes, value)
            return
    if isinstance(value, bool) or not isinstance(value, numbers.Real | np.ndarray | jax.Array):
        raise TypeError(f"{takes}; got {describe(value)}")
    if isinstance(value, np.ndarray | np.generic | jax.Array) and (
        value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating)
    ):
        raise ValueError(f"{takes} of floating-point dtype; got {describe(value)}")
    if not is_traced(value) and not (np.isfinite(float(value)) and float(value) > 0):
        raise ValueError(f"{takes}; got {describe(value)}")


def _schedule(takes: str, function: Callable[..., Any]) -> None:
    """Check that a schedule maps an int32 step to a scalar."""
    try:
        shape = jax.eval_shape(function, jax.ShapeDtypeStruct((), jnp.int32))
    except Exception as error:
        raise ValueError(f"{takes}; the function given failed on an int32 step: {error}") from error
    if not (hasattr(shape, "shape") and shape.shape == ()):
        raise ValueError(f"{takes}; the schedule returned {describe(shape)} instead of a scalar")


def integer(name: str, value: Any, minimum: int = 1, maximum: int | None = None) -> int:
    """Check and return a whole number in [minimum, maximum]."""
    bounds = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, {bounds}; got {describe(value)}")
    if value < minimum or (maximum is not None and value > maximum):
        raise ValueError(f"{name} must be a whole number, {bounds}; got {value}")
    return int(value)


def boolean(name: str, value: Any) -> bool:
    """Check and return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {describe(value)}")
    return bool(value)


def one_of(name: str, value: Any, options: Iterable[str]) -> None:
    """Check a choice among names; the message suggests the nearest."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, options))}; got {describe(value)}{nearest(value, options)}"
        )


def nearest(value: Any, options: Iterable[str]) -> str:
    """Return ' (did you mean …?)' or nothing."""
    close = difflib.get_close_matches(str(value), list(options), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def function(name: str, value: Any, signature: str) -> Callable[..., Any]:
    """Check and return a callable."""
    if not callable(value):
        raise TypeError(f"{name} must be a function {signature}; got {describe(value)}")
    return value


def instance(name: str, value: Any, kind: type, made_by: str) -> None:
    """Check that a value is one of the library's own objects."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__} ({made_by}); got {describe(value)}")


def key(value: Any) -> Key:
    """Check and return one typed PRNG key."""
    takes = "key must be one typed PRNG key, as jax.random.key(0) makes"
    if not (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)):
        raise TypeError(f"{takes}; got {describe(value)}")
    if value.shape != ():
        raise ValueError(f"{takes}; got {value.shape} keys")
    return value


def position(value: PyTree, name: str = "position") -> PyTree:
    """Check a tree of floating-point arrays and return it with jax arrays as leaves."""
    takes = f"{name} must be a tree of floating-point arrays"
    leaves = jax.tree_util.tree_leaves_with_path(value)
    if not leaves:
        raise ValueError(f"{takes}; got a tree without leaves, {describe(value)}")
    for path, leaf in leaves:
        where = f"{name}{jax.tree_util.keystr(path)}"
        if not isinstance(leaf, numbers.Number | np.ndarray | np.generic | jax.Array):
            raise TypeError(f"{takes}; {where} is {describe(leaf)}")
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise TypeError(f"{takes}; {where} is {describe(leaf)}: convert it with .astype(float)")
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), value)


def data(value: Data) -> int:
    """Check a tree of arrays that share their leading axis and return its length n ≥ 1."""
    takes = "data must be a tree of arrays that share their leading axis, the rows"
    leaves = jax.tree_util.tree_leaves_with_path(value)
    if not leaves:
        raise ValueError(f"{takes}; got a tree without leaves, {describe(value)}")
    lengths = {}
    for path, leaf in leaves:
        where = f"data{jax.tree_util.keystr(path)}"
        if not isinstance(leaf, np.ndarray | jax.Array | jax.ShapeDtypeStruct):
            raise TypeError(f"{takes}; {where} is {describe(leaf)}: convert it with jax.numpy.asarray")
        if leaf.ndim == 0:
            raise ValueError(f"{takes}; {where} is a scalar")
        lengths[where] = leaf.shape[0]
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{where}: {n}" for where, n in lengths.items())
        raise ValueError(f"{takes}; their lengths differ: {listed}")
    n = next(iter(lengths.values()))
    if n == 0:
        raise ValueError(f"{takes}; got 0 rows")
    return n


def finite(name: str, value: PyTree) -> None:
    """Check that a concrete tree holds no NaN and no infinity."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not bool(jnp.all(jnp.isfinite(leaf))):
            count = int(jnp.sum(~jnp.isfinite(leaf)))
            raise ValueError(
                f"{name} must be finite; {name}{jax.tree_util.keystr(path)} holds {count} NaN or infinite values"
            )
