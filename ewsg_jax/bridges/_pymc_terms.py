"""What a PyMC model consists of: its variables, its terms, and which of them are rows.

This module imports PyMC, and is imported when a bridge is called.
"""

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

from ewsg_jax.base import checks
from ewsg_jax.bridges._pymc_graph import (
    Graph,
    RowInputs,
    depends_on,
    value_of,
    without_minibatches,
)
from ewsg_jax.bridges._rows import ALL, ONE_DATUM

_tensors = import_module("pytensor.tensor")
_CONTINUOUS = import_module("pymc.vartypes").continuous_types
_continuous = import_module("pymc.distributions.continuous")
_Flat = _continuous.FlatRV, _continuous.HalfFlatRV
_Minibatch = import_module("pymc.variational.minibatch_rv").MinibatchRandomVariable


class DataTerm(NamedTuple):
    """A term of the log density that is of what is observed, or a potential.

    Attributes:
        name: that of the variable or the potential.
        graph: the log density of each of its elements.
        shape: the shape of that.
        dims: the names of its axes, None for one without a name.
        is_potential: whether it is a `pm.Potential`.
        has_total: for each axis, whether `total_size` scales it.
    """

    name: str
    graph: Graph
    shape: tuple[int, ...]
    dims: tuple[str | None, ...]
    is_potential: bool
    has_total: tuple[bool, ...] = ()


def check_variables(model: Any, takes_missing: bool) -> None:
    """Raise ValueError for a variable that cannot be sampled or observed, by its name.

    Args:
        model: the PyMC model.
        takes_missing: whether missing observations may be sampled: not row by row.
    """
    if not model.free_RVs:
        raise ValueError("model must have a variable to sample; got one without any")
    if not model.observed_RVs and not model.potentials:
        raise ValueError(
            "model must observe something (observed=…, or a pm.Potential for each row); got one "
            f"that only has the variables {_listed(x.name for x in model.free_RVs)}"
        )
    observed = {variable.name for variable in model.observed_RVs}
    for variable in model.free_RVs:
        name, op = variable.name, variable.owner.op
        is_continuous = variable.type.dtype in _CONTINUOUS
        stem = name.removesuffix("_unobserved")
        is_missing = stem != name and f"{stem}_observed" in observed
        if is_missing and not (takes_missing and is_continuous):
            raise ValueError(
                "model must observe every row; got missing values (NaN, or a mask) among those of "
                f"{stem!r}, which PyMC samples as {name!r}: leave these rows out"
                f"{f', or {ONE_DATUM}' if is_continuous else ''}"
            )
        if not is_continuous:
            raise ValueError(
                f"model must have continuous variables; got the discrete one {name!r} "
                f"({_kind(variable)}): sum it out, such as by pm.Mixture, or observe it "
                f"(pm.observe(model, {{{name!r}: …}}))"
            )
        if isinstance(op, _Flat):
            raise ValueError(
                f"model must have proper priors; got the improper one of {name!r} "
                f"({_kind(variable)}): give it a wide density, such as pm.Normal(0, 100)"
            )


def terms_of(model: Any) -> tuple[list[Graph], list[Graph], set[int]]:
    """Return terms of the log density of what is sampled, and of all else, as graphs that take the
    whole arrays of each `pm.Minibatch`, and the lengths of what it draws.
    """
    factors = [
        _tensors.as_tensor(factor, allow_xtensor_conversion=True)
        for factor in model.logp(sum=False)
    ]
    factors, sizes = without_minibatches(factors)
    count = len(model.free_RVs)
    return factors[:count], factors[count:], sizes


def others_of(
    model: Any, graphs: Iterable[Graph], shapes: Iterable[tuple[int, ...]]
) -> list[DataTerm]:
    """Return what is observed, and potentials, with their shapes and dims."""
    terms = []
    for variable, graph, shape in zip(
        [*model.observed_RVs, *model.potentials], graphs, shapes, strict=True
    ):
        dims = model.named_vars_to_dims.get(variable.name) or ()
        dims = tuple(dims[: len(shape)]) + (None,) * (len(shape) - len(dims))
        has_total: tuple[bool, ...] = ()
        if variable.owner is not None and isinstance(variable.owner.op, _Minibatch):
            has_total = tuple(
                getattr(total, "data", total) is not None for total in variable.owner.inputs[1:]
            )
        is_potential = variable not in model.observed_RVs
        terms.append(DataTerm(variable.name, graph, shape, dims, is_potential, has_total))
    return terms


