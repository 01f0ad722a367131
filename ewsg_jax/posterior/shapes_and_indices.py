"""Whether the functions of a posterior fit a position and data, checked once for their shapes.

Data are searched for indices out of bounds, for which JAX silently takes the nearest element. If a
position has one number for each of four groups, and the data have a group 4, the likelihood of
those rows would be that of group 3.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.experimental import checkify

from ewsg_jax.base import checked_arrays, checks, freshness, jaxprs, tracing
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.posterior import batched
from ewsg_jax.posterior.linear import LinearPredictor, Residual
from ewsg_jax.posterior.negative_indices import first_negative
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows, view

OfDatum = Callable[[Position, Data], Array]


class CheckedModel(Protocol):
    """What is checked: the functions of a `Posterior`, which is hashable."""

    @property
    def log_likelihood(self) -> OfDatum:
        """`log_likelihood(position, datum)`."""
        ...

    @property
    def log_prior(self) -> Callable[[Any], Any]:
        """`log_prior(position)`."""
        ...

    @property
    def predictor(self) -> LinearPredictor | None:
        """How data enter through linear predictors."""
        ...

    @property
    def check_values(self) -> Callable[[Any, Data], None] | None:
        """`check_values(position, data)` raises what is wrong with the numbers in the data."""
        ...

    @property
    def batched_log_likelihood(self) -> OfDatum | None:
        """`batched_log_likelihood(position, rows)`."""
        ...


class ModelCheck:
    """The shapes that one model's functions fit: they are checked again and again for the same.

    `Posterior.check` and `Posterior.check_gradient` say what each method raises.
    """

    def __init__(self, other: "ModelCheck | None" = None, model: Any = None) -> None:
        self._fitting: set[Hashable] = set()
        self._other, self._model = other, model

    def also_for(self, same: Any, model: CheckedModel) -> Any:
        """Return a posterior that is this check's model in other words, such as without constants:
        it fits what the model does, and is not traced for it.
        """
        object.__setattr__(same, "_model_check", ModelCheck(self, model))
        return same

    def __reduce__(self) -> tuple[type["ModelCheck"], tuple[Any, ...]]:
        # A copy checks again.
        return ModelCheck, (self._other, self._model)

    def check(self, model: CheckedModel, position: Position, data: Data) -> None:
        """Check both functions, and the values of the data unless they are traced."""
        if self._other is not None:
            self._other.check(self._model, position, data)
            return
        checks.floating("position", position)
        checks.data(data)
        data = view(data).tree
        datum, shapes = checks.datum(data), checks.shapes(position)
        # Known by shapes and by what functions read: each is traced once.
        signature = _signature((shapes, datum))
        if signature not in self._fitting:
            if model.batched_log_likelihood is not None:
                batched.check_shape(model.batched_log_likelihood, shapes, datum)
            _check_scalar(
                "log_likelihood", "this position and one datum", model.log_likelihood, shapes, datum
            )
            trace = functools.partial(_program, shapes, datum)
            freshness.look_again(model, _signature((shapes, datum))[1:], trace)
            self._fitting.add(signature)
        self._check_columns(model, shapes, data, (signature, num_rows(data)))
        self.check_prior(model, position)
        if checks.are_known((position, data)):
            # Arrays of JAX do not change: once for all positions of these shapes.
            checked_arrays.remembered(
                (model, signature),
                functools.partial(self._check_values, model, position, data, datum),
                data,
            )

    def _check_columns(
        self, model: CheckedModel, position: Position, data: Data, signature: Hashable
    ) -> None:
        """Raise ValueError if a list has an array for each row, which would be columns."""
        paths, n = jax.tree_util.tree_leaves_with_path(data), num_rows(data)
        arrays = len(paths)
        if arrays <= n or signature in self._fitting:
            return
        # Columns with names may be more than the rows of a small table.
        if sum(any(map(_is_place, path)) for path, _ in paths) <= n:
            return
        program = jax.make_jaxpr(model.log_likelihood)(position, checks.datum(data))
        others = len(jax.tree.leaves(position))
        num_read = sum(number >= others for number in jaxprs.computed_from(program))
        if 2 * num_read < arrays:
            raise ValueError(
                "data must be a pytree of arrays that share their leading axis, the rows; got "
                f"{arrays} arrays without names, each a column of {n} rows, of which "
                f"log_likelihood reads {num_read}: if each is a row, give numpy.stack(rows), or "
                "`jax.tree.map(lambda *x: numpy.stack(x), *rows)`; if they are columns, leave out "
                "what is not read"
            )
        self._fitting.add(signature)

    def check_prior(self, model: CheckedModel, position: Position) -> None:
        """Check the position and the prior alone."""
        if self._other is not None:
            self._other.check_prior(self._model, position)
            return
        checks.floating("position", position)
        shapes = checks.shapes(position)
        signature = _signature(shapes)
        if signature not in self._fitting:
            _check_scalar("log_prior", "this position", model.log_prior, shapes)
            self._fitting.add(signature)

    def check_gradient(self, model: CheckedModel, position: Position, data: Data) -> None:
        """Check that both functions have a gradient by the position."""
        if self._other is not None:
            self._other.check_gradient(self._model, position, data)
            return
        datum, shapes = checks.datum(view(data).tree), checks.shapes(position)
        signature = "gradient", _signature((shapes, datum))
        if signature in self._fitting:
            return
        # A residual in closed form is taken for the derivative.
        if model.predictor is None or isinstance(model.predictor.residual, Residual):
            tracing.differentiable("log_likelihood", model.log_likelihood, shapes, datum)
        tracing.differentiable("log_prior", model.log_prior, shapes, may_be_flat=True)
        self._fitting.add(signature)

    def _check_values(
        self, model: CheckedModel, position: Position, data: Data, datum: Data
    ) -> None:
        """Raise what is wrong with values of data; `datum` has the shapes of one datum."""
        self._check_rows(model, position, data, datum)
        if model.check_values is not None:
            model.check_values(position, data)
            return
        shapes = checks.shapes(position)
        no_index = "no index", _signature((shapes, datum))
        if no_index not in self._fitting:
            indices = _indices(model.log_likelihood, shapes, datum)
            with freshness.as_of_now(model):
                if not all(map(_says_itself, indices)):
                    _check_indices(model, position, data)
                if indices:
                    _check_negative(model, position, data)
            if not indices:
                self._fitting.add(no_index)

    def _check_rows(self, model: CheckedModel, position: Position, data: Data, datum: Data) -> None:
        """Raise ValueError if rows of a batched log likelihood depend on each other."""
        known = "rows", _signature((checks.shapes(position), datum))
        if model.batched_log_likelihood is None or known in self._fitting or num_rows(data) == 1:
            return
        with freshness.as_of_now(model):
            batched.check_rows(model.batched_log_likelihood, model.log_likelihood, position, data)
        self._fitting.add(known)


def _check_scalar(name: str, of: str, function: Callable[..., Any], *shapes: PyTree) -> None:
    """Check that a function returns one floating-point scalar, and the same whenever traced."""
    program = tracing.scalar(name, of, function, *shapes)
    tracing.check_same(name, function, *shapes, program=program)


def _program(position: Position, datum: Data, model: CheckedModel) -> bytes:
    """Return what stands for the programs of a model's functions."""
    programs = [
        tracing.program_of(model.log_likelihood, position, datum),
        tracing.program_of(model.log_prior, position),
    ]
    if model.batched_log_likelihood is not None:
        rows = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype), datum)
        programs.append(tracing.program_of(model.batched_log_likelihood, position, rows))
    return b"".join(map(jaxprs.digest, programs))


