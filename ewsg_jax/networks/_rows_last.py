"""A network of dense layers or convolutions over many rows, with the axis of rows last.

`jax.vmap` keeps the rows of `x @ kernel + bias` first and the units of a layer last. XLA's loops
for processors are vectorised over the last axis alone: a bias and a ReLU for 1,200 rows and 16
units take 44 μs with rows first and 6 μs with rows last, and a gradient of several networks side by
side 0.6 to 0.9 of the time (of one network up to 1.25 times, for its products). A convolution is a
product of matrices with rows last: a gradient takes 0.15 to 0.5 of the time
(`benchmarks/cost/rows_last.py`). Programs of other operations are carried out by `jax.vmap`.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, jaxprs, limits
from ewsg_jax.base.typing import Array, Data, PyTree
from ewsg_jax.rows._view import num_rows

ENTERED_CALLS = frozenset({"jit", "closed_call"})
"""Calls that are entered; those with a derivative of their own are carried out whole."""
OF_NUMBERS = (
    "abs add add_any and convert_element_type copy cos cosh div eq erf erfc exp exp2 expm1 floor "
    "ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg not or pow rem "
    "round rsqrt select_n sign sin sinh sqrt square stop_gradient sub tan tanh"
)
"""Primitives of numbers, one from one of each argument."""
OF_SHAPES = (
    "argmax broadcast_in_dim concatenate custom_jvp_call dynamic_slice expand_dims gather iota pad "
    "reduce_and reduce_max reduce_min reduce_or reduce_sum reduce_window_max reduce_window_sum "
    "reshape rev slice split squeeze transpose"
)
"""Other primitives of layers and likelihoods, which `jax.vmap` knows with rows last."""
CONVOLUTION = "conv_general_dilated"


class Value(NamedTuple):
    """A number or an array in a program.

    Attributes:
        array: its values.
        has_rows: whether its last axis is that of rows.
    """

    array: Array
    has_rows: bool


def over_rows(
    function: Callable[[PyTree, Data], Array], shared: PyTree, rows: Data, *, several: bool
) -> Array:
    """Return the values of `jax.vmap(function, (None, 0))`.

    Args:
        function: `function(shared, row)` returns an array.
        shared: what all rows share, such as parameters.
        rows: a pytree of arrays with the leading axis b.
        several: whether it is called for several networks side by side, under `jax.vmap`.

    Returns:
        The arrays, leading axis b.
    """
    if jax.default_backend() != "cpu":
        return jax.vmap(function, (None, 0))(shared, rows)
    of_row, count = jax.make_jaxpr(function)(shared, checks.datum(rows)), num_rows(rows)
    of_shared, leaves = jax.tree.leaves(shared), jax.tree.leaves(rows)
    has_rows = [False] * len(of_shared) + [True] * len(leaves)
    if not _gains(of_row, has_rows, count, several):
        return jax.vmap(function, (None, 0))(shared, rows)
    arrays = [*of_shared, *(jnp.moveaxis(jnp.asarray(x), 0, -1) for x in leaves)]
    (value,) = _interpreted(of_row, list(map(Value, arrays, has_rows)), count)
    return jnp.moveaxis(_with_rows(value, count), -1, 0)


def has_convolutions(function: Callable[[PyTree, Data], Array], shared: PyTree, rows: Data) -> bool:
    """Return whether a function of what rows share and of one row has a convolution."""
    program = jax.make_jaxpr(function)(checks.shapes(shared), checks.datum(rows))
    return any(one.primitive.name == CONVOLUTION for one in jaxprs.equations(program))


def _gains(program: jaxprs.Program, has_rows: list[bool], count: int, several: bool) -> bool:
    """Return whether a program gains by rows that are last: it has convolutions, or it is one of
    several with dense layers of fewer units than rows; and no operation but those above.
    """
    known, fits, units = {*OF_NUMBERS.split(), *OF_SHAPES.split(), *ENTERED_CALLS}, True, [0]
    convolutions = 0

    def rule(equation: jaxprs.Equation, has_rows: list[bool]) -> list[bool]:
        nonlocal fits, convolutions
        name, shapes = equation.primitive.name, [atom.aval.shape for atom in equation.invars]
        if not any(has_rows):
            return [False] * len(equation.outvars)
        if name == CONVOLUTION:
            convolutions += 1
            fits &= has_rows == [True, False] and _has_patches(equation, count)
        elif name == "dot_general":
            fits &= not all(has_rows)
            units.append(max(shapes[has_rows.index(False)], default=0) if fits else 0)
        else:
            inner = (one.primitive.name for one in jaxprs.equations_within(equation))
            fits &= {name, *inner} <= known
            # The tangent of a whole number is no array.
            is_real = all(jnp.issubdtype(atom.aval.dtype, jnp.inexact) for atom in equation.invars)
            fits &= name != "custom_jvp_call" or is_real
        return [True] * len(equation.outvars)

    jaxprs.interpret(program, has_rows, rule, lambda constant: False, ENTERED_CALLS)
    is_dense = several and 0 < max(units) <= count
    return fits and count > 1 and (is_dense or convolutions > 0)


def _interpreted(program: jaxprs.Program, arguments: list[Value], count: int) -> list[Value]:
    """Return the results of a program of one row for all rows."""

    def rule(equation: jaxprs.Equation, values: list[Value]) -> list[Value]:
        return _carried_out(equation, values, count)

    return jaxprs.interpret(program, arguments, rule, lambda x: Value(x, False), ENTERED_CALLS)


def _with_rows(value: Value, count: int) -> Array:
    """Return an array with an axis of rows."""
    if value.has_rows:
        return value.array
    return jnp.broadcast_to(jnp.expand_dims(value.array, -1), (*jnp.shape(value.array), count))


def _carried_out(equation: jaxprs.Equation, values: list[Value], count: int) -> list[Value]:
    """Return the results of an operation for all rows."""

    def alone(*arrays: Array) -> list[Array]:
        return jaxprs.carried_out(equation, list(arrays))

    arrays = [x.array for x in values]
    if not any(x.has_rows for x in values):
        return [Value(x, False) for x in alone(*arrays)]
    name = equation.primitive.name
    if name == "custom_jvp_call":
        return _with_own_derivative(equation, alone, values, count)
    if name == "dot_general":
        return [Value(_product(equation.params, *values), True)]
    if name == CONVOLUTION:
        return [Value(_convolved(equation.params, *arrays), True)]
    if name in OF_NUMBERS.split():
        # A bias meets all rows; `jax.vmap` would move the rows before its units.
        is_scalar = [not x.has_rows and jnp.ndim(x.array) == 0 for x in values]
        values = [
            x if scalar else Value(_with_rows(x, count), True)
            for x, scalar in zip(values, is_scalar, strict=True)
        ]
    axes = [-1 if x.has_rows else None for x in values]
    return [Value(x, True) for x in jax.vmap(alone, axes, -1)(*(x.array for x in values))]


def _with_own_derivative(
    equation: jaxprs.Equation,
    alone: Callable[..., list[Array]],
    values: list[Value],
    count: int,
) -> list[Value]:
    """Return the results of a function with a derivative of its own, such as `jax.nn.relu`."""
    shapes = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in equation.invars]
    derivative = jax.make_jaxpr(lambda x, tangents: jax.jvp(alone, x, tangents))(shapes, shapes)
    has_rows = [x.has_rows for x in values]

    def of(program: jaxprs.Program, arrays: list[Array]) -> list[Array]:
        flags = has_rows * (len(arrays) // len(has_rows))
        arguments = [Value(*one) for one in zip(arrays, flags, strict=True)]
        return [_with_rows(x, count) for x in _interpreted(program, arguments, count)]

    @jax.custom_jvp
    def function(*arrays: Array) -> list[Array]:
        return of(equation.params["call_jaxpr"], list(arrays))

    @function.defjvp
    def _(arrays: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Any, Any]:
        results = of(derivative, [*arrays, *tangents])
        return results[: len(results) // 2], results[len(results) // 2 :]

    return [Value(x, True) for x in function(*(x.array for x in values))]


def _product(options: dict, first: Value, second: Value) -> Array:
    """Return the product of two arrays of which one has rows, with rows last."""
    contracted, batched = options["dimension_numbers"]
    rest = {x: options[x] for x in ("precision", "preferred_element_type")}
    if second.has_rows:
        return jax.lax.dot_general(first.array, second.array, (contracted, batched), **rest)
    # Free axes of the second factor come last: the one with rows must be the second.
    numbers = contracted[::-1], batched[::-1]
    product = jax.lax.dot_general(second.array, first.array, numbers, **rest)
    shared = len(batched[0])
    free = second.array.ndim - len(contracted[1]) - shared
    axes = [*range(shared), *range(shared + free, product.ndim - 1), *range(shared, shared + free)]
    return jnp.transpose(product, (*axes, product.ndim - 1))


def _has_patches(equation: jaxprs.Equation, count: int) -> bool:
    """Return whether a convolution is one of all channels, and its patches of all rows are not too
    large: memory holds the image as often as the kernel has places.
    """
    options, (image, kernel) = equation.params, [atom.aval for atom in equation.invars]
    _, *places = [kernel.shape[axis] for axis in options["dimension_numbers"].rhs_spec[1:]]
    size = math.prod(places) * math.prod(image.shape) * count * image.dtype.itemsize
    is_plain = set(options["lhs_dilation"]) <= {1} and options["batch_group_count"] == 1
    return is_plain and options["feature_group_count"] == 1 and size <= limits.BYTES_AT_ONCE


def _convolved(options: dict[str, Any], image: Array, kernel: Array) -> Array:
    """Return the convolution of an image with rows by a kernel without, with rows last.

    The product of the kernel, a matrix, and the patches of the image under each of its places.
    """
    numbers, strides = options["dimension_numbers"], options["window_strides"]
    # (batch, channel, *space, row) and (out, channel, *space).
    image = jnp.transpose(image, (*numbers.lhs_spec, image.ndim - 1))
    kernel = jnp.transpose(kernel, numbers.rhs_spec)
    padding = [(0, 0, 0), (0, 0, 0), *((*one, 0) for one in options["padding"]), (0, 0, 0)]
    image = jax.lax.pad(image, jnp.zeros((), image.dtype), padding)
    starts = [
        range(0, size * by, by)
        for size, by in zip(kernel.shape[2:], options["rhs_dilation"], strict=True)
    ]
    patches = []
    for place in itertools.product(*starts):
        ends = [
            length - last + first
            for length, last, first in zip(
                image.shape[2:-1], [one[-1] for one in starts], place, strict=True
            )
        ]
        part = [slice(*one) for one in zip(place, ends, strides, strict=True)]
        patches.append(image[:, :, *part])
    # (place, batch, channel, *space, row) by (out, channel, place).
    flat = jnp.reshape(kernel, (*kernel.shape[:2], -1))
    contracted = ((1, 2), (2, 0)), ((), ())
    rest = {x: options[x] for x in ("precision", "preferred_element_type")}
    product = jax.lax.dot_general(flat, jnp.stack(patches), contracted, **rest)
    # (out, batch, *space, row), each axis to its place in the result.
    batch_first = jnp.swapaxes(product, 0, 1)
    order = [numbers.out_spec.index(axis) for axis in range(product.ndim - 1)]
    return jnp.transpose(batch_first, (*order, product.ndim - 1))