def row_axes(terms: list[DataTerm], rows: str | None) -> tuple[int, dict[str, int], str | None]:
    """Return how many rows there are, which terms have a value for each and on which axis, and the
    name of that axis.

    Raises:
        TypeError, ValueError: there are no rows of that name, or it is not clear which they are.
    """
    if rows is not None and not isinstance(rows, str):
        raise TypeError(
            "rows must be the name of a dimension or of an observed variable, or None; got "
            f"{checks.describe(rows)}"
        )
    # Potentials are rows if nothing else is: a likelihood of one's own.
    observed = [term for term in terms if not term.is_potential] or terms
    with_axes = [term for term in observed if term.shape]
    if rows is not None:
        named = {term.name: term.dims.index(rows) for term in with_axes if rows in term.dims} or {
            term.name: 0 for term in terms if term.shape and term.name == rows
        }
        if not named:
            raise ValueError(
                "rows must be the name of a dimension of what is observed, or of what has a value "
                f"for each row, of {_shown(terms)}, or {ALL!r} for data that are one datum; got "
                f"{rows!r}"
            )
        name, axis = next(iter(named.items()))
        first = next(term for term in terms if term.name == name)
        if rows in first.dims:
            return first.shape[axis], named, rows
        length = first.shape[0]
    else:
        lengths = {term.shape[0] for term in with_axes}
        if not lengths:
            raise ValueError(
                "model must have a log density for each row; those of what it observes have no "
                f"axis, as of a time series or a multivariate normal: {_shown(observed)}: "
                f"{ONE_DATUM}"
            )
        if len(lengths) > 1:
            raise ValueError(
                "rows must name the dimension or the variable whose elements are rows, because "
                f"what is observed has several lengths: {_shown(observed)}"
            )
        (length,) = lengths
    axes = {term.name: 0 for term in with_axes if term.shape[0] == length}
    axes |= dict.fromkeys([rows] if rows else [], 0)
    dims = {term.dims[0] for term in terms if term.name in axes}
    return length, axes, next(iter(dims)) if len(dims) == 1 else None


def row_arrays(
    model: Any,
    terms: list[DataTerm],
    axes: dict[str, int],
    length: int,
    dim: str | None,
    arrays: dict[str, list[Graph]],
) -> tuple[dict[str, int], set[str]]:
    """Return the axis that counts rows of those arrays of terms that may hold rows, and the names
    of those that do for sure.
    """
    graphs = [term.graph for term in terms if term.name in axes]
    observed = {
        id(value): axes[variable.name]
        for variable, value in model.rvs_to_values.items()
        if variable.name in axes
    }
    places, sure = {}, set()
    for name, leaves in arrays.items():
        if not depends_on(graphs, leaves):
            continue
        shape = value_of(leaves[0]).shape
        dims = next((x for leaf in leaves if (x := model.named_vars_to_dims.get(leaf.name))), None)
        axis_observed = [observed[id(leaf)] for leaf in leaves if id(leaf) in observed]
        as_long = [axis for axis, size in enumerate(shape) if size == length]
        if axis_observed:
            places[name] = axis_observed[0]
            sure.add(name)
        elif dims is not None and dim is not None and len(dims) == len(shape):
            if dim in dims:
                places[name] = tuple(dims).index(dim)
                sure.add(name)
        elif as_long and (as_long[0] == 0 or len(as_long) == 1):
            places[name] = as_long[0]
    return places, sure


def row_effects(
    model: Any,
    terms: list[DataTerm],
    axes: dict[str, int],
    length: int,
    dim: str | None,
    start: Any,
) -> dict[str, bool]:
    """Return the unconstrained variables that may have one value for each row, on their leading
    axis, and whether they have for sure.
    """
    effects = {}
    graphs = [term.graph for term in terms if term.name in axes]
    for variable in model.free_RVs:
        value = model.rvs_to_values[variable]
        dims = model.named_vars_to_dims.get(variable.name)
        if start[value.name].shape[:1] != (length,) or not depends_on(graphs, [value]):
            continue
        if dims is None or dim is None:
            effects[value.name] = False
        elif dims[0] == dim:
            effects[value.name] = True
    return effects


def choices(rows: RowInputs, sure: set[str]) -> Iterator[RowInputs]:
    """Yield which arrays and effects may be rows: all, all but one, and those that are for sure.

    An array may have n numbers and no rows, such as one for each of n columns.
    """
    yield rows
    names = [name for name in (*rows.axes, *rows.effects) if name not in sure]
    without = [{name} for name in names] + ([set(names)] if len(names) > 1 else [])
    for left_out in without:
        yield rows._replace(
            axes={name: axis for name, axis in rows.axes.items() if name not in left_out},
            effects=tuple(name for name in rows.effects if name not in left_out),
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _shown(terms: list[DataTerm]) -> str:
    """Return names of terms, with the names and the lengths of their axes."""

    def axes(term: DataTerm) -> str:
        parts = [
            f"{size:,}" if dim is None else f"{dim}: {size:,}"
            for dim, size in zip(term.dims, term.shape, strict=True)
        ]
        return f"{term.name!r} ({', '.join(parts) or 'a scalar'})"

    return ", ".join(map(axes, terms))


def _kind(variable: Graph) -> str:
    name = type(variable.owner.op).__name__
    return f"pm.{name.removesuffix('RV').removesuffix('Rv')}"
