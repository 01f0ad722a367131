"""The graph of a PyMC model as functions of JAX, over all of its rows or over those of a batch.

A factor is one term of the log density: that of a variable, with the Jacobian of its transform, or
a potential. Arrays that hold rows (observed values, columns, group labels) become inputs, and what
has their length (`dims`, `shape`) becomes the length of these inputs.

This module imports PyMC, and is imported when a bridge is called.
"""

import contextlib
import functools
import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

_graph = import_module("pytensor.graph.traversal")
_basic = import_module("pytensor.graph.basic")
pt = import_module("pytensor.tensor")
_shapes = import_module("pytensor.tensor.shape")
_SHAPE_OPS = _shapes.Shape, _shapes.Shape_i
_Alloc = import_module("pytensor.tensor.basic").Alloc
_HAVE_LENGTHS = (
    _Alloc,
    _shapes.Reshape,
    _shapes.SpecifyShape,
)
_OpFromGraph = import_module("pytensor.compile.builders").OpFromGraph
_SharedVariable = import_module("pytensor.compile").SharedVariable
_MinibatchOp = import_module("pymc.data").MinibatchOp
_jaxified = import_module("pymc.sampling.jax").get_jaxified_graph

Graph = Any
"""A variable of PyTensor."""


class RowInputs(NamedTuple):
    """What is counted by rows.

    Attributes:
        axes: the arrays that hold rows, by name: the axis that counts them.
        effects: the unconstrained variables with one value for each row on their leading axis.
        lengths: numbers that stand for the length of the rows where a shape is written: n, and the
            size of a `pm.Minibatch`.
        dims: the model's variables that are the length of a dimension of the rows.
    """

    axes: dict[str, int]
    effects: tuple[str, ...]
    lengths: frozenset[int]
    dims: tuple[Graph, ...]


def in_jax(inputs: Sequence[Graph], outputs: Sequence[Graph]) -> Callable[..., tuple[Any, ...]]:
    """Return a graph as a function of JAX: `function(*inputs) -> outputs`, a tuple.

    PyTensor's remarks on dtypes are left out: JAX has 32 bits unless 64 are switched on, and what
    PyMC writes in float64 is then of float32.

    Raises:
        NotImplementedError: an operation of the graph has no counterpart in JAX.
    """
    with _quiet():
        function = _jaxified(list(inputs), with_strong_types(outputs))
    # The numbers of a graph are in no code by which a checkpoint could know it.
    return functools.partial(_evaluated, function, content_of(inputs, outputs))


def _evaluated(function: Callable[..., Any], content: str, *arguments: Any) -> tuple[Any, ...]:
    with _quiet():
        return function(*arguments)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        yield


def content_of(inputs: Sequence[Graph], outputs: Sequence[Graph]) -> str:
    """Return a digest of what a graph computes, the same in every process."""
    digest = hashlib.blake2b(digest_size=16)
    numbers = {variable: f"input {place}" for place, variable in enumerate(inputs)}

    def number(variable: Graph) -> str:
        if variable not in numbers:
            numbers[variable] = f"leaf {len(numbers)}"
            digest.update(f"{numbers[variable]} {variable.type}".encode())
            if _is_known(variable) and _has_numbers(variable):
                digest.update(np.ascontiguousarray(value_of(variable)).tobytes())
        return numbers[variable]

    for node in _graph.toposort(list(outputs)):
        taken = " ".join(map(number, node.inputs))
        # Some operations are printed with their address.
        digest.update(f"{re.sub('0x[0-9a-f]+', '', str(node.op))} {taken}".encode())
        if hasattr(node.op, "inner_outputs"):
            inner = content_of(node.op.inner_inputs, node.op.inner_outputs)
            digest.update(inner.encode())
        for output in node.outputs:
            numbers[output] = f"node {len(numbers)}"
    digest.update(" ".join(map(number, outputs)).encode())
    return digest.hexdigest()


def with_strong_types(graphs: Sequence[Graph]) -> list[Graph]:
    """Return graphs that fill arrays with an array of one number, not with a number.

    PyTensor gives JAX a number as one of Python, which has a weak type: an array of such is float32
    together with others that are, as −∞ is, even if all else is float64.
    """
    fills = {}
    for node in _graph.toposort(list(graphs)):
        if isinstance(node.op, _Alloc) and isinstance(node.inputs[0], _basic.Constant):
            fill, lengths = node.inputs[0], node.inputs[1:]
            if lengths and not fill.type.ndim and fill.type.dtype == "float64":
                one = pt.constant(np.full((1,) * len(lengths), fill.data))
                fills[node.outputs[0]] = node.op.make_node(one, *lengths).outputs[0]
    return rebuilt(graphs, fills)


def without_minibatches(graphs: Sequence[Graph]) -> tuple[list[Graph], set[int]]:
    """Return graphs with the array from which `pm.Minibatch` draws in the place of what it draws,
    and the lengths of what it draws.
    """
    replaced = {
        batch: array
        for node in _graph.toposort(list(graphs))
        if isinstance(node.op, _MinibatchOp)
        for batch, array in zip(node.outputs, node.inputs, strict=True)
        if hasattr(array.type, "ndim")
    }
    if not replaced:
        return list(graphs), set()
    sizes = {batch.type.shape[0] for batch in replaced} - {None}
    length = next(iter(replaced.values())).shape[0]
    return rebuilt(graphs, replaced, frozenset(sizes), length), sizes


