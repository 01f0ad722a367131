"""Why chains diverged: a schedule, a gradient that is not finite, or steps that are too large.

It is asked once, of the first chain that diverged, when a run has ended.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.compiling import in_float64
from ewsg_jax.base.needs import parts_of
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.dynamics._protocol import Schedule
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.precision import cure_of_rounding, widened
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.posterior.random import known
from ewsg_jax.rows._view import num_rows, view
from ewsg_jax.vectors.row_subsets import evenly, take_rows

SMALLER_STEP = "a smaller step_size may help, or columns of one scale (standardise them)"
"""What helps if no cause is found."""
FAR_LENGTHS = 1e3
"""Times its start's length (plus 1), or the distance of all other chains: a chain that far went
there by steps that were too large. The density of a flat tail hardly falls."""
UNBOUNDED_FALL = 1e3
"""Fall of a potential from its start, in units of its size there (plus 1), that is called one
without bound; set by hand."""
RISE, RISE_PER_DIMENSION = 200.0, 10.0
"""Rise of the potential, in temperatures and in temperatures for each dimension, that no chain
makes whose steps are stable: noise lifts one by half a temperature for each dimension, and a draw
of a Cauchy distribution would have to be e¹⁰⁰ times as far as others."""


def causes(
    kernel: Kernel,
    data: Data,
    start: Position,
    end: Position,
    last: Position | None,
    *,
    step: int,
    at_start: bool,
    at_once: bool,
) -> list[Finding]:
    """Return why chains may have diverged, the most certain cause first.

    Args:
        kernel: the kernel of one chain; of a stack only schedules are asked.
        data: all rows.
        start: the first position of the first chain, on the host.
        end: the last finite position of the chain that diverged first, on the host.
        last: the last finite position of the first chain if all chains diverged, else None.
        step: the number of the step that diverged first.
        at_start: whether it was that chain's first step.
        at_once: whether all chains diverged soon after they started.
    """
    text = _of_schedules(kernel, step)
    if not text:
        text = _of_gradients(kernel, start, end, data, at_start)
        # All of them at once have one cause: what overflows where steps led is none.
        first, latest = _potentials(kernel, start, end, data) if at_once else (0.0, 0.0)
        if latest - first > RISE + RISE_PER_DIMENSION * pytrees.size(start):
            too_large = (
                "the steps are too large: all chains left their starts at once, and the potential "
                f"rose from {first:.4g} to {latest:.4g}; take a tenth of step_size, or what "
                "ewsg_jax.plan chooses"
            )
            text = f"{too_large}; there {text}" if text else too_large
    findings = [Finding("divergence", "error", text or SMALLER_STEP)]
    if last is not None:
        first, latest = _potentials(kernel, start, last, data)
        # If a potential is bounded below, a step that is too large leads upwards.
        if first - latest > UNBOUNDED_FALL * (1 + abs(first)):
            text = "the potential falls without bound along the chain"
            cure = "has the likelihood the right sign?"
            findings.append(Finding("divergence", "error", text, cure))
    return findings


def _of_schedules(kernel: Kernel, step: int) -> str:
    """Return which schedules are not positive and finite at `step`, as a string; or empty."""
    values = []
    # A schedule that becomes 0 or negative stops or reverses the dynamics, whatever the model.
    for part in parts_of(kernel):
        for field in dataclasses.fields(part):
            schedule = getattr(part, field.name)
            value = float(schedule(jnp.int32(step))) if isinstance(schedule, Schedule) else 1.0
            is_meant = value == 0 and schedule.may_be_zero
            if not 0 < value < np.inf and not is_meant:
                values.append(f"{field.name} was {value:g}")
    return f"there {', '.join(values)}, by its schedule" if values else ""


def _of_gradients(
    kernel: Kernel, start: Position, end: Position, data: Data, at_start: bool
) -> str:
    """Return whose gradient is not finite at a chain's end; empty if the step was the cause."""
    posterior = _posterior_of(kernel)
    # A chain that went far has a gradient of any size there, and a smaller step would not get
    # there.
    is_far = _length(end) > FAR_LENGTHS * (1 + _length(start))
    if not isinstance(posterior, Posterior) or (is_far and not at_start):
        return ""
    where = "at the start" if at_start else "at its last finite position"
    # Arrays of JAX, for those of NumPy warn of overflow.
    begin = None if at_start else jax.tree.map(jnp.asarray, start)
    try:
        return _of_posterior(posterior, end, view(data).tree, where, begin)
    except Exception:
        return ""  # What cannot be evaluated by itself is no cause that can be named.


