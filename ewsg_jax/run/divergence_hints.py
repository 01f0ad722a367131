"""Why chains may have diverged: looked for once, when they have."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checked_arrays, checks, pytrees
from ewsg_jax.base.needs import parts_of
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.dynamics._protocol import Schedule
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks import degenerate
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import num_rows, view
from ewsg_jax.run.host import on_host
from ewsg_jax.run.stacks.kernels import Stack
from ewsg_jax.vectors.row_subsets import evenly, take_rows

FLOWN = 1e3
"""Times its start's length: a chain that far went there by steps that were too large."""
MOST_DERIVATIVES, MOST_AT_ONCE = 2**30, 2**22
"""Derivatives of rows that are evaluated, and at once."""
ENORMOUS = 1e3
"""Fall of the potential, in units of its start, that is said to be without bound."""
LIFTED, PER_DIMENSION = 100.0, 10.0
"""Rise of the potential that no chain makes whose steps are stable, and for each dimension."""


def of_schedules(kernel: Kernel, step: int) -> str:
    """Return which schedules are not positive and finite at `step`, as a string; or empty."""
    found = []
    # A schedule that becomes 0 or negative stops or reverses the dynamics, whatever the model.
    for part in parts_of(kernel):
        for field in dataclasses.fields(part):
            schedule = getattr(part, field.name)
            value = float(schedule(jnp.int32(step))) if isinstance(schedule, Schedule) else 1.0
            if not 0 < value < np.inf:
                found.append(f"{field.name} was {value:g}")
    return f"there {', '.join(found)}, by its schedule" if found else ""


def of_gradients(kernel: Kernel, start: Position, end: Position, data: Data, at_start: bool) -> str:
    """Return whose gradient is not finite where a chain ended; empty where the step was it.

    Args:
        kernel: of one chain, no stack.
        start: where a chain started.
        end: its last finite position.
        data: the rows.
        at_start: whether this is where it started.
    """
    posterior = getattr(getattr(kernel, "estimator", kernel), "posterior", None)
    # A chain that flew far has a gradient of any size there, and a smaller step would not get
    # there.
    flew = _length(end) > FLOWN * (1 + _length(start))
    if not isinstance(posterior, Posterior) or (flew and not at_start):
        return ""
    where = "at the start" if at_start else "at its last finite position"
    # Arrays of JAX, for those of NumPy warn of overflow.
    begin = None if at_start else jax.tree.map(jnp.asarray, on_host(start))
    try:
        return _of_posterior(posterior, on_host(end), view(data).tree, where, begin)
    except Exception:
        return ""  # What cannot be evaluated by itself is no cause that can be named.


