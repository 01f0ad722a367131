"""Indices below 0 that come from a column of the data: a missing label, which is −1 to pandas.

JAX counts them from the end, as Python does, so that a row without a group would be one of the last
group. A number from the end that a program itself makes (`effects[-1]`, `effects[t % 12 - 1]`) is
intended, and so is an index whose value the log likelihood does not use, as in
`jnp.where(label < 0, 0.0, effects[label])`.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import jaxprs
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.rows._view import CHUNK_SIZE

ASKED_ROWS = 32
"""Rows with an index below 0 whose log likelihood is asked whether it uses it, evenly spaced over
all of them: some may be masked by another column. Set by hand."""
KEEPS_COLUMN = (
    "broadcast_in_dim concatenate convert_element_type copy dynamic_slice expand_dims floor gather "
    "reshape round slice squeeze stack stop_gradient transpose"
)
"""Primitives whose results are numbers of a column if their first argument is."""


class Column(NamedTuple):
    """Labels in an array of the data: as they are, or counted from 1 on.

    Attributes:
        leaf: the number of the array among the leaves of the data.
        first: the first label, 0 or 1.
    """

    leaf: int
    first: int = 0


class _Number(NamedTuple):
    """An array of a program, and the labels that it holds.

    Attributes:
        value: the array.
        column: the labels that it holds, less the first one; None if it holds none.
        is_below: whether they are below 0, if this array is that comparison.
        number: the number of the index that this array is, in the order of the program; None if it
            is none.
    """

    value: Any
    column: Column | None = None
    is_below: Any = None
    number: int | None = None


class _Indices:
    """The indices of a program that are labels of the data.

    Attributes:
        columns: the labels of each.
        intended: the numbers of those which the program itself counts from the end, as
            `effects[jnp.where(i < 0, i + size, i)]` does.
    """

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.intended: set[int] = set()


def first_negative(model: Any, position: Position, data: Data) -> tuple[int, int] | None:
    """Return the first row with an index below 0 that changes its log likelihood, and how many rows
    have an index below 0; None if there is no such row.

    Args:
        model: what has a `log_likelihood(position, datum)`, hashable.
        position: a position.
        data: the n rows.
    """
    leaves, indices = jax.tree.leaves(data), _Indices()
    jax.eval_shape(lambda *a: _interpreted(model, *a, indices=indices), position, _datum(data))
    intended = frozenset(indices.intended)
    columns = {x for number, x in enumerate(indices.columns) if number not in intended}
    # Most data have no such number, and then nothing is compiled.
    if all(_least(leaves[column.leaf]) >= column.first for column in columns):
        return None
    is_below = np.asarray(_below(model, intended, position, data))
    if not is_below.any():
        return None
    rows = np.flatnonzero(is_below)
    asked = rows[np.linspace(0, len(rows) - 1, ASKED_ROWS).astype(int)]
    both = np.asarray(
        _values(model, intended, moved_position(position), jax.tree.map(lambda x: x[asked], data))
    )
    used = asked[~(both[:, 0] == both[:, 1]) & ~np.isnan(both).all(1)]
    return (int(used[0]), len(rows)) if len(used) else None


def _datum(data: Data) -> Data:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], jnp.result_type(x)), data)


def _least(leaf: Array | np.ndarray) -> float:
    on_accelerator = isinstance(leaf, jax.Array) and next(iter(leaf.devices())).platform != "cpu"
    return float(leaf.min() if on_accelerator else np.asarray(leaf).min())


def moved_position(position: Position) -> Position:
    """Return a position whose numbers differ from each other, each with its sign."""
    rng = np.random.default_rng(0)

    def moved(leaf: Array | np.ndarray) -> np.ndarray:
        x = np.asarray(leaf)
        size = np.where(x == 0, 1.0, x.astype(float))
        return (x + 0.1 * size * rng.uniform(size=x.shape)).astype(x.dtype)

    return jax.tree.map(moved, position)


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _below(model: Any, intended: frozenset[int], position: Position, data: Data) -> Array:
    """Return which rows have an index below 0 from a column of theirs, shape (n,)."""

    def of_one(datum: Data) -> Array:
        return _interpreted(model, position, datum, intended)[1]

    return jax.lax.map(of_one, data, batch_size=CHUNK_SIZE)


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _values(model: Any, intended: frozenset[int], position: Position, data: Data) -> Array:
    """Return the log likelihood of each row, as it is and with 0 for indices below 0: (n, 2)."""

    def of_one(datum: Data) -> Array:
        both = (_interpreted(model, position, datum, intended, x)[0] for x in (False, True))
        return jnp.stack(list(both))

    return jax.vmap(of_one)(data)


def _interpreted(
    model: Any,
    position: Position,
    datum: Data,
    intended: frozenset[int] = frozenset(),
    with_zero: bool = False,
    indices: _Indices | None = None,
) -> tuple[Array, Array]:
    """Return a log likelihood, and whether a column of the datum gives an index below 0.

    Args:
        model: what has a `log_likelihood`.
        position: the position.
        datum: the datum.
        intended: the numbers of indices that may be below 0.
        with_zero: whether the program gets 0 for such an index.
        indices: gets the indices that are labels of the datum.
    """
    indices = indices or _Indices()
    program = jax.make_jaxpr(lambda *a: jnp.asarray(model.log_likelihood(*a)))(position, datum)
    below = [jnp.bool_(False)]

    def rule(equation: jaxprs.Equation, values: list[_Number]) -> list[_Number]:
        name, first = equation.primitive.name, values[0] if values else _Number(None)
        # An index is made by JAX as `select_n(i < 0, i, i + size)`.
        column = first.column
        if (
            name == "select_n"
            and column
            and values[1].column == column
            and first.is_below is not None
        ):
            index = len(indices.columns)
            indices.columns.append(column)
            if index not in intended:
                below[0] |= jnp.any(first.is_below)
                if with_zero:
                    return [_Number(jnp.maximum(values[1].value, 0))]
            value = equation.primitive.bind(*(x.value for x in values), **equation.params)
            return [_Number(value, number=index)]
        # An index that is compared with 0 again was no index yet.
        if name == "lt" and first.number is not None:
            indices.intended.add(first.number)
        results = equation.primitive.bind(*(x.value for x in values), **equation.params)
        if equation.primitive.multiple_results:
            return [_Number(x) for x in results]
        if name == "lt" and first.column is not None and _is(equation.invars[1], 0):
            return [_Number(results, first.column, results)]
        index = first.number if name in KEEPS_COLUMN.split() else None
        return [_Number(results, _column_of(equation, first.column), number=index)]

    count = len(jax.tree.leaves(position))
    arguments = [
        _Number(x, Column(i - count) if i >= count else None)
        for i, x in enumerate(jax.tree.leaves((position, datum)))
    ]
    (result,) = jaxprs.interpret(program, arguments, rule, _Number)
    return result.value, below[0]


def _column_of(equation: jaxprs.Equation, column: Column | None) -> Column | None:
    """Return the labels that a result holds, if the first argument holds these."""
    name = equation.primitive.name
    if column is None or name in KEEPS_COLUMN.split():
        return column
    # Labels from 1 on have a 0 for a missing one.
    is_less_one = (name == "sub" and _is(equation.invars[1], 1)) or (
        name == "add" and _is(equation.invars[1], -1)
    )
    return Column(column.leaf, 1) if is_less_one and column.first == 0 else None


def _is(atom: Any, number: int) -> bool:
    return jaxprs.is_literal(atom) and np.shape(atom.val) == () and atom.val == number
