"""A coordinate that moves by itself, in coordinates in which the mass is 1."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import Data
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics.mass import without_metric
from ewsg_jax.forecasting import law
from ewsg_jax.forecasting.step import AffineStep, maps, maps_of_each, state_at
from ewsg_jax.posterior import Posterior


class Each(NamedTuple):
    """The law of coordinates that move by themselves.

    Attributes:
        variance: of the position's coordinates, shape (d,); infinite where there is no law.
        time: over which they forget, in steps, shape (d,).
        square_time: over which their squares do.
        matrix: A of each, shape (d, m, m).
        covariance: of each z, shape (d, m, m).
    """

    variance: np.ndarray
    time: np.ndarray
    square_time: np.ndarray
    matrix: np.ndarray
    covariance: np.ndarray


def at_rest(dynamics: Dynamics, step: int) -> Any:
    """Return the state of one coordinate, without a mass."""
    return state_at(without_metric(dynamics)[0], jnp.zeros(1), step, None)


def step_of(dynamics: Dynamics, posterior: Posterior, step: int, data: Data) -> AffineStep:
    """Return the step of one coordinate, in the coordinates of the mass."""
    plain, _ = without_metric(dynamics)
    with jax.enable_x64(True):
        state = at_rest(plain, step)
        size = sum(name in state._fields for name in ("position", "momentum"))
        made, _ = maps(plain, posterior, state, (), np.zeros((1, size + 1)), data)
        return AffineStep(*(np.asarray(part, float)[0] for part in made))


def steps_of(dynamics: list[Dynamics], posterior: Posterior, data: Data) -> list[AffineStep]:
    """Return the steps of one coordinate by dynamics that differ in their numbers, which are no schedules."""
    with jax.enable_x64(True):
        state = at_rest(dynamics[0], 0)
        size = sum(name in state._fields for name in ("position", "momentum"))
        every = jax.tree.map(lambda *numbers: np.stack(numbers), *(one.hoisted() for one in dynamics))
        made = maps_of_each(every, posterior, state, np.zeros((1, size + 1)), data)
        parts = [np.asarray(part, float)[:, 0] for part in made]
    return [AffineStep(*each) for each in zip(*parts, strict=True)]


def stationary_each(step: AffineStep, curvature: np.ndarray, heat: np.ndarray) -> Each:
    """Return the law of coordinates of these curvatures, with gradients of these variances.

    Args:
        step: of one coordinate.
        curvature: shape (d,).
        heat: shape (d,).
    """
    matrix = step.matrix + curvature[:, None, None] * (step.gradient @ step.wanted)
    power, total = matrix, step.noise @ step.noise.T + heat[:, None, None] * (step.gradient @ step.gradient.T)
    with np.errstate(all="ignore"):
        for _ in range(law.MOST_DOUBLINGS):
            total = total + power @ total @ power.swapaxes(1, 2)
            power = power @ power
        is_law = np.isfinite(total).all((1, 2)) & (np.abs(power).max((1, 2)) < law.FORGOTTEN)
        tame = np.where(is_law[:, None, None], matrix, 0.0)
        time, square_time = _time(tame, total), _time(_pairs(tame), _pairs(total))

    def known(found: np.ndarray) -> np.ndarray:
        return np.where(is_law, found, np.inf)

    return Each(known(total[:, 0, 0]), known(time), known(square_time), matrix, total)


def _pairs(matrix: np.ndarray) -> np.ndarray:
    """Return A ⊗ A: of a normal law squares have the squared autocorrelations."""
    size = matrix.shape[1] ** 2
    return np.einsum("nij,nkl->nikjl", matrix, matrix).reshape(len(matrix), size, size)


def _time(matrix: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return 1 + 2 Σ ρ(lag) of the first number, shape (d,)."""
    sums = np.linalg.solve(np.eye(matrix.shape[1]) - matrix, matrix @ covariance)
    return 1 + 2 * sums[:, 0, 0] / covariance[:, 0, 0]
