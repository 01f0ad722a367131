"""Newton's method, damped: downhill from a point to a mode, and why there may be none."""

import enum
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.mode.curvature import Curvature, Shape, Step
from ewsg_jax.answers.mode.hessian_products import Probes
from ewsg_jax.answers.mode.potential import Point, Potential

MOST_TRIALS = 40
"""Lengths that are tried of one step."""
SUFFICIENT = 1e-4
"""Part of the fall that the slope predicts with which a step is content."""
STEADY = 0.3
"""Part of the slope left after a whole step where a longer one is tried: exp(−w) 0.37, w⁴ 0.30."""
PROBED = {True: 1e-4, False: 0.1}
"""Sds over which slopes are not lost in rounding, where they are float64 or are not."""
PROBED_BY_DIFFERENCES = 0.3
"""The same on both sides, where curvature is a difference of slopes over a shorter way."""
WEAK, LITTLE = (1e-4, 1e-2), 1e-3
"""Sds in the weakest direction, and the part of a position, over one of which a mode is a
parabola.
"""
QUADRATIC = 0.2
"""Part by which the change of a slope may differ from the one that the curvature predicts."""
WALL = 1e6
"""By how much a potential that should fall rises beyond a wall, at least."""
KINK = 10.0
"""Times what slope and curvature predict, by which a slope turns at a kink, or a value rises."""
MOST_ILLUSIONS = 10
"""Points that look like a mode and are none, after which there is thought to be none."""

AnyCurvature = Curvature | Probes
"""As a matrix, or by products with vectors."""


class End(enum.Enum):
    """Why a search ended."""

    CONVERGED = enum.auto()
    OUT_OF_STEPS = enum.auto()
    ROUNDING = enum.auto()
    FALLS = enum.auto()
    NO_MINIMUM = enum.auto()
    RIDGE = enum.auto()
    NOT_A_BOWL = enum.auto()
    WALL = enum.auto()
    KINK = enum.auto()


class Descent(NamedTuple):
    """Where a search ended.

    Attributes:
        point: where.
        step: the step of Newton's method from there.
        curvature: there.
        num_steps: steps made.
        end: why.
        beyond: a point downhill from there that is beyond a wall, None where there is none.
    """

    point: Point
    step: Step
    curvature: AnyCurvature
    num_steps: int
    end: End
    beyond: np.ndarray | None = None


def descend(
    potential: Potential,
    curvature_at: Callable[[Point], AnyCurvature],
    start: Point,
    tolerance: float,
    max_steps: int,
    progress: Callable[[], None],
) -> Descent:
    """Take steps of Newton's method until the mode is nearer than the tolerance, in sds.

    A point is near a mode only where the potential is a parabola on the way there: its slope
    changes as the curvature predicts. A potential that falls for ever, such as exp(−w), seems to
    come ever nearer to a mode too.
    """

    def seen(point: Point) -> tuple[Point, AnyCurvature, Step]:
        curvature = curvature_at(point)
        return point, curvature, curvature.step(point.gradient, tolerance)

    point, curvature, step = seen(start)
    num_steps, illusions, beyond, no_mode = 0, 0, None, End.NO_MINIMUM
    while True:
        # Near enough by the curvature here; whether that is a parabola's is looked at from beside.
        if step.shape is Shape.BOWL and step.distance <= tolerance:
            is_parabola = _is_parabola(potential, point, curvature, step)
            if is_parabola and not _is_ridge(potential, point, curvature):
                end = End.CONVERGED
                break
            illusions, no_mode = illusions + 1, End.RIDGE if is_parabola else End.NO_MINIMUM
            if illusions > MOST_ILLUSIONS:
                end = no_mode
                break
        # No slope and no curvature: nothing says where to go.
        if step.shape is Shape.FLAT and step.is_still:
            end = End.NOT_A_BOWL
            break
        if num_steps >= max_steps:
            end = End.OUT_OF_STEPS
            break
        found = _along(potential, point, step, step.is_still)
        if isinstance(found, End):
            end = found
            if found is End.ROUNDING:
                # As near as rounding allows to what is no parabola.
                end = no_mode if step.distance <= tolerance else found
                end = end if step.shape is Shape.BOWL else End.NOT_A_BOWL
                obstacle, beyond = _obstacle(potential, point, curvature, step)
                end = obstacle or end
            break
        before, (point, curvature, step) = (point, curvature, step), seen(found)
        num_steps += 1
        progress()
        if step.distance > tolerance and _is_stuck(potential, before, point, step):
            if before[2].distance <= step.distance:
                point, curvature, step = before
            obstacle, beyond = _obstacle(potential, point, curvature, step)
            end = obstacle or End.ROUNDING
            break
    return Descent(point, step, curvature, num_steps, end, beyond)


