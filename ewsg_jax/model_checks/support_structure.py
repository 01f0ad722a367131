"""Whether a density can be 0 by its structure, which its program says without being run.

It can if what it returns may be an infinity, or a number beyond any log density, or the logarithm
or root of a number that may be negative. Most models cannot, and then no density need be evaluated.
What is computed and not returned, what is chosen by the data alone, and what stands in for a number
that is not finite (`jnp.where(jnp.isfinite(x), …, jnp.inf)`) are no ends.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, freshness, jaxprs
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import view

ZERO_DENSITY_GAP = 1e6
"""How far below the best a log density is as good as -inf, in nats: `jnp.where(inside, 0.0, -1e30)`
is. Positions that are compared are a few posterior sds apart, d nats or so; set by hand."""
NEEDS_POSITIVE = {"log", "log1p", "sqrt", "rsqrt", "pow"}
"""Primitives that are NaN, or −inf, if their first argument is not positive."""
ALWAYS_POSITIVE = {"exp", "exp2", "abs", "square", "logistic", "cosh"}
KEEPS_POSITIVE = (
    "add mul div max min reduce_sum reduce_max reduce_min reduce_prod cumsum sqrt broadcast_in_dim "
    "reshape squeeze convert_element_type transpose slice concatenate copy stop_gradient "
    "expand_dims log1p select_n gather dynamic_slice rsqrt"
)
"""Primitives that are positive if all of their arguments are; a power, if its base is."""
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_finite"]
"""Primitives whose results are finite whatever their arguments are."""
SOLVER = "custom_vjp_call"
ENTERED = jaxprs.CALLS - {SOLVER}
"""A derivative rule that the user wrote is often that of a solver, whose inner numbers are not the
density's: it is not entered."""


class Sign(NamedTuple):
    """What is known of a number in a program.

    Attributes:
        depends: whether it may depend on the position.
        is_positive: whether it is known to be never below 0.
        is_beyond: whether it may be a constant beyond any log density, or be so by the data.
        ends: whether it may be beyond any log density, or NaN, at some positions.
        says_finite: whether it is a condition that holds wherever numbers are finite that have no
            end.
    """

    depends: bool
    is_positive: bool = False
    is_beyond: bool = False
    ends: bool = False
    says_finite: bool = False


def can_end(posterior: Posterior, position: Position, data: Data) -> tuple[bool, bool]:
    """Return whether log_prior, and whether log_likelihood, can be −inf by their structure."""
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

    def rule(equation: jaxprs.Equation, values: list[Sign]) -> list[Sign]:
        name, depends = equation.primitive.name, any(x.depends for x in values)
        is_beyond, ends = any(x.is_beyond for x in values), any(x.ends for x in values)
        says_finite = False
        if name == "select_n" and (values[0].says_finite or not values[0].depends):
            chosen = values[2:] if values[0].says_finite else values[1:]
            is_beyond, ends = any(x.is_beyond for x in chosen), any(x.ends for x in chosen)
        elif name in COMPARISONS:
            says_finite = not ends and _says_finite(equation, values)
            is_beyond = ends = False
        elif name in ("max", "min"):
            # An infinity is the neutral element of a maximum or a minimum.
            is_beyond = all(x.is_beyond for x in values)
        elif name not in jaxprs.SUMS.split():
            is_beyond, ends = is_beyond and not depends, ends or (is_beyond and depends)
        exponent = _whole_exponent(equation)
        if exponent is None and depends and name in NEEDS_POSITIVE:
            ends |= not values[0].is_positive
        for inner in () if name == SOLVER else jaxprs.programs_in(equation):
            num_inputs = len(getattr(inner, "jaxpr", inner).invars)
            inputs = values if len(values) == num_inputs else [Sign(depends)] * num_inputs
            results = jaxprs.interpret(inner, inputs, rule, _sign, ENTERED)
            ends |= any(x.ends or (x.is_beyond and depends) for x in results)
        is_positive = (
            name in ALWAYS_POSITIVE
            or (exponent is not None and exponent % 2 == 0)
            or (name in ("pow", "integer_pow") and values[0].is_positive)
            or (name == "mul" and equation.invars[0] is equation.invars[1])
            or (name in KEEPS_POSITIVE.split() and all(x.is_positive for x in values))
        )
        return [Sign(depends, is_positive, is_beyond, ends, says_finite)] * len(equation.outvars)

    inputs = [Sign(i < count) for i in range(len(program.jaxpr.invars))]
    return any(x.ends for x in jaxprs.interpret(program, inputs, rule, _sign, ENTERED))


def _whole_exponent(equation: jaxprs.Equation) -> int | None:
    """Return the exponent of a power by a whole number, which has a value everywhere; None for
    another equation.
    """
    if equation.primitive.name == "integer_pow":
        return equation.params["y"]
    exponent = equation.invars[-1] if equation.primitive.name == "pow" else None
    if exponent is None or not jaxprs.is_literal(exponent) or np.ndim(exponent.val):
        return None
    return int(exponent.val) if float(exponent.val).is_integer() else None


def _says_finite(equation: jaxprs.Equation, values: list[Sign]) -> bool:
    """Return whether a condition holds wherever its numbers are finite."""
    name, (first, *others) = equation.primitive.name, equation.invars
    return (
        name == "is_finite"
        or (name == "eq" and others[0] is first)
        or (name == "ne" and any(x.is_beyond for x in values))
        or (name == "and" and all(x.says_finite for x in values))
    )


def _sign(constant: Any) -> Sign:
    """Return what is known of a constant: nothing if it is traced, or a key."""
    dtype = jnp.result_type(constant)
    if checks.is_traced(constant) or jnp.issubdtype(dtype, jax.dtypes.extended):
        return Sign(False)
    numbers = np.asarray(constant)
    is_beyond = jnp.issubdtype(dtype, jnp.floating) and not np.all(
        np.abs(numbers.astype(float)) < ZERO_DENSITY_GAP
    )
    return Sign(False, bool(np.all(numbers >= 0)), bool(is_beyond))