def _posterior_of(kernel: Kernel) -> Posterior | None:
    posterior = getattr(getattr(kernel, "estimator", kernel), "posterior", None)
    return None if posterior is None else known(posterior)


def _of_posterior(
    posterior: Posterior, position: Position, data: Data, where: str, start: Position | None
) -> str:
    """Return whose gradient is not finite; `start` is the chain's first position, if another."""

    # The prior first: it is one function, and what is wrong there is wrong for all rows.
    def prior(p: Position) -> Array:
        return jnp.asarray(posterior.log_prior(p))

    value, gradient = jax.value_and_grad(prior)(position)
    if not pytrees.is_finite(gradient):
        return (
            f"the gradient is not finite {where}: that of log_prior is not (log_prior is "
            f"{float(value):g} there)"
            f"{_overshot(float(value), None if start is None else float(prior(start)))}"
        )

    def of_row(p: Position, row: Data) -> tuple[Array, PyTree]:
        return jax.value_and_grad(posterior.log_likelihood)(p, row)

    # With many parameters few rows: the search is not to take longer than the run.
    # Some seconds of derivatives.
    places = evenly(num_rows(data), max(1, 2**30 // pytrees.size(position)))
    rows_together = max(1, limits.NUMBERS_AT_ONCE // pytrees.size(position))

    @jax.jit
    def are_finite(position: Position, rows: Data) -> Array:
        return jax.lax.map(
            lambda row: pytrees.is_finite(of_row(position, row)[1]), rows, batch_size=rows_together
        )

    bad = places[~np.asarray(are_finite(position, take_rows(data, places)))]
    if not bad.size:
        return ""
    row = take_rows(data, bad[0])
    value = float(of_row(position, row)[0])
    text = (
        f"the gradient is not finite {where}: that of log_likelihood of row {bad[0]} is not "
        f"({len(bad)} such rows; log_likelihood is {value:g} there)"
    )
    # Masked rows are the usual cause: the value is masked, and its derivative is 0 times NaN.
    if not all(np.isfinite(np.asarray(x, float)).all() for x in jax.tree.leaves(row)):
        advice = "jnp.where does not mask a gradient: replace it inside of what is masked, too"
        return f"{text}; the row holds what is not finite, and {advice}"
    before = None if start is None else float(of_row(start, row)[0])
    # The same row in float64 tells a rounding from a mistake.
    if not jax.config.read("jax_enable_x64"):
        with in_float64():
            wide_value, wide = of_row(*jax.tree.map(widened, (position, row)))
            if pytrees.is_finite(wide):
                return text + (
                    _overshot(float(wide_value), before)
                    or "; in float64 it is finite: float32 overflows or loses a difference there; "
                    f"{cure_of_rounding(posterior, position, data)}"
                )
    return text + _overshot(value, before)


def _overshot(value: float, start: float | None) -> str:
    """Return that steps carried a chain away, if a log density fell enormously; or empty.

    Gradients lead upwards: only a step that is too large ends that far down, and what overflows
    there is not the cause.
    """
    if start is None or not math.isfinite(start):
        return ""
    if not start - value > UNBOUNDED_FALL * (1 + abs(start)):
        return ""
    return (
        f"; it was {start:.3g} at the start, so that steps were too large and carried the chain "
        f"there{f' (in float64 it is {value:.3g})' if math.isfinite(value) else ''}: a smaller "
        "step_size may help"
    )


def _length(position: Position) -> float:
    with np.errstate(over="ignore"):
        return math.sqrt(
            sum(np.sum(np.square(np.asarray(x, np.float64))) for x in jax.tree.leaves(position))
        )


def _potentials(kernel: Kernel, start: Position, end: Position, data: Data) -> tuple[float, float]:
    """Return the potential at a chain's start and at its last position; NaN if it is not known.

    At the end its terms may be too large for numbers: then it is evaluated on the way, at the
    farthest point where it is finite.
    """
    posterior = _posterior_of(kernel)
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
