"""What the underdamped dynamics share: a position with a momentum, their numbers and the weight.

    dθ = p dt,   dp = −(∇V(θ) + γp) dt + σ dW,   σ² = 2γT

with the invariant distribution exp(−(V(θ) + ‖p‖²/2)/T).
"""

import abc
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics._protocol import (
    Constant,
    Dynamics,
    Schedule,
    check_noise,
    half_squared_sum,
    hyperparameters,
)
from ewsg_jax.gradients._protocol import Estimate


class UnderdampedState(NamedTuple):
    """Position θ, momentum p and the number of steps made."""

    position: Position
    momentum: PyTree
    step: Array


class Scales(NamedTuple):
    """h, γ, T and σ = √(2γT) of one step, scalars."""

    step_size: Scalar
    friction: Scalar
    temperature: Scalar
    noise_scale: Scalar


class Exponent(NamedTuple):
    """The exponent ½‖x + scale·g‖² of the weight of a gradient g.

    Attributes:
        scale: √h/σ for an explicit scheme; each scheme has its own.
        multiples: x as a multiple of the momentum p, by the names of frozen noises that depend on
            it.
    """

    scale: Scalar
    multiples: dict[str, Scalar]


@module
class Underdamped(Dynamics[UnderdampedState]):
    """A scheme for underdamped Langevin dynamics. Write `apply`, `exponent` and
    `position_excess`.
    """

    translates: ClassVar = True
    frozen_noise: ClassVar = ("momentum", "zero", "one", "rest")
    gaussian_momentum: ClassVar = True

    step_size: Constant | Schedule
    friction: Constant | Schedule
    temperature: Constant | Schedule

    @abc.abstractmethod
    def exponent(self, scales: Scales) -> Exponent:
        """Return the exponent of the weight."""

    @abc.abstractmethod
    def position_excess(self, step: Array) -> Scalar:
        """Return by how much minibatches raise the temperature of the position, if they raise that
        of the momentum by 1.
        """

    def scales(self, step: Array) -> Scales:
        """Return the numbers of a step."""
        h, gamma, t = self.step_size(step), self.friction(step), self.temperature(step)
        return Scales(h, gamma, t, jnp.sqrt(2 * gamma * t))

    def init(self, key: Key, position: Position) -> UnderdampedState:
        return UnderdampedState(position, pytrees.zeros_like(position), jnp.int32(0))

    def evaluation_point(self, state: UnderdampedState) -> Position:
        return state.position

    def log_weight(
        self, prepared: UnderdampedState, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        scale, multiples = self.exponent(self.scales(prepared.step))
        x = multiples.get(frozen_noise, 0), prepared.momentum
        return half_squared_sum(frozen_noise, x, scale, estimate.gradient)


def checked(
    step_size: Hyperparameter,
    friction: Hyperparameter,
    temperature: Hyperparameter,
    noise: NoiseKind = "gaussian",
) -> dict[str, Any]:
    """Check the arguments of every underdamped dynamics; return its hyperparameters by name."""
    check_noise(noise)
    return dict(hyperparameters(step_size=step_size, friction=friction, temperature=temperature))
