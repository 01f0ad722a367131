"""Overdamped Langevin, Euler–Maruyama (LD; with a stochastic gradient SGLD, Welling & Teh 2011).

    θ' = θ − h g(θ) + √(2hT) ξ

Targets exp(−V/T) with a bias of order h: on V = λθ²/2 the stationary variance is T / (λ(1 − hλ/2)).
Stable for hλ < 2. A stochastic gradient adds h·Cov(g)/2 to the temperature of each direction.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, Key, Position, PyTree
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._protocol import (
    Constant,
    Dynamics,
    GradientAt,
    Schedule,
    check_noise,
    half_squared_sum,
    hyperparameters,
)
from ewsg_jax.gradients._protocol import Estimate


class LangevinState(NamedTuple):
    """Position θ and the number of steps made."""

    position: Position
    step: Array


@module
class Langevin(Dynamics[LangevinState]):
    """The dynamics of `langevin`."""

    translates: ClassVar = True
    bias_order: ClassVar = 1

    frozen_noise: ClassVar = ("momentum", "zero", "one")

    step_size: Constant | Schedule
    temperature: Constant | Schedule
    noise: NoiseKind = static(default="gaussian")

    def init(self, key: Key, position: Position) -> LangevinState:
        return LangevinState(position, jnp.int32(0))

    def log_weight(
        self, prepared: LangevinState, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        # θ' = θ is the most likely value, so without a momentum "momentum" means x = 0.
        h, t = self.step_size(prepared.step), self.temperature(prepared.step)
        return half_squared_sum(frozen_noise, None, jnp.sqrt(h / (2 * t)), estimate.gradient)

    def apply(
        self, noise: PyTree, prepared: LangevinState, estimate: Estimate, gradient_at: GradientAt
    ) -> LangevinState:
        h, t = self.step_size(prepared.step), self.temperature(prepared.step)
        position = pytrees.combine(
            (1, prepared.position), (-h, estimate.gradient), (jnp.sqrt(2 * h * t), noise)
        )
        return LangevinState(position, prepared.step + 1)


def langevin(
    step_size: Hyperparameter,
    *,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Move down the gradient of the whole potential and add noise.

    Args:
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order and heuristic under
            exponential weights.
        inverse_mass: C > 0, which multiplies the gradient, and its root the noise; by default 1: a
            number; a pytree of numbers like the position; a positive definite matrix (d, d) in
            `ravel_pytree` order; or a `LowRank`. With the covariance of the posterior every
            direction has sd 1.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.langevin(step_size=1e-3)
    """
    check_noise(noise)
    fields = hyperparameters(step_size=step_size, temperature=temperature)
    return in_metric(Langevin(**fields, noise=noise), inverse_mass)
