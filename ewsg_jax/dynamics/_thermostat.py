"""Underdamped Langevin with a thermostat: stochastic-gradient Nosé–Hoover (SGNHT, Ding et al. 2014).

    p' = (1 − hζ) p − h g(θ) + √(2Ah) ξ,   A = γT
    θ' = θ + h p'
    ζ' = ζ + h (‖p'‖²/d − T)

with one thermostat ζ for all d numbers of the position, at first γ. Targets exp(−(V(θ) + ‖p‖²/2 + d(ζ − γ)²/2)/T),
so ζ ~ N(γ, T/d), with a bias of order h. A gradient noise of covariance sI adds hs/2 to A, and ζ takes it up by
rising by hs/(2T): the law of θ stays that of an exact gradient. It settles at the rate T/ζ, so in several times
ζ/(hT) steps. One ζ takes up the mean of Cov(g) over directions only: where Cov(g) differs between directions or
changes with θ, some come out too hot and others too cold.

The mean of ‖p‖²/d is T at every h, so the scheme's bias of order h falls on θ: for many dimensions its variance on
V = λθ²/2 is T/λ (1 − hζ/2 + O(h²)). (`semi_implicit`, whose bias falls on p, is right to O(h²) there.) Beside the
gradient's noise ζ lies h(γ²/2 − T/(2d)) above γ.
"""

import math
from typing import Any, NamedTuple

import jax
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
from ewsg_jax.dynamics._underdamped import Coefficients, explicit_weight, kick
from ewsg_jax.gradients._protocol import Estimate


@saved_as("thermostat_state")
class ThermostatState(NamedTuple):
    """Position θ, momentum p, thermostat ζ (a scalar) and the number of moves made."""

    position: Position
    momentum: PyTree
    thermostat: Array
    step: Array


def thermostat(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Dynamics:
    """Move with a momentum whose friction adapts until its kinetic energy is that of the temperature.

    Momenta are drawn from N(0, T I) at the start: from rest, the thermostat would first swing far below γ.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, likewise: the thermostat's start, and its mean without gradient noise.
        temperature: T > 0, likewise.
        noise: `"gaussian"` or `"rademacher"` (±1: the same weak order; heuristic under exponential weights).

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.thermostat(step_size=1e-2, friction=1.0)
    """
    check_hyperparameters(step_size=step_size, friction=friction, temperature=temperature)
    check_noise(noise)

    def coefficients(state: ThermostatState) -> Coefficients:
        """Those of the underdamped dynamics whose friction is ζ and whose noise is that of γ."""
        h, gamma, t = (value_at(x, state.step) for x in (step_size, friction, temperature))
        return Coefficients(h, state.thermostat, t, jnp.sqrt(2 * gamma * t))

    def init(key: Key, position: Position) -> ThermostatState:
        first = jnp.int32(0)
        momentum = _tree.combine((jnp.sqrt(value_at(temperature, first)), _random.noise(key, position)))
        dtype = jnp.result_type(*(x.dtype for x in jax.tree.leaves(_tree.widened(position))))
        return ThermostatState(position, momentum, jnp.asarray(value_at(friction, first), dtype), first)

    def draw(key: Key, state: ThermostatState) -> PyTree:
        return _random.noise(key, state.position, noise)

    def point(state: ThermostatState) -> Position:
        return state.position

    def weight(state: ThermostatState, estimate: Estimate, frozen_noise: str | PyTree = "momentum") -> Array:
        terms = explicit_weight(coefficients(state))
        named: dict[str, Term] = {name: (c, state.momentum) for name, c in terms.frozen_noise.items()}
        return half_squared_sum(frozen_noise, named, terms.scale, estimate.gradient)

    def move(noise: PyTree, state: ThermostatState, estimate: Estimate, probe: Probe) -> ThermostatState:
        c = coefficients(state)
        momentum = kick(c, noise, state.momentum, estimate.gradient)
        position = _tree.combine((1, state.position), (c.step_size, momentum))
        count = sum(math.prod(x.shape) for x in jax.tree.leaves(momentum))
        excess = _tree.squared_norm(momentum) / count - c.temperature
        return ThermostatState(
            position, momentum, _tree.combine((1, state.thermostat), (c.step_size, excess)), state.step + 1
        )

    def restart(state: ThermostatState, point: Position) -> ThermostatState:
        return state._replace(position=point)

    def step_size_at(step: Array) -> Any:
        return value_at(step_size, step)

    return Dynamics(init, draw, point, weight, move, restart, step_size_at, ("momentum", "zero", "one", "rest"))
