"""The bias of each integrator on N(0, I), in coordinates of its mass, over a grid of step sizes and
frictions.
"""

import functools
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.forecast.dynamics_step import AffineStep, stationary_each, steps_of
from ewsg_jax.answers.forecast.stationary import counted_time
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidates import PLANNED_DYNAMICS, UNBIASED_DYNAMICS, Candidate


class SchemeForecast(NamedTuple):
    """The stationary distribution of an integrator at one step size and friction, without minibatch
    noise, on N(0, 1).

    Attributes:
        step_size: h.
        friction: γ; 0 if the dynamics has none.
        matrix: A of the step z' = A z + noise, with z = (position, momentum), shape (m, m).
        covariance: the covariance of z, shape (m, m).
        noise_response: what a gradient's variance of 1 adds to the variance of the position.
        evaluation_variance: the variance of the position at which the gradient is evaluated. The
            mean of the gradient is 0 there, so third derivatives shift the mean of the position by
            the error of this variance.
        time: autocorrelation time in steps, of the position or of its square, whichever is longer,
            counted as an effective sample size counts it.
    """

    step_size: float
    friction: float
    matrix: np.ndarray
    covariance: np.ndarray
    noise_response: float
    evaluation_variance: float
    time: float

    @property
    def variance(self) -> float:
        """The variance of the position; the target's is 1."""
        return float(self.covariance[0, 0])

    @property
    def sd_error(self) -> float:
        """The relative error of the position's standard deviation."""
        return abs(self.variance**0.5 - 1)

    def squared_distance(self, cross_covariance: np.ndarray) -> float:
        """Return E(θ − ω)² for an earlier position ω.

        Args:
            cross_covariance: the covariance of z now and then, shape (m, m).
        """
        return 2 * (self.variance - float(cross_covariance[0, 0]))


def scheme_forecasts(dynamics: str, largest_curvature: float) -> list[SchemeForecast]:
    """Return forecasts of a dynamics at all step sizes and frictions of the grid that are stable.

    Args:
        dynamics: its name.
        largest_curvature: the largest curvature that chains meet, over the posterior's own.
    """
    # Together those that are compared together: one program each costs more to compile.
    groups = UNBIASED_DYNAMICS, PLANNED_DYNAMICS
    names = next((group for group in groups if dynamics in group), (dynamics,))
    steps = _grid_steps(names)[dynamics]
    forecasts = [
        _forecast(step, step_size, friction, largest_curvature)
        for step, (step_size, friction) in zip(steps, _grid(dynamics), strict=True)
    ]
    return [forecast for forecast in forecasts if forecast is not None]


def _grid(dynamics: str) -> list[tuple[float, float]]:
    """Return the step sizes and frictions of the grid."""
    frictions = settings.FRICTION_GRID if _with_all_rows(dynamics).has_friction else (0.0,)
    return [(float(h), friction) for friction in frictions for h in settings.STEP_GRID]


@functools.cache
def _grid_steps(names: tuple[str, ...]) -> dict[str, list[AffineStep]]:
    """Return the linear steps of some dynamics over the grid: worked out once, by one program, as
    they depend on no posterior.
    """
    return steps_of(
        {
            name: [_with_all_rows(name).make_dynamics(*pair) for pair in _grid(name)]
            for name in names
        }
    )


def _with_all_rows(dynamics: str) -> Candidate:
    return Candidate(dynamics, "full", "all")


def _forecast(
    step: AffineStep, step_size: float, friction: float, largest_curvature: float
) -> SchemeForecast | None:
    """Return the forecast of a step, None if it is not stable at the largest curvature."""
    # Three directions: N(0, 1), the same with gradient noise of variance 1, and the stiffest one.
    stiffest = max(1.0, largest_curvature) / settings.STABLE_STEP_SHARE**2
    stationary = stationary_each(step, np.array([1.0, 1.0, stiffest]), np.array([0.0, 1.0, 0.0]))
    if not np.isfinite(stationary.variance).all():
        return None
    counted = counted_time(stationary.matrix[0], stationary.covariance[0])
    evaluated = step.wanted @ stationary.covariance[0] @ step.wanted.T
    return SchemeForecast(
        step_size=step_size,
        friction=friction,
        matrix=stationary.matrix[0],
        covariance=stationary.covariance[0],
        noise_response=float(stationary.variance[1] - stationary.variance[0]),
        evaluation_variance=float(evaluated[0, 0]),
        time=max(counted, float(stationary.square_time[0]), 1.0),
    )
