"""Overdamped Langevin, Euler–Maruyama (LD; with a stochastic gradient SGLD, Welling & Teh 2011).

    θ' = θ − h g(θ) + √(2hT) ξ

Targets exp(−V/T) with a bias of order h: on V = λθ²/2 the stationary variance is T / (λ(1 − hλ/2)).
Stable for hλ < 2. A stochastic gradient adds h·Cov(g)/2 to the temperature of each direction.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from ewsg_jax import _random, _tree
from ewsg_jax._random import NoiseLaw
from ewsg_jax._tags import saved_as
from ewsg_jax._types import Array, Hyperparameter, Key, Position, PyTree
from ewsg_jax.dynamics._protocol import (
    Dynamics,
    Probe,
    check_hyperparameters,
    check_noise,
    half_squared_sum,
    value_at,
)
from ewsg_jax.gradients._protocol import Estimate


@saved_as("langevin_state")
class LangevinState(NamedTuple):
    """Position θ and the number of moves made."""

    position: Position
    step: Array


def langevin(
    step_size: Hyperparameter, *, temperature: Hyperparameter = 1.0, noise: NoiseLaw = "gaussian"
) -> Dynamics:
    """Move down the gradient of the whole potential and add noise.

    Args:
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule.
        temperature: T > 0, likewise.
        noise: `"gaussian"` or `"rademacher"` (±1: the same weak order; heuristic under exponential weights).

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.langevin(step_size=1e-3)
    """
    check_hyperparameters(step_size=step_size, temperature=temperature)
    check_noise(noise)

    def init(key: Key, position: Position) -> LangevinState:
        return LangevinState(position, jnp.int32(0))

    def draw(key: Key, state: LangevinState) -> PyTree:
        return _random.noise(key, state.position, noise)

    def point(state: LangevinState) -> Position:
        return state.position

    def weight(state: LangevinState, estimate: Estimate, frozen_noise: str | PyTree = "momentum") -> Array:
        # θ' = θ is the most likely value, so x = 0 is what "momentum" means without a momentum.
        h, temperature_now = value_at(step_size, state.step), value_at(temperature, state.step)
        name = "zero" if isinstance(frozen_noise, str) and frozen_noise == "momentum" else frozen_noise
        return half_squared_sum(name, {}, jnp.sqrt(h / (2 * temperature_now)), estimate.gradient)

    def move(noise: PyTree, state: LangevinState, estimate: Estimate, probe: Probe) -> LangevinState:
        h, temperature_now = value_at(step_size, state.step), value_at(temperature, state.step)
        position = _tree.combine(
            (1, state.position), (-h, estimate.gradient), (jnp.sqrt(2 * h * temperature_now), noise)
        )
        return LangevinState(position, state.step + 1)

    def restart(state: LangevinState, point: Position) -> LangevinState:
        return state._replace(position=point)

    def step_size_at(step: Array) -> Any:
        return value_at(step_size, step)

    return Dynamics(init, draw, point, weight, move, restart, step_size_at, ("momentum", "zero", "one"))