def _along(potential: Potential, point: Point, step: Step, eager: bool) -> Point | End:
    """Return a lower point along a step, or why there is none.

    Eagerly, a bowl that has turned out to be no parabola is left with long steps.
    """
    slope = float(point.gradient @ step.direction)
    length, best = 1.0, None
    for number in range(MOST_TRIALS):
        flat = potential.of.layout.rounded(point.flat + length * step.direction)
        if not np.all(np.isfinite(flat)):
            if best is not None:
                return End.FALLS
            length /= 10
            continue
        if np.array_equal(flat, point.flat):
            return End.ROUNDING
        # A whole step is right most often.
        trial = potential.at(flat, is_trial=number > 0)
        if trial.value == -np.inf:
            return End.FALLS
        foretold = SUFFICIENT * float(point.gradient @ (flat - point.flat))
        falls = trial.is_finite() and trial.value <= point.value + foretold + potential.noise(
            point.value
        )
        if best is not None:
            if not (falls and trial.value < best.value):
                return best
            best = trial
        elif falls:
            best = trial
        else:
            length *= _shorter(slope * length, trial.value - point.value)
            continue
        # Where nothing holds the fall up, go on, faster and faster.
        if step.shape is Shape.BOWL and not eager:
            return best
        if trial.gradient @ step.direction >= STEADY * min(slope, 0.0):
            return best
        length = max(4.0, length**2)
    return End.ROUNDING if best is None else End.FALLS


def _obstacle(
    potential: Potential, point: Point, curvature: AnyCurvature, step: Step
) -> tuple[End | None, np.ndarray | None]:
    """Return what lies downhill of a point from which no step leads down: a wall, with a place
    beyond it, or a kink, where slopes turn a small part of a step away; None where neither is seen.
    """
    way, longest = step.direction, 0
    if step.shape is not Shape.BOWL:
        # Such a step may be of any length, and what is farther off is not foretold.
        way = way / max(np.max(np.abs(way) / np.maximum(np.abs(point.flat), 1.0)), 1e-300)
        longest = -6
    for exponent in range(-18, longest + 1, 3):
        flat = potential.of.layout.rounded(point.flat + 10.0**exponent * way)
        if np.array_equal(flat, point.flat):
            continue
        there = potential.at(flat)
        if there.value == np.inf or np.isnan(there.value) or there.value > point.value + WALL:
            return End.WALL, there.flat
        moved = there.flat - point.flat
        before, after = float(moved @ point.gradient), float(moved @ there.gradient)
        foretold = abs(curvature.squared_length(moved))
        turns = before <= 0 < after and after - before > KINK * foretold
        jumps = there.value - point.value > KINK * (
            abs(before) + foretold + potential.noise(point.value)
        )
        if exponent < 0 and (turns or jumps):
            return End.KINK, None
    return None, None


def _shorter(foretold: float, change: float) -> float:
    """Return the factor to shorten a step by: to its parabola's lowest point, if near that."""
    if not np.isfinite(change):
        return 0.1
    return float(np.clip(-foretold / (2 * max(change - foretold, 1e-300)), 0.1, 0.5))


def _is_parabola(potential: Potential, point: Point, curvature: AnyCurvature, step: Step) -> bool:
    """Return whether the slope changes over the way to the mode as the curvature predicts.

    Where that way is lost in rounding, over a longer one.
    """
    size = step.distance
    if not potential.twice:
        way = step.direction / size if size > 0 else curvature.weak()
        ends = (potential.at(point.flat + sign * PROBED_BY_DIFFERENCES * way) for sign in (1, -1))
        return _is_predicted(curvature, *ends)
    least = PROBED[potential.of.wide]
    longer = step.direction * (least / size) if size > 0 else least * curvature.weak()
    ways = [step.direction] * (size > 0) + [longer] * (size < least)
    # Not rounded to the position's dtypes where the model takes float64.
    return any(_is_predicted(curvature, potential.at(point.flat + way), point) for way in ways)


def _is_predicted(curvature: AnyCurvature, there: Point, back: Point) -> bool:
    """Return whether the slope changes between two points as the curvature predicts."""
    moved = there.flat - back.flat
    foretold = curvature.squared_length(moved)
    with np.errstate(over="ignore", invalid="ignore"):
        change = float(moved @ (there.gradient - back.gradient))
    return foretold > 0 and abs(change - foretold) <= QUADRATIC * foretold


def _is_ridge(potential: Potential, point: Point, curvature: AnyCurvature) -> bool:
    """Return whether the potential bends at once along its weakest direction, which is then as
    good as level: on a ridge that bends the curvature there is what rounding left of a slope.
    """
    if not (potential.of.wide and potential.twice and isinstance(curvature, Curvature)):
        return False
    way = curvature.weak()
    # Where an sd is large beside the position, no farther than the position is known to hold.
    lengths = [*WEAK, LITTLE * float(np.abs(point.flat).max() / np.abs(way).max())]
    return not any(
        _is_predicted(curvature, potential.at(point.flat + length * way), point)
        for length in lengths
        if 0 < length <= WEAK[-1]
    )


def _is_stuck(
    potential: Potential, before: tuple[Point, AnyCurvature, Step], point: Point, following: Step
) -> bool:
    """Return whether a step came no nearer to the mode because positions or sums are rounded."""
    start, curvature, step = before
    if (
        not (step.shape is following.shape is Shape.BOWL)
        or following.distance < 0.5 * step.distance
    ):
        return False
    if start.value - point.value <= potential.noise(point.value):
        return True
    target = start.flat + step.direction
    rounding = curvature.squared_length(potential.of.layout.rounded(target) - target)
    return 0.5 * step.distance <= rounding**0.5