def _of_posterior(
    posterior: Posterior, position: Position, data: Data, where: str, start: Position | None
) -> str:
    """Return whose gradient is not finite; `start` is where the chain started, if elsewhere."""

    # The prior first: it is one function, and what is wrong there is wrong for all rows.
    def prior(p: Position) -> Array:
        return jnp.asarray(posterior.log_prior(p))

    value, gradient = jax.value_and_grad(prior)(position)
    if not pytrees.is_finite(gradient):
        told = (
            f"the gradient is not finite {where}: that of log_prior is not, where log_prior is "
            f"{float(value):g}"
        )
        return told + _overshot(float(value), None if start is None else float(prior(start)))

    def of_row(p: Position, row: Data) -> tuple[Array, PyTree]:
        return jax.value_and_grad(posterior.log_likelihood)(p, row)

    # Of many parameters few rows: the search is not to take longer than the run.
    length = sum(x.size for x in jax.tree.leaves(position))
    places = evenly(num_rows(data), max(1, MOST_DERIVATIVES // length))
    at_once = max(1, MOST_AT_ONCE // length)

    @jax.jit
    def are_finite(position: Position, rows: Data) -> Array:
        return jax.lax.map(
            lambda row: pytrees.is_finite(of_row(position, row)[1]), rows, batch_size=at_once
        )

    bad = places[~np.asarray(are_finite(position, take_rows(data, places)))]
    if not bad.size:
        return ""
    row = take_rows(data, bad[0])
    value = float(of_row(position, row)[0])
    told = (
        f"the gradient is not finite {where}: that of log_likelihood of row {bad[0]} is not "
        f"({len(bad)} such rows), where log_likelihood is {value:g}"
    )
    # Masked rows are the usual cause: the value is masked, and its derivative is 0 times NaN.
    if not all(np.isfinite(np.asarray(x, float)).all() for x in jax.tree.leaves(row)):
        advice = "jnp.where does not mask a gradient: replace it inside of what is masked, too"
        return f"{told}; the row holds what is not finite, and {advice}"
    before = None if start is None else float(of_row(start, row)[0])
    # The same row in float64 tells a rounding from a mistake.
    if not jax.config.read("jax_enable_x64"):
        with jax.enable_x64(True):
            wide_value, wide = of_row(*jax.tree.map(_widened, (position, row)))
            if pytrees.is_finite(wide):
                return told + (
                    _overshot(float(wide_value), before)
                    or "; in float64 it is finite: float32 overflows or loses a difference there"
                )
    return told + _overshot(value, before)


def _overshot(value: float, start: float | None) -> str:
    """Return that steps carried a chain away, where a log density fell enormously; or empty.

    Gradients lead upwards: only a step that is too large ends that far down, and what overflows
    there is not the cause.
    """
    if start is None or not math.isfinite(start) or not start - value > ENORMOUS * (1 + abs(start)):
        return ""
    return (
        f"; it was {start:.3g} at the start, so that steps were too large and carried the chain "
        f"there{f' (in float64 it is {value:.3g})' if math.isfinite(value) else ''}: a smaller "
        "step_size may help"
    )


def _widened(x: Array | np.ndarray) -> np.ndarray:
    known = np.asarray(x)
    return known.astype(np.float64) if jnp.issubdtype(known.dtype, jnp.floating) else known


def _length(position: Position) -> float:
    with np.errstate(over="ignore"):
        return math.sqrt(
            sum(np.sum(np.square(np.asarray(x, np.float64))) for x in jax.tree.leaves(position))
        )


def falls(kernel: Kernel, start: Position, end: Position, data: Data) -> bool:
    """Return whether the potential falls enormously from a chain's start to its last position.

    A step that is too large for a potential that is bounded leads upwards.
    """
    first, last = _potentials(kernel, start, end, data)
    return first - last > ENORMOUS * (1 + abs(first))


def overshot(kernel: Kernel, start: Position, end: Position, data: Data) -> str:
    """Return that steps were too large, where the potential rises more than a chain would let it.

    Gradients lead downwards, and noise lifts a chain by half its dimension.
    """
    dimension = sum(np.size(x) for x in jax.tree.leaves(start))
    first, last = _potentials(kernel, start, end, data)
    if not last - first > LIFTED + PER_DIMENSION * dimension:
        return ""
    return (
        "the steps are too large: all chains left their starts at once, and the potential rose "
        f"from {first:.4g} to {last:.4g}; take a tenth of step_size, or what ewsg_jax.plan chooses"
    )


def _potentials(kernel: Kernel, start: Position, end: Position, data: Data) -> tuple[float, float]:
    """Return the potential at a chain's start and at its last position; NaN where none is known.

    There its terms may be too large for numbers: then it is evaluated on the way, at the farthest
    point where it is finite.
    """
    posterior = getattr(getattr(kernel, "estimator", kernel), "posterior", None)
    if posterior is None:
        return math.nan, math.nan

    @jax.jit
    def potential(share: Array, start: Position, end: Position, data: Data) -> Array:
        point = jax.tree.map(lambda a, b: (a + share * (b - a)).astype(a.dtype), start, end)
        return posterior.potential(point, data)

    # Backwards from the end, where it may overflow, until a value is finite.
    first = float(potential(jnp.float32(0), start, end, data))
    for exponent in range(0, 38, 2):
        value = float(potential(jnp.float32(10.0**-exponent), start, end, data))
        if math.isfinite(value):
            return first, value
    return first, math.nan


def warn_of_degenerate(kernel: Kernel, start: Position, data: Data) -> None:
    """Warn once per data of arrays that a likelihood reads and does not depend on, and of those
    that nothing reads.
    """
    rows, own = view(data).tree, kernel
    # All members have one model: the first one stands for them.
    if isinstance(kernel, Stack):
        own, start = kernel.kernel, jax.tree.map(lambda x: x[0], start)
        rows = jax.tree.map(lambda x: x[:, 0], rows) if kernel.of_data else rows
    if not isinstance(own, Pair):
        return  # Exact methods take no derivatives.
    posterior, shapes = own.estimator.posterior, checks.shapes(start)
    kinds = tuple((x.shape, x.dtype) for x in jax.tree.leaves(shapes))
    # Once for a model and shapes of positions: what is read does not depend on their values.
    question = "degenerate", posterior, jax.tree.structure(shapes), kinds

    def look() -> None:
        for asked in (degenerate.unread, degenerate.advice):
            try:
                said = asked(posterior, on_host(start), rows)
            except Exception:
                continue  # What cannot be taken apart is not looked at.
            if said is not None:
                warn(said)

    checked_arrays.remembered(question, look, data)
