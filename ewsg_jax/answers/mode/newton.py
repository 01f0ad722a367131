"""Newton's method, damped: downhill from a point to a mode, or to the reason why there is none."""

import enum
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.mode import settings
from ewsg_jax.answers.mode.curvature import Curvature, Shape, Step
from ewsg_jax.answers.mode.hessian_products import HessianProducts
from ewsg_jax.answers.mode.potential import HostPotential, Point
from ewsg_jax.model_checks.support_structure import ZERO_DENSITY_GAP

AnyCurvature = Curvature | HessianProducts
"""A curvature as a matrix, or by products with vectors."""


class End(enum.Enum):
    """Why a search ended."""

    CONVERGED = enum.auto()
    OUT_OF_STEPS = enum.auto()
    ROUNDING = enum.auto()
    FALLS = enum.auto()
    NO_MINIMUM = enum.auto()
    RIDGE = enum.auto()
    NOT_CONVEX = enum.auto()
    SUPPORT_EDGE = enum.auto()
    KINK = enum.auto()


class Descent(NamedTuple):
    """The end of a search.

    Attributes:
        point: the last point.
        step: the step of Newton's method from that point.
        curvature: the curvature at that point.
        num_steps: the number of steps made.
        end: why the search ended.
        beyond: a point downhill of the last one, beyond the edge of the support; None if there is
            none.
    """

    point: Point
    step: Step
    curvature: AnyCurvature
    num_steps: int
    end: End
    beyond: np.ndarray | None = None


def descend(
    potential: HostPotential,
    curvature_at: Callable[[Point], AnyCurvature],
    start: Point,
    tolerance: float,
    max_steps: int,
    progress: Callable[[], None],
) -> Descent:
    """Take steps of Newton's method until the mode is nearer than the tolerance.

    A point counts as near a mode only if the potential is a parabola on the way to it: its gradient
    changes as the curvature predicts. A potential that falls for ever, such as exp(−w), seems to
    come ever nearer to a mode too.

    Args:
        potential: the potential.
        curvature_at: returns the curvature at a point.
        start: the first point.
        tolerance: posterior standard deviations from the mode at which the search ends.
        max_steps: the largest number of steps.
        progress: called after each step.
    """

    def with_step(point: Point) -> tuple[Point, AnyCurvature, Step]:
        curvature = curvature_at(point)
        return point, curvature, curvature.step(point.gradient, tolerance)

    point, curvature, step = with_step(start)
    num_steps, beyond = 0, None
    # How many points were near a mode by their curvature alone, and what the last was instead.
    false_modes, no_mode = 0, End.NO_MINIMUM
    while True:
        # Near enough by the curvature here, if the potential is a parabola.
        if step.shape is Shape.CONVEX and step.distance <= tolerance:
            is_parabola = _is_parabola(potential, point, curvature, step)
            if is_parabola and not _is_ridge(potential, point, curvature):
                end = End.CONVERGED
                break
            false_modes, no_mode = false_modes + 1, End.RIDGE if is_parabola else End.NO_MINIMUM
            # By hand.
            if false_modes > 10:
                end = no_mode
                break
        # Without a gradient and a curvature no direction leads down.
        if step.shape is Shape.FLAT and step.is_still:
            end = End.NOT_CONVEX
            break
        if num_steps >= max_steps:
            end = End.OUT_OF_STEPS
            break
        lower = _along(potential, point, step, step.is_still)
        if isinstance(lower, End):
            end = lower
            # No step leads down: an edge or a kink is in the way, or rounding.
            if lower is End.ROUNDING:
                obstacle, beyond = _obstacle(potential, point, curvature, step)
                if obstacle is not None:
                    end = obstacle
                elif step.shape is not Shape.CONVEX:
                    end = End.NOT_CONVEX
                elif step.distance <= tolerance:
                    # As near as rounding allows to a point around which there is no parabola.
                    end = no_mode
            break
        before, (point, curvature, step) = (point, curvature, step), with_step(lower)
        num_steps += 1
        progress()
        # If rounding keeps the search from coming nearer, the nearer of the last two points counts.
        if step.distance > tolerance and _is_stuck(potential, before, point, step):
            if before[2].distance <= step.distance:
                point, curvature, step = before
            obstacle, beyond = _obstacle(potential, point, curvature, step)
            end = obstacle or End.ROUNDING
            break
    return Descent(point, step, curvature, num_steps, end, beyond)


def _along(potential: HostPotential, point: Point, step: Step, eager: bool) -> Point | End:
    """Return a lower point along a step, or why there is none.

    Args:
        potential: the potential.
        point: the point.
        step: the step.
        eager: take long steps, to leave a convex region that has turned out to be no parabola.
    """
    along = float(point.gradient @ step.direction)
    length, best = 1.0, None
    for number in range(settings.MAX_STEP_LENGTHS):
        flat = potential.of.layout.rounded(point.flat + length * step.direction)
        if not np.all(np.isfinite(flat)):
            if best is not None:
                return End.FALLS
            length /= 10
            continue
        if np.array_equal(flat, point.flat):
            return End.ROUNDING
        # The full step is accepted most often.
        candidate = potential.at(flat, may_be_rejected=number > 0)
        if candidate.value == -np.inf:
            return End.FALLS
        # Armijo's rule, at its usual value.
        decrease = 1e-4 * float(point.gradient @ (flat - point.flat))
        highest = point.value + decrease + potential.noise(point.value)
        falls = candidate.is_finite() and candidate.value <= highest
        if best is not None:
            if not (falls and candidate.value < best.value):
                return best
            best = candidate
        elif falls:
            best = candidate
        else:
            length *= _shorter(along * length, candidate.value - point.value)
            continue
        # If nothing slows the decrease, go on with longer and longer steps.
        if step.shape is Shape.CONVEX and not eager:
            return best
        if candidate.gradient @ step.direction >= settings.STEADY_GRADIENT * min(along, 0.0):
            return best
        length = max(4.0, length**2)
    return End.ROUNDING if best is None else End.FALLS


