"""What the underdamped dynamics share: a position with a momentum, their coefficients and their weight.

    dθ = p dt,   dp = −(∇V(θ) + γp) dt + σ dW,   σ² = 2γT

with the invariant law exp(−(V(θ) + ‖p‖²/2)/T).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from ewsg_jax import _random, _tree
from ewsg_jax._random import NoiseLaw
from ewsg_jax._tags import saved_as
from ewsg_jax._types import Array, Hyperparameter, Key, Position, PyTree
from ewsg_jax.dynamics._protocol import (
    Dynamics,
    Probe,
    Term,
    check_hyperparameters,
    check_noise,
    half_squared_sum,
    value_at,
)
from ewsg_jax.gradients._protocol import Estimate


@saved_as("underdamped_state")
class UnderdampedState(NamedTuple):
    """Position θ, momentum p and the number of moves made."""

    position: Position
    momentum: PyTree
    step: Array


class Coefficients(NamedTuple):
    """h, γ, T and σ = √(2γT) of one step, scalars."""

    step_size: Any
    friction: Any
    temperature: Any
    noise_scale: Any


class WeightTerms(NamedTuple):
    """The exponent ½‖x + scale·g‖²: the scale, and each named x as a coefficient of the momentum."""

    scale: Any
    frozen_noise: dict[str, Any]


def underdamped(
    step_size: Hyperparameter,
    friction: Hyperparameter,
    temperature: Hyperparameter,
    noise: NoiseLaw,
    *,
    move: Callable[[Coefficients, PyTree, UnderdampedState, Position], tuple[Position, PyTree]],
    weight: Callable[[Coefficients], WeightTerms],
    frozen_noise: tuple[str, ...],
    point: Callable[[Coefficients, UnderdampedState], Position] = lambda c, state: state.position,
    noises_per_coordinate: int = 1,
) -> Dynamics:
    """Build an underdamped dynamics from its update and the exponent of its noise.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, likewise.
        temperature: T > 0, likewise.
        noise: `"gaussian"` or `"rademacher"`.
        move: `move(coefficients, noise, state, gradient) -> (position, momentum)`.
        weight: the exponent's coefficients.
        frozen_noise: the names of x that make sense.
        point: where the gradient is wanted.
        noises_per_coordinate: 1, or 2 where position and momentum have their own noise.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.
    """
    check_hyperparameters(step_size=step_size, friction=friction, temperature=temperature)
    check_noise(noise)

    def coefficients(step: Array) -> Coefficients:
        h, gamma, t = (value_at(x, step) for x in (step_size, friction, temperature))
        return Coefficients(h, gamma, t, jnp.sqrt(2 * gamma * t))

    def init(key: Key, position: Position) -> UnderdampedState:
        return UnderdampedState(position, _tree.zeros_like(position), jnp.int32(0))

    def draw(key: Key, state: UnderdampedState) -> PyTree:
        if noises_per_coordinate == 1:
            return _random.noise(key, state.position, noise)
        return _random.noise(key, (state.position,) * noises_per_coordinate, noise)

    def wanted_at(state: UnderdampedState) -> Position:
        return point(coefficients(state.step), state)

    def log_weight(state: UnderdampedState, estimate: Estimate, frozen_noise: str | PyTree = "momentum") -> Array:
        terms = weight(coefficients(state.step))
        named: dict[str, Term] = {name: (c, state.momentum) for name, c in terms.frozen_noise.items()}
        return half_squared_sum(frozen_noise, named, terms.scale, estimate.gradient)

    def move_on(noise: PyTree, state: UnderdampedState, estimate: Estimate, probe: Probe) -> UnderdampedState:
        position, momentum = move(coefficients(state.step), noise, state, estimate.gradient)
        return UnderdampedState(position, momentum, state.step + 1)

    def restart(state: UnderdampedState, point: Position) -> UnderdampedState:
        shift = _tree.combine((1, point), (-1, wanted_at(state)))
        return state._replace(position=_tree.combine((1, state.position), (1, shift)))

    def step_size_at(step: Array) -> Any:
        return value_at(step_size, step)

    return Dynamics(init, draw, wanted_at, log_weight, move_on, restart, step_size_at, frozen_noise)


def explicit_weight(c: Coefficients) -> WeightTerms:
    """The exponent where ξ = (p' − (1 − γh) p + h g)/(σ√h) (EWSG section 4.2).

    No change of momentum, p' = p, gives x = √h γ p/σ; rest, p' = 0, gives x = (−1 + γh) p/(σ√h).
    """
    root = jnp.sqrt(c.step_size)
    return WeightTerms(
        root / c.noise_scale,
        {
            "momentum": root * c.friction / c.noise_scale,
            "rest": (c.friction * c.step_size - 1) / (c.noise_scale * root),
        },
    )


def kick(c: Coefficients, noise: PyTree, momentum: PyTree, gradient: Position) -> PyTree:
    """Return (1 − γh) p − h g + σ√h ξ."""
    h = c.step_size
    return _tree.combine((1 - c.friction * h, momentum), (-h, gradient), (c.noise_scale * jnp.sqrt(h), noise))
