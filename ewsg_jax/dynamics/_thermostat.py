"""Underdamped Langevin with a thermostat: stochastic-gradient Nosé–Hoover (SGNHT, Ding et al.
2014).

    p' = (1 − hζ) p − h g(θ) + √(2Ah) ξ,   A = γT
    θ' = θ + h p'
    ζ' = ζ + h (‖p'‖²/d − T)

with one thermostat ζ for all d parameters, at first γ. Targets exp(−(V(θ) + ‖p‖²/2 + d(ζ −
γ)²/2)/T), so ζ ~ N(γ, T/d), with a bias of order h. A gradient noise of covariance sI adds hs/2 to
A, and ζ balances it by rising by hs/(2T): the distribution of θ stays that of an exact gradient. It
settles at the rate T/ζ, so in several times ζ/(hT) steps. One ζ balances only the mean of Cov(g)
over directions: if Cov(g) differs between directions or changes with θ, some directions come out
too wide and others too narrow.

The mean of ‖p‖²/d is T at every h, so the scheme's bias of order h falls on θ: for many dimensions
its variance on V = λθ²/2 is T/λ (1 − hζ/2 + O(h²)). (`semi_implicit`, whose bias falls on p, has
the variance of θ right to O(h²).) Apart from the gradient's noise, ζ lies h(γ²/2 − T/(2d)) above γ.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import pytrees, rng
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, Key, Position, PyTree
from ewsg_jax.dynamics._explicit import explicit_exponent
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._protocol import Constant, Dynamics, GradientAt, Schedule, half_squared_sum
from ewsg_jax.dynamics._underdamped import Scales, checked
from ewsg_jax.gradients._protocol import Estimate


class ThermostatState(NamedTuple):
    """Position θ, momentum p, thermostat ζ (a scalar) and the number of steps made."""

    position: Position
    momentum: PyTree
    thermostat: Array
    step: Array


@module
class Thermostat(Dynamics[ThermostatState]):
    """The dynamics of `thermostat`."""

    translates: ClassVar = True
    gaussian_momentum: ClassVar = True

    frozen_noise: ClassVar = ("momentum", "zero", "one", "rest")

    step_size: Constant | Schedule
    friction: Constant | Schedule
    temperature: Constant | Schedule
    noise: NoiseKind = static(default="gaussian")

    def init(self, key: Key, position: Position) -> ThermostatState:
        first = jnp.int32(0)
        momentum = pytrees.combine((jnp.sqrt(self.temperature(first)), rng.noise(key, position)))
        dtype = jnp.result_type(*(x.dtype for x in jax.tree.leaves(pytrees.widened(position))))
        return ThermostatState(position, momentum, jnp.asarray(self.friction(first), dtype), first)

    def scales(self, state: ThermostatState) -> Scales:
        """Return the numbers of a step: the friction is ζ, the noise that of γ."""
        schedules = (self.step_size, self.friction, self.temperature)
        h, gamma, t = (schedule(state.step) for schedule in schedules)
        return Scales(h, state.thermostat, t, jnp.sqrt(2 * gamma * t))

    def log_weight(
        self, prepared: ThermostatState, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        scale, multiples = explicit_exponent(self.scales(prepared))
        x = multiples.get(frozen_noise, 0), prepared.momentum
        return half_squared_sum(frozen_noise, x, scale, estimate.gradient)

    def apply(
        self, noise: PyTree, prepared: ThermostatState, estimate: Estimate, gradient_at: GradientAt
    ) -> ThermostatState:
        state = prepared
        h, friction, temperature, noise_scale = self.scales(state)
        momentum = pytrees.combine(
            (1 - friction * h, state.momentum),
            (-h, estimate.gradient),
            (noise_scale * jnp.sqrt(h), noise),
        )
        position = pytrees.combine((1, state.position), (h, momentum))
        count = pytrees.size(momentum)
        excess = pytrees.squared_norm(momentum) / count - temperature
        thermostat = pytrees.combine((1, state.thermostat), (h, excess))
        return ThermostatState(position, momentum, thermostat, state.step + 1)


def thermostat(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Move with a momentum whose friction adapts until its kinetic energy fits the temperature.

    Momenta are drawn from N(0, T I) at the start: from rest, the thermostat would first swing far
    below γ.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds: the thermostat's start, and its mean
            without gradient noise.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order and heuristic under
            exponential weights.
        inverse_mass: C > 0, by default 1: a number; a pytree of numbers like the position; a
            positive definite matrix (d, d) over the position in `ravel_pytree` order; or a
            `LowRank`. The momentum of the state is that of L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.thermostat(step_size=1e-2, friction=1.0)
    """
    return in_metric(
        Thermostat(**checked(step_size, friction, temperature, noise), noise=noise), inverse_mass
    )
