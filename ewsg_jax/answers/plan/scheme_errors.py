"""The law of each dynamics on N(0, I), in coordinates of its mass, over a grid of steps and
frictions.
"""

import functools
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.forecast.stationary import counted_time
from ewsg_jax.answers.forecast.step import AffineStep, stationary_each, steps_of
from ewsg_jax.answers.plan.candidates import DYNAMICS, Way

STEPS = 2.0 ** np.arange(0.5, -10.25, -0.5)
FRICTIONS = (0.7, 1.0, 1.5, 2.0)
"""In the units of a posterior of width 1; two is critical damping."""
STABLE = 0.7
"""Of the largest stable step, the largest that is taken; of Langevin dynamics its square."""


class Law(NamedTuple):
    """Of one step size and friction.

    Attributes:
        step_size: h.
        friction: γ; 0 where there is none.
        matrix: A of z' = A z + noise, z = (position, momentum), shape (m, m).
        covariance: of z without noise of batches, shape (m, m).
        slope: what variance of the position a gradient's variance of 1 adds.
        seen: the variance of where the gradient is wanted, without noise of batches. Its mean
            vanishes there, so that the mean of the position is moved as third derivatives make of
            what it is off 1.
        time: steps over which the position or its square forgets, as an effective sample size
            counts them, whichever is longer.
    """

    step_size: float
    friction: float
    matrix: np.ndarray
    covariance: np.ndarray
    slope: float
    seen: float
    time: float

    @property
    def variance(self) -> float:
        """Of the position, without noise of batches; the target's is 1."""
        return float(self.covariance[0, 0])

    @property
    def error(self) -> float:
        """How far off the standard deviation is, relatively, without noise of batches."""
        return abs(self.variance**0.5 - 1)

    def apart(self, across: np.ndarray) -> float:
        """Return E(θ − ω)² of an older position ω, of a covariance with z of now."""
        return 2 * (self.variance - float(across[0, 0]))


def laws(dynamics: str, steepest: float) -> list[Law]:
    """Return the laws of a dynamics whose steps are stable where the curvature is the steepest that
    is met.

    Args:
        dynamics: by name.
        steepest: that curvature, over the posterior's own.
    """
    steps = _steps(DYNAMICS if dynamics in DYNAMICS else (dynamics,))[dynamics]
    found = [
        _law(step, *each, steepest) for step, each in zip(steps, _numbers(dynamics), strict=True)
    ]
    return [law for law in found if law is not None]


def _numbers(dynamics: str) -> list[tuple[float, float]]:
    """Return the steps and frictions of the grid."""
    frictions = FRICTIONS if _way(dynamics).has_friction else (0.0,)
    return [(float(h), friction) for friction in frictions for h in STEPS]


@functools.cache
def _steps(names: tuple[str, ...]) -> dict[str, list[AffineStep]]:
    """Return the steps of dynamics over the grid, which no posterior changes: once, by
    one program.
    """
    return steps_of(
        {name: [_way(name).dynamics_of(*each) for each in _numbers(name)] for name in names}
    )


def _way(dynamics: str) -> Way:
    return Way(dynamics, "full", "all")


def _law(step: AffineStep, step_size: float, friction: float, steepest: float) -> Law | None:
    """Return the law, None where chains leave."""
    wall = max(1.0, steepest) / STABLE**2
    each = stationary_each(step, np.array([1.0, 1.0, wall]), np.array([0.0, 1.0, 0.0]))
    if not np.isfinite(each.variance).all():
        return None
    counted = counted_time(each.matrix[0], each.covariance[0])
    time = max(counted, float(each.square_time[0]), 1.0)
    slope = float(each.variance[1] - each.variance[0])
    seen = float((step.wanted @ each.covariance[0] @ step.wanted.T)[0, 0])
    return Law(step_size, friction, each.matrix[0], each.covariance[0], slope, seen, time)