def arrays_in(graphs: Iterable[Graph]) -> dict[str, list[Graph]]:
    """Return the arrays that graphs hold, by name: one for variables of the same numbers.

    Those without a name in the model are called `array`, `array_1`, …, in the order of the graph.
    """
    arrays: dict[str, list[Graph]] = {}
    for leaf in dict.fromkeys(_graph.graph_inputs(list(graphs))):
        if not _is_known(leaf) or not _is_array(leaf):
            continue
        same = next((x for x in arrays.values() if _is_same(x[0], leaf)), None)
        if same is not None:
            same.append(leaf)
            continue
        name, count = leaf.name or "array", 0
        while name in arrays:
            count += 1
            name = f"{leaf.name or 'array'}_{count}"
        arrays[name] = [leaf]
    return arrays


def depends_on(graphs: Sequence[Graph], variables: Iterable[Graph]) -> bool:
    """Return whether graphs depend on one of some variables."""
    ancestors = set(_graph.ancestors(list(graphs)))
    return not ancestors.isdisjoint(variables)


def value_of(leaf: Graph) -> np.ndarray:
    """Return the numbers of a constant or a shared variable."""
    return np.asarray(leaf.get_value() if isinstance(leaf, _SharedVariable) else leaf.data)


def over_batches(
    graphs: Sequence[Graph],
    rows: RowInputs,
    arrays: Mapping[str, list[Graph]],
    values: Iterable[Graph],
) -> tuple[list[Graph], list[Graph]]:
    """Return graphs that take the rows of a batch, and their inputs.

    Args:
        graphs: what is computed from all rows.
        rows: what counts rows.
        arrays: the arrays that the graphs hold, by name.
        values: the model's unconstrained variables, of which those in `rows.effects` have the
            values of the batch's rows alone.

    Returns:
        The inputs, one for each unconstrained variable and then one for each array of rows, and the
        graphs.
    """
    replaced: dict[Graph, Graph] = {}
    inputs = []
    for value in values:
        inputs.append(_of_any_length(value, 0) if value.name in rows.effects else value)
        replaced[value] = inputs[-1]
    lengths = [one.shape[0] for one in inputs if one.name in rows.effects]
    for name, axis in rows.axes.items():
        one = _of_any_length(arrays[name][0], axis)
        inputs.append(one)
        lengths.append(one.shape[axis])
        replaced.update(dict.fromkeys(arrays[name], one))
    replaced.update(dict.fromkeys(rows.dims, lengths[-1]))
    return inputs, rebuilt(graphs, replaced, rows.lengths, lengths[-1])


def rebuilt(
    graphs: Sequence[Graph],
    replaced: Mapping[Graph, Graph],
    lengths: frozenset[int] = frozenset(),
    length: Graph = None,
) -> list[Graph]:
    """Return graphs with some of their variables replaced, by such of other shapes too.

    Args:
        graphs: the graphs.
        replaced: what takes the place of a variable.
        lengths: numbers of a shape that become `length`.
        length: the variable that they become.
    """
    new = dict(replaced)
    for node in _graph.toposort(list(graphs)):
        inputs = [new.get(x, x) for x in node.inputs]
        if isinstance(node.op, _HAVE_LENGTHS) and lengths:
            inputs[1:] = [_with_length(x, lengths, length) for x in inputs[1:]]
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            if isinstance(node.op, _OpFromGraph):
                # Its own graph is of the former shapes.
                inner = dict(zip(node.op.inner_inputs, inputs, strict=True))
                outputs = rebuilt(node.op.inner_outputs, inner, lengths, length)
            else:
                # The node is made again, with the shapes of its new inputs.
                outputs = node.op.make_node(*inputs).outputs
            for old, other in zip(node.outputs, outputs, strict=True):
                new.setdefault(old, other)
    return [new.get(graph, graph) for graph in graphs]


def _with_length(shape: Graph, lengths: frozenset[int], length: Graph) -> Graph:
    """Return an input that is a shape, or a part of one, with another length in it."""
    if isinstance(shape, _basic.Constant):
        numbers = np.asarray(shape.data)
        if numbers.dtype.kind != "i" or not np.isin(numbers, list(lengths)).any():
            return shape
        if numbers.ndim == 0:
            return pt.cast(length, shape.type.dtype)
        parts = [length if int(x) in lengths else int(x) for x in numbers]
        return pt.cast(pt.stack(parts), shape.type.dtype)
    if shape.owner is None or isinstance(shape.owner.op, _SHAPE_OPS):
        return shape
    first, *others = shape.owner.inputs
    inputs = [_with_length(first, lengths, length), *others]
    if not isinstance(shape.owner.op, pt.subtensor.Subtensor):
        inputs = [_with_length(x, lengths, length) for x in shape.owner.inputs]
    if all(a is b for a, b in zip(inputs, shape.owner.inputs, strict=True)):
        return shape
    remade = shape.owner.op.make_node(*inputs)
    return remade.outputs[shape.owner.outputs.index(shape)]


def _of_any_length(variable: Graph, axis: int) -> Graph:
    """Return an input like a variable, of any length along one axis."""
    shape = list(variable.type.shape)
    shape[axis] = None
    return variable.type.clone(shape=tuple(shape))(name=variable.name)


def _is_array(leaf: Graph) -> bool:
    """Return whether a leaf is an array of numbers, and no constant that is broadcast."""
    if not _has_numbers(leaf) or not value_of(leaf).ndim:
        return False
    return value_of(leaf).size > 1 or leaf.name is not None


def _has_numbers(leaf: Graph) -> bool:
    return hasattr(leaf.type, "ndim") and value_of(leaf).dtype.kind in "biuf"


def _is_known(leaf: Graph) -> bool:
    return isinstance(leaf, _basic.Constant | _SharedVariable)


def _is_same(one: Graph, other: Graph) -> bool:
    first, second = value_of(one), value_of(other)
    is_alike = one.type.dtype == other.type.dtype and first.shape == second.shape
    return (
        is_alike
        and (one.name or other.name) == (other.name or one.name)
        and bool(np.array_equal(first, second))
    )