def _is_place(key: Any) -> bool:
    """Return whether a part of a path is a place in a list, or a number that a dictionary has."""
    return isinstance(getattr(key, "idx", getattr(key, "key", None)), int)


def _signature(shapes: PyTree) -> tuple[Hashable, ...]:
    leaves, structure = jax.tree.flatten(shapes)
    return freshness.now(), structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)


def _indices(function: OfDatum, position: Position, datum: Data) -> list[jaxprs.Equation]:
    """Return the equations of a function that read an array at indices which they are given."""
    equations = jaxprs.equations(jax.make_jaxpr(function)(position, datum))
    return [one for one in equations if one.primitive.name in ("gather", "dynamic_slice")]


def _says_itself(equation: Any) -> bool:
    """Return whether indices out of bounds are intended: `jax.numpy.take` returns NaN for them."""
    mode = equation.params.get("mode")
    in_bounds = jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return isinstance(mode, jax.lax.GatherScatterMode) and mode != in_bounds


@jax.jit(static_argnums=0, compiler_options=QUICK)
def _first_beyond(model: CheckedModel, position: Position, data: Data) -> checkify.Error:
    """Return the first index out of bounds in a datum's log likelihood, as checkify reports it.

    Only the indices are computed: the rest of the program is dead code.
    """
    program = jax.make_jaxpr(model.log_likelihood)(position, jax.tree.map(lambda x: x[0], data))
    is_meant = any(map(_says_itself, jaxprs.equations(program)))

    def of_one(datum: Data) -> Any:
        if is_meant:
            return _without_what_is_meant(program, jax.tree.leaves((position, datum)))
        return model.log_likelihood(position, datum)

    def of_all(position: Position, data: Data) -> Any:
        return jax.lax.map(of_one, data, batch_size=CHUNK_SIZE)

    return checkify.checkify(of_all, errors=checkify.index_checks)(position, data)[0]


