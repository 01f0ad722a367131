"""Where the density is 0: log_prior, or the log likelihood of a row, −inf or NaN.

A gradient does not show it: of `jnp.where(inside, …, -jnp.inf)` it is 0 outside, as at a mode. So
densities themselves are evaluated, where by its structure a function can end.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, freshness, jaxprs
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.model_checks.support import Outside, is_outside
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import CHUNK_SIZE, all_rows, sum_over_rows, view
from ewsg_jax.vectors.potential import PotentialSpec

FAR = 1e6
"""A log density this far below the best is that of a wall: `jnp.where(inside, 0.0, -1e30)`."""
MOST_ROWS, FEWEST = 2**24, 64
"""Rows at which the likelihood is evaluated, and positions evaluated whatever their number."""
AT_ONCE = 16
"""Positions that are evaluated together."""
NEEDS_POSITIVE = {"log", "log1p", "sqrt", "rsqrt", "pow"}
"""What is NaN, or −inf, of a number that is not positive."""
POSITIVE = {"exp", "exp2", "abs", "square", "logistic", "cosh"}
KEEPS_POSITIVE = (
    "add mul div max min reduce_sum reduce_max reduce_min reduce_prod cumsum sqrt broadcast_in_dim "
    "reshape squeeze convert_element_type transpose slice concatenate copy stop_gradient "
    "expand_dims log1p select_n gather dynamic_slice rsqrt pow"
)
"""What is positive where all that it is made of is."""
OWN_RULE = "custom_vjp_call"
ENTERED = jaxprs.CALLS - {OWN_RULE}
"""A rule of one's own is for something like a solver, whose inner numbers are not the density's."""


def can_end(posterior: Posterior, position: Position, data: Data) -> tuple[bool, bool]:
    """Return whether log_prior and log_likelihood can be −inf by their structure.

    They can where they hold an infinity, or a number beyond any log density, or the logarithm or
    root of a number that may be negative.
    """
    shapes = jax.tree.flatten((checks.shapes(position), checks.datum(view(data).tree)))
    return _can_end(posterior, shapes[1], tuple(shapes[0]), freshness.now())


@functools.lru_cache(maxsize=256)
def _can_end(
    posterior: Posterior, structure: object, leaves: tuple[Any, ...], as_of: Hashable
) -> tuple[bool, bool]:
    position, datum = jax.tree.unflatten(structure, leaves)
    return _has_end(posterior.log_prior, position), _has_end(
        posterior.log_likelihood, position, datum
    )


def _has_end(function: Callable[..., Any], position: object, *others: object) -> bool:
    program, count = jax.make_jaxpr(function)(position, *others), len(jax.tree.leaves(position))
    has_end = False

    def rule(equation: jaxprs.Equation, values: list[Sign]) -> list[Sign]:
        nonlocal has_end
        name, depends = equation.primitive.name, any(x.depends for x in values)
        # Of the largest or the least of numbers an infinity is the neutral one.
        has_end |= name not in ("max", "min") and any(x.is_beyond for x in values)
        has_end |= depends and name in NEEDS_POSITIVE and not values[0].is_positive
        for inner in () if name == OWN_RULE else jaxprs.programs_in(equation):
            inputs = getattr(inner, "jaxpr", inner).invars
            fits = len(values) == len(inputs)
            unknown = [Sign(depends)] * len(inputs)
            jaxprs.interpret(inner, values if fits else unknown, rule, _sign, ENTERED)
        is_positive = (
            name in POSITIVE
            or (name == "integer_pow" and equation.params["y"] % 2 == 0)
            or (name == "mul" and equation.invars[0] is equation.invars[1])
            or (name in KEEPS_POSITIVE.split() and all(x.is_positive for x in values))
        )
        return [Sign(depends, is_positive)] * len(equation.outvars)

    inputs = [Sign(i < count) for i in range(len(program.jaxpr.invars))]
    jaxprs.interpret(program, inputs, rule, _sign, ENTERED)
    return has_end


class Sign(NamedTuple):
    """What is known of a number in a program.

    Attributes:
        depends: whether it may depend on the position.
        is_positive: whether it is known to be never below 0.
        is_beyond: whether it is a constant beyond any log density.
    """

    depends: bool
    is_positive: bool = False
    is_beyond: bool = False


def _sign(constant: Any) -> Sign:
    """Return what is known of a constant: nothing if it is traced, or a key."""
    dtype = jnp.result_type(constant)
    if checks.is_traced(constant) or jnp.issubdtype(dtype, jax.dtypes.extended):
        return Sign(False)
    numbers = np.asarray(constant)
    is_beyond = jnp.issubdtype(dtype, jnp.floating) and not np.all(np.abs(numbers) < FAR)
    return Sign(False, bool(np.all(numbers >= 0)), bool(is_beyond))


def outside(
    posterior: Posterior, positions: Position, data: Data, chunk_size: int = CHUNK_SIZE
) -> Outside:
    """Return how many positions lie where the density is 0.

    Args:
        posterior: of which.
        positions: a tree like the position with one leading axis.
        data: all rows, in one place or over several devices.
        chunk_size: rows taken at once.
    """
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), positions)
    # Only what can be 0 by its own program is evaluated: most models cannot.
    prior_ends, likelihood_ends = can_end(posterior, one, data)
    count, none = jax.tree.leaves(positions)[0].shape[0], np.zeros(0, bool)
    prior = np.zeros(count, bool)
    if prior_ends:
        prior = is_outside(np.asarray(_priors(posterior, positions), np.float64), FAR)
    if not likelihood_ends:
        return Outside.of(prior, none)
    # Of many rows few positions, so that the look costs no more than some gradients.
    n = all_rows(data)
    some = np.unique(np.linspace(0, count - 1, max(FEWEST, min(count, MOST_ROWS // n))).astype(int))
    chosen = jax.tree.map(lambda x: np.asarray(x)[some], positions)
    values = np.asarray(_likelihoods(posterior, chosen, data, chunk_size), np.float64)
    return Outside.of(prior, is_outside(values, FAR), some, float(len(some)))


def log_densities(posterior: Posterior, positions: Position, data: Data) -> np.ndarray:
    """Return −V at positions, a tree with one leading axis, float64."""
    likelihoods = np.asarray(_likelihoods(posterior, positions, data, CHUNK_SIZE), np.float64)
    return np.asarray(_priors(posterior, positions), np.float64) + likelihoods


@functools.partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _priors(posterior: Posterior, positions: Position) -> Array:
    return jax.lax.map(lambda x: jnp.asarray(posterior.log_prior(x)), positions, batch_size=AT_ONCE)


@functools.partial(jax.jit, static_argnums=(0, 3), compiler_options=QUICK)
def _likelihoods(posterior: Posterior, positions: Position, data: Data, chunk_size: int) -> Array:
    def total(position: Position) -> Array:
        return sum_over_rows(
            lambda rows: jnp.sum(posterior.log_likelihoods(position, rows)), data, chunk_size
        )

    return jax.lax.map(total, positions, batch_size=AT_ONCE)


def not_finite(of: PotentialSpec, flat: np.ndarray, data: Data) -> str:
    """Return which part of a potential or gradient is not finite at a point; empty for none."""
    with of.precision():
        found = jax.device_get(_parts(of, flat, data))
    prior, prior_gradient, minus, nan, plus, gradient = (np.asarray(x, np.float64) for x in found)
    n, d, said = all_rows(data), len(flat), []
    ends = can_end(of.posterior, of.layout.tree(np.zeros(d)), data)
    # The prior first, since without it nothing follows of the rows.
    if not np.isfinite(prior):
        said.append(f"log_prior is {float(prior):.4g}" + _why(bool(ends[0]), float(prior)))
    elif prior_gradient:
        said.append(
            f"{int(prior_gradient)} of {d} derivatives of log_prior are not finite" + MASKED
        )
    for count, name in ((minus, "-inf"), (plus, "inf"), (nan, "NaN")):
        if count:
            why = _why(bool(ends[1]), float(name))
            said.append(f"log_likelihood is {name} for {int(count):,} of {n:,} rows{why}")
    # A value that is not finite explains its gradient.
    if gradient and not (minus or nan or plus):
        said.append(f"{int(gradient)} of {d} derivatives of log_likelihood are not finite" + MASKED)
    return "; ".join(said)


MASKED = (
    ", though it is finite itself (jnp.where differentiates the branch that is not taken too: make "
    "its argument safe first)"
)


def _why(ends: bool, value: float) -> str:
    if value == -np.inf:
        return (
            " (the density is 0 there: start where it is positive)"
            if ends
            else " (a number that is too large: start nearer, or rescale the parameters or the "
            "data)"
        )
    return " (outside its domain, or NaN in data that it does not mask)" if np.isnan(value) else ""


@functools.partial(jax.jit, static_argnums=0)
def _parts(of: PotentialSpec, flat: Array, data: Data) -> tuple[Array, ...]:
    def of_rows(rows: Data) -> tuple[Array, ...]:
        rows = of.rows(rows)
        values = of.posterior.log_likelihoods(of.position(flat), rows)
        counts = [
            jnp.sum(jnp.asarray(x, jnp.int32))
            for x in (values == -jnp.inf, jnp.isnan(values), values == jnp.inf)
        ]
        return (*counts, of.row_gradient(flat, rows))

    minus, nan, plus, gradient = sum_over_rows(of_rows, data, of.chunk_size)
    prior = jnp.asarray(of.posterior.log_prior(of.position(flat)))
    return (
        prior,
        jnp.sum(~jnp.isfinite(of.prior_gradient(flat))),
        minus,
        nan,
        plus,
        jnp.sum(~jnp.isfinite(gradient)),
    )