def _obstacle(
    potential: HostPotential, point: Point, curvature: AnyCurvature, step: Step
) -> tuple[End | None, np.ndarray | None]:
    """Return what lies downhill of a point from which no step leads down.

    It is the edge of the support, with a point beyond it, or a kink, at which the gradient changes
    its sign within a small part of a step; None if it is neither.
    """
    direction, longest = step.direction, 0
    if step.shape is not Shape.CONVEX:
        # Such a step may have any length: it is scaled to the size of the position.
        size = np.max(np.abs(direction) / np.maximum(np.abs(point.flat), 1.0))
        direction = direction / max(size, 1e-300)
        longest = -6
    for exponent in range(-18, longest + 1, 3):
        flat = potential.of.layout.rounded(point.flat + 10.0**exponent * direction)
        if np.array_equal(flat, point.flat):
            continue
        there = potential.at(flat)
        if (
            there.value == np.inf
            or np.isnan(there.value)
            or there.value > point.value + ZERO_DENSITY_GAP
        ):
            return End.SUPPORT_EDGE, there.flat
        moved = there.flat - point.flat
        first, last = float(moved @ point.gradient), float(moved @ there.gradient)
        predicted = abs(curvature.squared_length(moved))
        turns = first <= 0 < last and last - first > settings.KINK_FACTOR * predicted
        expected_rise = abs(first) + predicted + potential.noise(point.value)
        jumps = there.value - point.value > settings.KINK_FACTOR * expected_rise
        if exponent < 0 and (turns or jumps):
            return End.KINK, None
    return None, None


def _shorter(predicted: float, change: float) -> float:
    """Return the factor by which to shorten a step: to the minimum of its parabola, within bounds.

    Args:
        predicted: the change of the potential over the step by its gradient.
        change: the change itself.
    """
    if not np.isfinite(change):
        return 0.1
    return float(np.clip(-predicted / (2 * max(change - predicted, 1e-300)), 0.1, 0.5))


def _is_parabola(
    potential: HostPotential, point: Point, curvature: AnyCurvature, step: Step
) -> bool:
    """Return whether the gradient changes over the step to the mode as the curvature predicts.

    If that step is lost in rounding, a longer one is taken.
    """
    size = step.distance
    if not potential.twice:
        unit = step.direction / size if size > 0 else curvature.weak()
        # On both sides of the mode, in sds, if curvature is a difference of gradients.
        shift = 0.3 * unit
        ends = (potential.at(point.flat + sign * shift) for sign in (1, -1))
        return _is_predicted(curvature, *ends)
    least = settings.GRADIENT_CHECK_DISTANCE[potential.of.wide]
    longer = step.direction * (least / size) if size > 0 else least * curvature.weak()
    shifts = []
    if size > 0:
        shifts.append(step.direction)
    if size < least:
        shifts.append(longer)
    # Not rounded to the position's dtypes if the model takes float64.
    return any(_is_predicted(curvature, potential.at(point.flat + x), point) for x in shifts)


def _is_predicted(curvature: AnyCurvature, there: Point, back: Point) -> bool:
    """Return whether the gradient changes between two points as the curvature predicts."""
    moved = there.flat - back.flat
    predicted = curvature.squared_length(moved)
    with np.errstate(over="ignore", invalid="ignore"):
        change = float(moved @ (there.gradient - back.gradient))
    # By hand; tests.
    return predicted > 0 and abs(change - predicted) <= 0.2 * predicted


def _is_ridge(potential: HostPotential, point: Point, curvature: AnyCurvature) -> bool:
    """Return whether the potential is no parabola along its direction of least curvature.

    It is then as good as level there: on a curved ridge such a curvature is what rounding left of
    the gradient.
    """
    if not (potential.of.wide and potential.twice and isinstance(curvature, Curvature)):
        return False
    weak, distances = curvature.weak(), settings.RIDGE_DISTANCES
    # An sd may be larger than the position: then also over a thousandth of its largest coordinate.
    share = 1e-3 * float(np.abs(point.flat).max() / np.abs(weak).max())
    return not any(
        _is_predicted(curvature, potential.at(point.flat + length * weak), point)
        for length in (*distances, share)
        if 0 < length <= distances[-1]
    )


def _is_stuck(
    potential: HostPotential,
    before: tuple[Point, AnyCurvature, Step],
    point: Point,
    following: Step,
) -> bool:
    """Return whether a step came no nearer to the mode because positions or sums are rounded."""
    start, curvature, step = before
    if (
        not (step.shape is following.shape is Shape.CONVEX)
        or following.distance < 0.5 * step.distance
    ):
        return False
    if start.value - point.value <= potential.noise(point.value):
        return True
    target = start.flat + step.direction
    rounding = curvature.squared_length(potential.of.layout.rounded(target) - target)
    return 0.5 * step.distance <= rounding**0.5
