"""A function of the position at new inputs, averaged over draws, some at a time."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, jaxprs, limits, numeric, products, pytrees, tracing
from ewsg_jax.base.freshness import as_of_now
from ewsg_jax.base.typing import Array, Key, PyTree

HOW_TO_DRAW = "give predict(lambda position, inputs, key: …, inputs, key=jax.random.key(0))"
"""How a function of draws is given a key for each of them."""


def predict(
    draws: PyTree,
    function: Callable[..., PyTree],
    inputs: PyTree,
    *,
    key: Key | None = None,
    log: bool = False,
    keep_draws: bool = False,
    chunk_size: int | None = None,
) -> PyTree:
    """Return what `Samples.predict` does, of all draws.

    Arguments, errors and what is returned are those of `Samples.predict`; `draws` is a pytree of
    arrays with leading axes (chain, draw). Draws with a number that is not finite count like the
    others, so they show in the result.
    """
    checks.boolean("log", log)
    if checks.boolean("keep_draws", keep_draws) and log:
        raise ValueError("log must be False with keep_draws=True, which takes no mean; got True")
    reduce = "none" if keep_draws else "log" if log else "mean"
    if key is not None:
        checks.key(key)
        checks.function("function", function, "(position, inputs, key) -> pytree of arrays")
        lengths = _lengths(draws)
        keys = jax.random.key_data(jax.random.split(key, lengths))
        function = _Keyed(products.in_full(function), str(jax.random.key_impl(key)))
        draws = draws, keys
    with as_of_now(function):
        program = prepare(draws, function, inputs, reduce, chunk_size)
        one = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), program.draws)
        tracing.check_same("function", function, one, numeric.native(inputs), key=HOW_TO_DRAW)
        return run(program, inputs)


@dataclasses.dataclass(frozen=True)
class _Keyed:
    """A function of a position, inputs and a key, as one of a position with a key's numbers."""

    function: Callable[..., PyTree]
    implementation: str

    def __call__(self, drawn: tuple[PyTree, Array], inputs: PyTree) -> PyTree:
        position, numbers = drawn
        key = jax.random.wrap_key_data(numbers, impl=self.implementation)
        return self.function(position, inputs, key)


class Prediction(NamedTuple):
    """A checked evaluation of draws, for any inputs of the same shapes.

    Attributes:
        draws: the draws, NumPy arrays with leading axes (chain, draw).
        lengths: the numbers of chains and of draws of each.
        function: `function(position, inputs) -> outputs`, hashable.
        output: the shapes and dtypes of the outputs at one draw.
        reduce: "none", "mean" or "log", the log of the mean of the exponentials.
        size: draws evaluated at once.
    """

    draws: PyTree
    lengths: tuple[int, int]
    function: Callable[..., PyTree]
    output: PyTree
    reduce: str
    size: int


