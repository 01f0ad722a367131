"""One call of a NumPyro model as functions of a position and of rows.

This module imports NumPyro, and is imported when a bridge is called.
"""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.infer.util import potential_energy

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.bridges._numpyro_handlers import RowHandler, RowSite
from ewsg_jax.bridges._rows import ROW


@dataclass(frozen=True, eq=False)
class ModelCall:
    """A model and what it was called with.

    Attributes:
        model: the NumPyro model.
        arguments: its positional arguments.
        keywords: its keyword arguments.
        constants: values of `numpyro.param` and `numpyro.mutable`, which stay as they are.
        plate: the plate of rows, None if rows are counted by an axis alone.
        num_rows: n.
        axes: which arguments hold rows, by the name of the leaf: the axis that counts them.
        sites: the sites that observe rows.
        held: what the model itself holds of each row, leading axis row.
        effects: sites with one value for each row, by name: the axis that counts them.
        missing: sites of missing observations, which are integrated out.
        others: observed sites that are none of rows, factors left out.
    """

    model: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    plate: str | None = None
    num_rows: int = 0
    axes: dict[str, int] = field(default_factory=dict)
    sites: dict[str, RowSite] = field(default_factory=dict)
    held: dict[str, np.ndarray] = field(default_factory=dict)
    effects: dict[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def leaves(self) -> dict[str, Any]:
        """Return the arrays among the arguments by name, such as `x` or `batch['x']`."""
        named = jax.tree_util.tree_leaves_with_path((self.arguments, self.keywords))
        return {self._name(path): leaf for path, leaf in named if is_array(leaf)}

    def data(self) -> dict[str, Any]:
        """Return the rows: a dictionary of arrays whose leading axis counts them."""
        leaves = self.leaves()
        # Under a name that a file and an error can show, as Python writes it.
        rows = {name: _in_front(leaves[name], k) for name, k in self.axes.items()}
        rows |= self.held
        if self.effects or not rows:
            rows[ROW] = np.arange(self.num_rows, dtype=np.int32)
        return rows

    def log_prior(self, position: Position, rows: Data = None) -> Array:
        """Return the log density of all that is not observed row by row, Jacobians included.

        Args:
            position: unconstrained values by site.
            rows: the rows that the model is called with; None for all of them.
        """
        with self._in_support():
            potential = potential_energy(self._handler(rows), *self._called_with(rows), position)
        return jnp.negative(potential)

    def _in_support(self) -> Any:
        """Return a context in which no density is set to 0 outside of its support: nothing is there
        that NumPyro's own transforms made, and only what is observed may be.
        """
        return contextlib.nullcontext() if self.others else numpyro.validation_enabled(False)

    def log_likelihoods(self, position: Position, rows: Data) -> Array:
        """Return the log density of what is observed in each row, shape (b,); None: all rows."""
        return self.evaluated(self.taken(position, rows), rows).of_rows()

    def taken(self, position: Position, rows: Data) -> Position:
        """Return a position with the effects of these rows in the place of all."""
        if not self.effects or rows is None:
            return position
        numbers = rows[ROW]
        taken = {k: jnp.take(position[k], numbers, axis) for k, axis in self.effects.items()}
        return {**position, **taken}

    def evaluated(self, position: Position, rows: Data) -> RowHandler:
        """Return the handler after a call of the model on some rows, or on all of them."""
        handler = self._handler(rows)
        potential_energy(handler, *self._called_with(rows), position)
        return handler

    def with_whole_plates(self) -> RowHandler:
        """Return the model with plates taken whole and constants in place."""
        return RowHandler(self.with_constants(), {}, missing=self.missing)

    def with_constants(self) -> Callable[..., Any]:
        """Return the model with the values of its constants."""
        if not self.constants:
            return self.model
        # A copy of the dictionaries: a model may write into a mutable one.
        return handlers.substitute(self.model, data=jax.tree.map(lambda x: x, self.constants))

    def _handler(self, rows: Data) -> RowHandler:
        wrapped = functools.partial(RowHandler, self.with_constants(), missing=self.missing)
        if rows is None:
            return wrapped(self.sites, self.plate)
        count = jax.tree.leaves(rows)[0].shape[0]
        # Arguments hold the batch's rows; without any, the model finds its rows by number.
        is_by_number = not self.axes and not self.held
        numbers = jnp.asarray(rows[ROW]) if is_by_number else jnp.arange(count)
        held = {k: jnp.moveaxis(rows[k], 0, self.sites[k].place) for k in self.held}
        return wrapped(self.sites, self.plate, numbers, held)

    def _called_with(self, rows: Data) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the model's arguments, with some rows in the place of all."""
        if rows is None:
            return self.arguments, self.keywords

        def replaced(path: Any, leaf: Any) -> Any:
            name = self._name(path)
            if name not in self.axes:
                return leaf
            return jnp.moveaxis(rows[name], 0, self.axes[name])

        return jax.tree_util.tree_map_with_path(replaced, (self.arguments, self.keywords))

    def as_kind(self, kind: "type[ModelCall]", **changes: Any) -> "ModelCall":
        """Return this call as one of another class, with some attributes replaced."""
        known = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return kind(**known | changes)

    @functools.cached_property
    def _parameters(self) -> tuple[str, ...]:
        try:
            names = list(inspect.signature(self.model).parameters.values())
        except (TypeError, ValueError):
            return ()
        positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        return tuple(one.name for one in names if one.kind in positional)

    def _name(self, path: Any) -> str:
        """Return the name of a leaf of the arguments."""
        first, *rest = path[1:]
        is_positional = path[0].idx == 0
        if is_positional and first.idx < len(self._parameters):
            name = self._parameters[first.idx]
        else:
            name = f"argument_{first.idx}" if is_positional else first.key
        return name + jax.tree_util.keystr(tuple(rest))


def in_dtypes_of_jax(arguments: Any) -> Any:
    """Return arguments whose arrays of NumPy have the dtypes that JAX gives them: they are then the
    same under another setting of 64 bits, which programs that were compiled before rely on.
    """

    def converted(leaf: Any) -> Any:
        if not is_array(leaf) or isinstance(leaf, jax.Array):
            return leaf
        return np.asarray(leaf).astype(jnp.result_type(np.zeros(1, leaf.dtype)), copy=False)

    return jax.tree.map(converted, arguments)


def _in_front(leaf: Any, axis: int) -> Any:
    """Return an array, of NumPy unless it is traced, with an axis in front of the others."""
    if checks.is_traced(leaf):
        return jnp.moveaxis(leaf, axis, 0)
    return np.moveaxis(np.asarray(leaf), axis, 0)


def is_array(leaf: Any) -> bool:
    """Return whether a leaf of the arguments is an array of numbers with axes."""
    dtype = getattr(leaf, "dtype", None)
    if not isinstance(dtype, np.dtype) or not getattr(leaf, "shape", ()):
        return False
    return any(jnp.issubdtype(dtype, kind) for kind in (np.number, np.bool_))


@dataclass(frozen=True, eq=False)
class RowDensities:
    """The log likelihoods of the rows of a batch, by one run of the model.

    JAX keeps what it traced for some shapes: handlers take longer to trace than to differentiate.
    """

    call: ModelCall

    def __call__(self, position: Position, rows: Data) -> Array:
        """Return them, shape (b,)."""
        return self._program(position, rows)

    @functools.cached_property
    def _program(self) -> Any:
        return jax.jit(self.call.log_likelihoods, inline=True)


@dataclass(frozen=True, eq=False)
class SitePrior:
    """The log prior of unconstrained values.

    Attributes:
        call: the model's call.
        rows: rows that the model is called with, if its prior is the same with any: a program then
            holds no other data. None: all rows.
    """

    call: ModelCall
    rows: Data = None

    def __call__(self, position: Position) -> Array:
        """Return it."""
        return self._program(position)

    @functools.cached_property
    def _program(self) -> Any:
        return jax.jit(lambda position: self.call.log_prior(position, self.rows), inline=True)


class OneDatum(ModelCall):
    """A model all of whose data are one datum."""

    def data(self) -> dict[str, Any]:
        """Return the arguments with one more axis in front, of length 1."""
        named = {name: _in_front(leaf[None], 0) for name, leaf in self.leaves().items()}
        return named or {ROW: np.zeros(1, np.int32)}

    def log_likelihoods(self, position: Position, rows: Data) -> Array:
        """Return the log density of all that is observed, shape (b,)."""

        def of_datum(datum: Data) -> Array:
            handler = self._handler(None)
            potential_energy(handler, *self._called_with(datum), position)
            return sum(map(jnp.sum, handler.values.values()), start=jnp.zeros(()))

        return jax.vmap(of_datum)(self.data() if rows is None else rows)

    def _called_with(self, rows: Data) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def replaced(path: Any, leaf: Any) -> Any:
            return rows[self._name(path)] if rows is not None and is_array(leaf) else leaf

        return jax.tree_util.tree_map_with_path(replaced, (self.arguments, self.keywords))


class AllForSome(ModelCall):
    """A model that cannot be called with some of its rows: all are evaluated for those of a batch.

    The sum over rows is the same, and so are gradients; a batch costs as much as all rows.
    """

    def data(self) -> dict[str, Any]:
        """Return the numbers of the rows."""
        return {ROW: np.arange(self.num_rows, dtype=np.int32)}

    def log_likelihoods(self, position: Position, rows: Data) -> Array:
        """Return the log density of what is observed in each row, shape (b,)."""
        of_all = self.evaluated(position, None).of_rows()
        return of_all if rows is None else jnp.take(of_all, rows[ROW])
