"""From a PyMC model to a posterior over its unconstrained values, checked against the model.

This module imports PyMC, and is imported when a bridge is called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.compiling import UNOPTIMISED
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.bridges import _pymc_terms as terms_of_pymc
from ewsg_jax.bridges._model import BridgedModel, Sites
from ewsg_jax.bridges._pymc_graph import (
    Graph,
    RowInputs,
    arrays_in,
    depends_on,
    in_jax,
    over_batches,
    rebuilt,
    value_of,
    without_minibatches,
)
from ewsg_jax.bridges._pymc_predict import Predicted
from ewsg_jax.bridges._pymc_terms import DataTerm
from ewsg_jax.bridges._rows import (
    ALL,
    ONE_DATUM,
    ROW,
    away_from,
    batches_to_compare,
    is_close,
)
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors.row_subsets import take_rows

_pytensor = import_module("pytensor")
_pt = import_module("pytensor.tensor")
_arviz = import_module("pymc.backends.arviz")


@dataclass(frozen=True, eq=False)
class RowTerms:
    """The log likelihoods of the rows of a batch, by one evaluation of the model's graph.

    Attributes:
        function: `function(*values, *arrays) -> (values of rows,)`.
        values: the names of the unconstrained variables.
        arrays: the names of the arrays of rows, and the axis that counts rows in the model.
        effects: the variables of which each row has its own value, on the leading axis.
    """

    function: Callable[..., tuple[Any, ...]]
    values: tuple[str, ...]
    arrays: tuple[tuple[str, int], ...]
    effects: tuple[str, ...]

    def __call__(self, position: Position, rows: Data) -> Array:
        """Return them, shape (b,)."""
        values = [
            jnp.asarray(position[name])[rows[ROW]]
            if name in self.effects
            else jnp.asarray(position[name])
            for name in self.values
        ]
        arrays = [jnp.moveaxis(jnp.asarray(rows[name]), 0, axis) for name, axis in self.arrays]
        return self.function(*values, *arrays)[0]


@dataclass(frozen=True, eq=False)
class DatumTerm:
    """The log likelihood of all data, which are one datum.

    Attributes:
        function: `function(*values, *arrays) -> (log density,)`.
        values: the names of the unconstrained variables.
        arrays: the names of the arrays.
    """

    function: Callable[..., tuple[Any, ...]]
    values: tuple[str, ...]
    arrays: tuple[str, ...]

    def __call__(self, position: Position, datum: Data) -> Array:
        """Return it."""
        values = [jnp.asarray(position[name]) for name in self.values]
        return self.function(*values, *(jnp.asarray(datum[name]) for name in self.arrays))[0]


@dataclass(frozen=True, eq=False)
class PriorTerms:
    """The log density of all that is not observed row by row, with Jacobians.

    Attributes:
        function: `function(*values) -> (log density,)`.
        values: the names of the unconstrained variables.
    """

    function: Callable[..., tuple[Any, ...]]
    values: tuple[str, ...]

    def __call__(self, position: Position) -> Array:
        """Return it."""
        return self.function(*(jnp.asarray(position[name]) for name in self.values))[0]


@dataclass(frozen=True, eq=False)
class Variables:
    """The values of a model's variables at one position.

    Attributes:
        function: `function(*values) -> values of variables`.
        values: the names of the unconstrained variables.
        names: the names of the variables.
    """

    function: Callable[..., tuple[Any, ...]]
    values: tuple[str, ...]
    names: tuple[str, ...]

    def __call__(self, position: Position) -> Sites:
        """Return them by name."""
        values = self.function(*(jnp.asarray(position[name]) for name in self.values))
        return dict(zip(self.names, map(jnp.asarray, values), strict=True))


class Parts:
    """A PyMC model, taken apart.

    Attributes:
        model: the model.
        values: its unconstrained variables.
        names: their names.
        start: PyMC's own start, by name.
        prior: the graphs of the terms of what is sampled.
        others: the terms of what is observed, and the potentials.
        sizes: the lengths of what `pm.Minibatch` draws.
    """

    def __init__(self, model: Any, takes_missing: bool) -> None:
        """Take a model apart."""
        terms_of_pymc.check_variables(model, takes_missing)
        self.model = model
        self.values = list(model.value_vars)
        self.names = tuple(value.name for value in self.values)
        # No C is compiled for one evaluation.
        with _pytensor.config.change_flags(mode="FAST_COMPILE", cxx=""):
            start = model.initial_point(random_seed=0)
        self.start = {name: jnp.asarray(start[name]) for name in self.names}
        self.prior, graphs, self.sizes = terms_of_pymc.terms_of(model)
        self._terms = self._in_jax(graphs)
        values = self._evaluated(self.start)
        self._check_start(values)
        shapes = [x.shape for x in values[len(self.prior) :]]
        self.others = terms_of_pymc.others_of(model, graphs, shapes)

    def evaluated(self, position: Position) -> dict[str, np.ndarray]:
        """Return the log density of each element of the terms `others`, by name."""
        values = self._evaluated(position)[len(self.prior) :]
        return dict(zip((term.name for term in self.others), values, strict=True))

    def log_prior(self, graphs: Sequence[Graph]) -> PriorTerms:
        """Return the log density of what is sampled and of other graphs."""
        total = _pt.add(*(x.sum() for x in [*self.prior, *graphs]), _pt.constant(0.0))
        return PriorTerms(in_jax(self.values, [total]), self.names)

    def constrained(self) -> Variables:
        """Return the variables and the deterministic ones as functions of the position."""
        variables = [*self.model.free_RVs, *self.model.deterministics]
        graphs = [
            _pt.as_tensor(x, allow_xtensor_conversion=True)
            for x in self.model.replace_rvs_by_values(variables)
        ]
        graphs, _ = without_minibatches(graphs)
        names = tuple(variable.name for variable in variables)
        return Variables(in_jax(self.values, graphs), self.names, names)

    def _evaluated(self, position: Position) -> list[np.ndarray]:
        return list(map(np.asarray, self._terms(*(position[name] for name in self.names))))

    def _in_jax(self, graphs: Sequence[Graph]) -> Callable[..., tuple[Any, ...]]:
        """Return all terms as a compiled function.

        Raises:
            ValueError: one has no counterpart in JAX; the message names it.
        """
        try:
            function = in_jax(self.values, [*self.prior, *graphs])
            jax.eval_shape(function, *self.start.values())
        except Exception as error:
            raise ValueError(
                "model must be one that JAX can evaluate, as it must be for "
                "pm.sample(nuts_sampler='numpyro'); the log density of "
                f"{self._failing([*self.prior, *graphs])} is not: {checks.reason(error)}"
            ) from error
        return jax.jit(function, compiler_options=UNOPTIMISED)

    def _variables(self) -> list[Any]:
        return [*self.model.basic_RVs, *self.model.potentials]

    def _failing(self, graphs: Sequence[Graph]) -> str:
        for variable, graph in zip(self._variables(), graphs, strict=True):
            try:
                jax.eval_shape(in_jax(self.values, [graph]), *self.start.values())
            except Exception:
                return repr(variable.name)
        return "all variables together"

    def _check_start(self, values: Sequence[np.ndarray]) -> None:
        """Raise ValueError if the density is 0 or NaN at the start, by the name of the term."""
        for variable, densities in zip(self._variables(), values, strict=True):
            is_wrong = ~np.isfinite(densities)
            if not is_wrong.any():
                continue
            place = tuple(int(x) for x in np.argwhere(is_wrong)[0])
            at = f" at {list(place)}" if place else ""
            raise ValueError(
                "model must have a finite log density at PyMC's initial point, "
                f"model.initial_point(); that of {variable.name!r} is {densities[place]}{at} "
                f"({np.count_nonzero(is_wrong):,} of {densities.size:,}): is what is observed "
                "in its support, and are all data numbers?"
            )


def bridged(model: Any, rows: str | None) -> BridgedModel:
    """Return what `ewsg_jax.from_pymc` does."""
    parts = Parts(model, takes_missing=rows == ALL)
    if rows == ALL:
        posterior, data = _one_datum(parts)
    else:
        posterior, data = _by_row(parts, rows)
    coords, dims = _arviz.coords_and_dims_for_inferencedata(model)
    observed = {name: np.asarray(x) for name, x in _arviz.find_observations(model).items()}
    return BridgedModel(
        posterior,
        parts.start,
        data,
        parts.constrained(),
        Predicted(model, tuple(observed)),
        dims,
        coords,
        observed,
    )


def _by_row(parts: Parts, rows: str | None) -> tuple[Posterior, Data]:
    """Return a posterior of rows and its data, checked against the model on all rows."""
    model, others = parts.model, parts.others
    length, axes, dim = terms_of_pymc.row_axes(others, rows)
    arrays = arrays_in(term.graph for term in others)
    known = terms_of_pymc.row_arrays(model, others, axes, length, dim, arrays)[0]
    axes, rest = _with_potentials(others, axes, length, arrays, known)
    places, sure = terms_of_pymc.row_arrays(model, others, axes, length, dim, arrays)
    effects = terms_of_pymc.row_effects(model, others, axes, length, dim, parts.start)
    sure |= {name for name, is_sure in effects.items() if is_sure}
    lengths = frozenset({length} | parts.sizes)
    dims = tuple(x for name, x in model.dim_lengths.items() if name == dim)
    at = away_from(parts.start)
    values = parts.evaluated(at)
    of_all = np.sum([_summed(values[name], axis) for name, axis in axes.items()], axis=0)
    first: Exception | None = None
    for chosen in terms_of_pymc.choices(RowInputs(places, tuple(effects), lengths, dims), sure):
        try:
            row_terms = _of_rows(parts, axes, chosen, arrays)
            data = _data(chosen, arrays, length)
            _check_rows(row_terms, of_all, at, data, axes)
        except Exception as error:
            first = first or error
            continue
        has_all_constants = not any(
            term.is_potential or any(term.has_total) for term in others if term.name in axes
        )
        posterior = Posterior(
            log_prior=parts.log_prior([term.graph for term in rest]),
            batched_log_likelihood=row_terms,
            name=f"from_pymc({model.name or 'model'})",
            normalised=True if has_all_constants else None,
        )
        return posterior, data
    assert first is not None
    raise first


def _with_potentials(
    terms: list[DataTerm],
    axes: dict[str, int],
    length: int,
    arrays: dict[str, list[Graph]],
    known: dict[str, int],
) -> tuple[dict[str, int], list[DataTerm]]:
    """Return the terms of rows with the potentials that have one value for each, and the rest.

    Raises:
        ValueError: a term of the rest depends on rows.
    """
    axes, rest = dict(axes), []
    of_rows = [leaf for name in known for leaf in arrays[name]]
    as_long = [x for leaves in arrays.values() for x in leaves if len(value_of(x)) == length]
    for term in terms:
        if term.name in axes:
            continue
        is_row = term.is_potential and term.shape[:1] == (length,)
        if is_row and depends_on([term.graph], of_rows + as_long):
            axes[term.name] = 0
        elif depends_on([term.graph], of_rows):
            kind = "potential" if term.is_potential else "observed variable"
            raise ValueError(
                f"model must have terms that belong to one row each; the {kind} {term.name!r}, of "
                f"shape {term.shape}, depends on the rows' arrays and has no axis of {length:,} "
                f"rows: leave its sum over rows away, or {ONE_DATUM}"
            )
        else:
            rest.append(term)
    return axes, rest


def _of_rows(
    parts: Parts, axes: dict[str, int], rows: RowInputs, arrays: dict[str, list[Graph]]
) -> RowTerms:
    terms = [term for term in parts.others if term.name in axes]
    inputs, graphs = over_batches([term.graph for term in terms], rows, arrays, parts.values)
    total = _pt.constant(0.0)
    for term, graph in zip(terms, graphs, strict=True):
        axis = axes[term.name]
        of_row = _summed(graph, axis)
        if any(term.has_total[axis : axis + 1]):
            # PyMC scales by total_size over the length of what it is given, which is a batch.
            of_row = of_row * (graph.shape[axis] / float(term.shape[axis]))
        total = total + of_row
    # A sum of constants alone has no value for each row.
    return RowTerms(in_jax(inputs, [total]), parts.names, tuple(rows.axes.items()), rows.effects)


def _summed(values: Any, axis: int) -> Any:
    """Return sums over all axes but one."""
    others = tuple(k for k in range(values.ndim) if k != axis)
    return values.sum(axis=others) if others else values


def _data(rows: RowInputs, arrays: dict[str, list[Graph]], length: int) -> dict[str, np.ndarray]:
    data = {
        name: np.moveaxis(value_of(arrays[name][0]), axis, 0) for name, axis in rows.axes.items()
    }
    if rows.effects:
        data[ROW] = np.arange(length, dtype=np.int32)
    return data


def _check_rows(
    of_rows: RowTerms, of_all: np.ndarray, position: Position, data: Data, names: Any
) -> None:
    """Raise ValueError if the densities of rows are not those of the model on all rows."""
    listed = ", ".join(map(repr, names))
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape[1:]), jnp.result_type(x)), data)
    try:
        shape = jax.eval_shape(of_rows, position, one).shape
        failed = f"it returned an array of shape {shape}" if shape != (1,) else ""
    except Exception as error:
        failed = f"it failed: {checks.reason(error)}"
    if failed:
        raise ValueError(
            f"model must run on some rows of its data; the log density of {listed} on one row: "
            f"{failed}: take lengths from the data, as in shape=x.shape[0], give arrays of other "
            f"lengths outside of the rows, or {ONE_DATUM}"
        )
    program = jax.jit(of_rows, compiler_options=UNOPTIMISED)
    for numbers in batches_to_compare(len(of_all)):
        if not is_close(program(position, take_rows(data, numbers)), of_all[numbers]):
            raise ValueError(
                "model must observe rows that are independent given its variables, in any order; "
                f"the log densities of rows in {listed} are others with {len(numbers)} rows than "
                f"with all {len(of_all):,} (as of a time series, a Gaussian process or data that "
                f"the model centres): {ONE_DATUM}"
            )


def _one_datum(parts: Parts) -> tuple[Posterior, Data]:
    """Return a posterior all of whose data are one datum."""
    observed = {id(parts.model.rvs_to_values[x]) for x in parts.model.observed_RVs}
    arrays = {
        name: leaves
        for name, leaves in arrays_in(term.graph for term in parts.others).items()
        # Numbers that the model wrote for itself may be shapes, which are known to a program.
        if value_of(leaves[0]).size > 1
        and (
            value_of(leaves[0]).dtype.kind == "f"
            or any(id(x) in observed or x.name in parts.model.named_vars for x in leaves)
        )
    }
    flat = [leaf for leaves in arrays.values() for leaf in leaves]
    terms = [
        term for term in parts.others if not term.is_potential or depends_on([term.graph], flat)
    ]
    rest = [term.graph for term in parts.others if term not in terms]
    inputs = {
        name: leaves[0].type.clone(shape=value_of(leaves[0]).shape)(name=name)
        for name, leaves in arrays.items()
    }
    replaced = {leaf: inputs[name] for name, leaves in arrays.items() for leaf in leaves}
    graphs = rebuilt([term.graph for term in terms], replaced)
    total = _pt.add(*(x.sum() for x in graphs), _pt.constant(0.0))
    function = in_jax([*parts.values, *inputs.values()], [total])
    posterior = Posterior(
        DatumTerm(function, parts.names, tuple(arrays)),
        parts.log_prior(rest),
        name=f"from_pymc({parts.model.name or 'model'}, rows='{ALL}')",
    )
    data = {name: value_of(leaves[0])[None] for name, leaves in arrays.items()}
    return posterior, data