def prepare(
    draws: PyTree,
    function: Callable[..., PyTree],
    inputs: PyTree,
    reduce: str,
    chunk_size: int | None,
) -> Prediction:
    """Check the arguments of `predict` and choose the size of a chunk.

    Args:
        draws: a pytree of arrays with leading axes (chain, draw).
        function: `function(position, inputs) -> pytree of arrays`, for one draw.
        inputs: its second argument, whose shapes and dtypes later inputs must have.
        reduce: "none", "mean" or "log".
        chunk_size: draws evaluated at once. Default: as many as hold 64 MiB.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or the function fails.
    """
    lengths = _lengths(draws)
    checks.held("draws", draws)
    # On the host: only a chunk of draws is on the device at a time.
    draws = jax.tree.map(np.asarray, draws)
    checks.function("function", function, "(position, inputs) -> pytree of arrays")
    inputs = numeric.native(inputs)
    checks.held("inputs", inputs)
    _numeric("inputs", inputs)
    function = products.in_full(function)
    output, draw_bytes = _examine(
        draws, function, jax.tree.map(jnp.asarray, inputs), averaged=reduce != "none"
    )
    size = (
        max(1, limits.BYTES_AT_ONCE // max(draw_bytes, 1))
        if chunk_size is None
        else checks.integer("chunk_size", chunk_size)
    )
    total = math.prod(lengths)
    # Chunks of about one length, so that little of the last one is filled up.
    return Prediction(
        draws, lengths, function, output, reduce, math.ceil(total / math.ceil(total / size))
    )


def run(program: Prediction, inputs: PyTree) -> PyTree:
    """Return the outputs at all draws or their mean, as NumPy arrays.

    Args:
        program: what `prepare` returned.
        inputs: inputs of the shapes and dtypes that it was prepared for.

    Returns:
        A pytree like the function's outputs: with the leading axes (chain, draw) for "none", else
        the mean, or the log of the mean of exponentials, in the outputs' dtypes.
    """
    draws, lengths, function, output, reduce, size = program
    inputs = jax.tree.map(jnp.asarray, numeric.native(inputs))
    num_draws = math.prod(lengths)
    if reduce == "none":
        total = jax.tree.map(lambda x: np.empty((num_draws, *x.shape), x.dtype), output)
    else:
        empty_sum = -np.inf if reduce == "log" else 0.0
        total = jax.tree.map(lambda x: np.full(x.shape, empty_sum), output)
    add = np.logaddexp if reduce == "log" else np.add
    for first in range(0, num_draws, size):
        # The last chunk is filled up with the last draw: one program serves all chunks.
        numbers = np.minimum(np.arange(first, first + size), num_draws - 1)
        chain, draw = np.unravel_index(numbers, lengths)
        positions = jax.tree.map(lambda x, c=chain, d=draw: x[c, d], draws)
        count = min(size, num_draws - first)
        result = outputs_at(function, reduce, positions, inputs, jnp.int32(count))
        if reduce == "none":
            write = functools.partial(_write, first=first, count=count)
            jax.tree.map(write, total, result)
            continue
        # In float64 on the host, so that a mean over many draws is not lost in rounding.
        with np.errstate(invalid="ignore"):  # NaN and infinity pass through
            total = jax.tree.map(lambda t, x: add(t, np.asarray(x, np.float64)), total, result)
    if reduce == "none":
        return jax.tree.map(lambda x: x.reshape(*lengths, *x.shape[1:]), total)

    def mean(x: np.ndarray, shape: jax.ShapeDtypeStruct) -> np.ndarray:
        return np.asarray(
            x - math.log(num_draws) if reduce == "log" else x / num_draws, shape.dtype
        )

    return jax.tree.map(mean, total, output)


def _write(array: np.ndarray, values: Array, first: int, count: int) -> None:
    """Write the first `count` values to the places from `first` on."""
    array[first : first + count] = np.asarray(values)[:count]


def _lengths(draws: PyTree) -> tuple[int, int]:
    """Check a pytree of draws and return its numbers of chains and of draws per chain."""
    takes = "draws must be a pytree of arrays with leading axes (chain, draw)"
    leaves = jax.tree.leaves(_numeric("draws", draws))
    if not leaves:
        raise ValueError(f"{takes}; got a pytree without leaves, {checks.describe(draws)}")
    shapes = {np.shape(x)[:2] for x in leaves}
    if len(shapes) > 1 or len(shape := next(iter(shapes))) < 2:
        raise ValueError(
            f"{takes}, the same for all; got leaves of shapes {[np.shape(x) for x in leaves]}"
        )
    if not shape[0] * shape[1]:
        raise ValueError(
            f"{takes}, at least one draw; got leaves of shapes {[np.shape(x) for x in leaves]}"
        )
    return shape


def _numeric(name: str, tree: PyTree) -> PyTree:
    """Check that a pytree holds arrays and numbers only."""
    # Strings and objects have no dtype that JAX knows, and fail there without a name.
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if not isinstance(leaf, jax.Array) and np.asarray(leaf).dtype.kind in "OSUM":
            where = f"{name}{jax.tree_util.keystr(path)}"
            raise TypeError(
                f"{name} must be a pytree of arrays or numbers; {where} is {checks.describe(leaf)}"
            )
    return tree


def _examine(
    draws: PyTree, function: Callable[..., PyTree], inputs: PyTree, averaged: bool
) -> tuple[PyTree, int]:
    """Return the output's shapes and the bytes one draw needs, largest intermediate included."""
    position = jax.tree.map(lambda x: jax.eval_shape(jnp.asarray, x[0, 0]), draws)
    takes = "function must be (position, inputs) -> pytree of floating-point arrays"
    try:
        program, output = jax.make_jaxpr(function, return_shape=True)(position, inputs)
    except Exception as error:
        raise ValueError(
            f"{takes}; it failed on one draw and these inputs: {checks.reason(error)}"
        ) from error
    if not jax.tree.leaves(output):
        raise ValueError(f"{takes}; it returned {checks.describe(output)}")
    for path, leaf in jax.tree_util.tree_leaves_with_path(output):
        if averaged and not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(
                f"{takes}; function(…){jax.tree_util.keystr(path)} is {checks.describe(leaf)}: "
                "convert it with .astype(float), or take keep_draws=True"
            )
    sizes = [x.size * x.dtype.itemsize for x in jax.tree.leaves((position, output))]
    return output, sum(sizes) + _largest_intermediate(program)


def _largest_intermediate(program: Any) -> int:
    """Return the bytes of the largest array that a program, inner ones included, makes."""
    arrays = [v.aval for line in jaxprs.equations(program) for v in line.outvars]
    return max((pytrees.num_bytes(x) for x in arrays if hasattr(x, "shape")), default=0)


@functools.partial(jax.jit, static_argnames=("function", "reduce"))
def outputs_at(
    function: Callable[..., PyTree], reduce: str, positions: PyTree, inputs: PyTree, count: Array
) -> PyTree:
    """The outputs at one chunk's draws; or, over the first `count`, their sum or log-sum-exp."""
    outputs = jax.vmap(function, (0, None))(positions, inputs)
    if reduce == "none":
        return outputs

    def leaf(x: Array) -> Array:
        x = x.astype(pytrees.wide(x.dtype))
        counted = (jnp.arange(x.shape[0]) < count).reshape(-1, *[1] * (x.ndim - 1))
        if reduce == "log":
            return jax.nn.logsumexp(jnp.where(counted, x, -jnp.inf), axis=0)
        return jnp.sum(jnp.where(counted, x, 0), axis=0)

    return jax.tree.map(leaf, outputs)