def _without_what_is_meant(program: Any, arguments: list[Any]) -> Any:
    """Return the outputs of a program with its intended indices out of bounds put into bounds.

    Raises:
        NotImplementedError: such indices stand in a loop or a branch.
    """

    def result(equation: jaxprs.Equation, values: list[Any]) -> list[Any]:
        kind = equation.primitive
        if _says_itself(equation) and kind.name != "gather":
            return [values[0]]  # what is written out of bounds is dropped
        if _says_itself(equation):
            axes = equation.params["dimension_numbers"].start_index_map
            last = [values[0].shape[i] - equation.params["slice_sizes"][i] for i in axes]
            values[1] = jnp.clip(values[1].astype(jnp.int32), 0, jnp.array(last, jnp.int32))
        elif any(map(_says_itself, jaxprs.equations_within(equation))):
            raise NotImplementedError(kind.name)
        results = kind.bind(*values, **equation.params)
        return results if kind.multiple_results else [results]

    return jaxprs.interpret(program, arguments, result, lambda constant: constant)


def _check_indices(model: CheckedModel, position: Position, data: Data) -> None:
    """Raise ValueError if an index in the log likelihood of a datum is out of bounds."""
    try:
        message = _first_beyond(model, position, data).get()
    except Exception:
        return  # checkify cannot interpret every program
    if message is not None:
        what = message.strip().split("\n")[0].rstrip(" .")
        raise ValueError(
            "data must lead to indices in bounds in log_likelihood, because JAX would take the "
            f"nearest element; got {what} (if that is intended, give check_values, which replaces "
            "this check)"
        )


def _check_negative(model: CheckedModel, position: Position, data: Data) -> None:
    """Raise ValueError if a label in the data, used as an index, counts from the end."""
    try:
        below = first_negative(model, position, data)
    except Exception:
        return  # not every program can be interpreted
    if below is not None:
        row, count = below
        raise ValueError(
            "data must lead to indices from 0 on in log_likelihood, because JAX counts those below "
            f"0 from the end, so that a missing label (−1) is the last one; got one in row {row} "
            f"({count:,} such rows): leave these rows out, or give them a label of their own (if "
            "the end is intended, write it as label % size, or give check_values, which replaces "
            "this check)"
        )
