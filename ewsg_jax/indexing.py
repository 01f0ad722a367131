"""A look for indices out of bounds, which JAX answers with the nearest element and without a word.

A position with one number for each of four groups, and data that call a group 4: the likelihood of
those rows would be that of group 3.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import jax
from jax.experimental import checkify

from ewsg_jax._types import Array, Data, Position
from ewsg_jax.rows.view import CHUNK_SIZE

OfDatum = Callable[[Position, Data], Array]


def has_indices(function: OfDatum, position: Position, datum: Data) -> bool:
    """Return whether a function indexes by what it computes, leaving out of bounds to JAX.

    Where it says itself what is there (`jax.numpy.take` does: NaN), nothing is wrong with an index
    out of bounds.
    """
    equations = list(_equations(jax.make_jaxpr(function)(position, datum)))
    names = {equation.primitive.name for equation in equations}
    modes = [equation.params["mode"] for equation in equations if "mode" in equation.params]
    in_bounds = jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return bool(names & {"gather", "dynamic_slice"}) and not any(
        isinstance(mode, jax.lax.GatherScatterMode) and mode != in_bounds for mode in modes
    )


class Model(Protocol):
    """What is checked: a hashable object with a log likelihood of one datum."""

    @property
    def log_likelihood(self) -> OfDatum:
        """`log_likelihood(position, datum)`."""
        ...


@jax.jit(static_argnums=0)
def error_of(model: Model, position: Position, data: Data) -> checkify.Error:
    """Return the first index out of bounds in a datum's log likelihood, as checkify reports it.

    No more is computed than the indices: the rest of the program is dead.
    """

    def of_all(position: Position, data: Data) -> Array:
        return jax.lax.map(
            functools.partial(model.log_likelihood, position), data, batch_size=CHUNK_SIZE
        )

    return checkify.checkify(of_all, errors=checkify.index_checks)(position, data)[0]


def check(model: Model, position: Position, data: Data) -> None:
    """Raise ValueError where an index in the log likelihood of a datum is out of bounds."""
    try:
        found = error_of(model, position, data).get()
    except Exception:
        return  # A likelihood that checkify cannot take apart is not looked at.
    if found is not None:
        what = found.strip().split("\n")[0].rstrip(" .")
        raise ValueError(
            "data must lead to indices in bounds in log_likelihood, where JAX would take the "
            f"nearest; got {what} (where that is meant, give check_values, which is asked instead)"
        )


def _equations(program: Any) -> Iterator[Any]:
    """Yield the equations of a program and of those inside it."""
    for equation in getattr(program, "jaxpr", program).eqns:
        yield equation
        for inner in jax.tree.leaves(equation.params):
            if hasattr(inner, "eqns"):
                yield from _equations(inner)
