"""What the underdamped dynamics share: a position with a momentum, a step of both, and its weight.

    dθ = p dt,   dp = −(∇V(θ) + γp) dt + σ dW,   σ² = 2γT

with the invariant law exp(−(V(θ) + ‖p‖²/2)/T). A step is two sums: of the position, the momentum,
the gradient, there or a drift ahead, and one or two normals.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from ewsg_jax.base import pytrees, rng
from ewsg_jax.base.modules import module
from ewsg_jax.base.rng import NoiseLaw
from ewsg_jax.base.typing import Array, Hyperparameter, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics._protocol import (
    Constant,
    Dynamics,
    GradientAt,
    Schedule,
    Term,
    check_noise,
    half_squared_sum,
    hyperparameters,
)
from ewsg_jax.gradients._protocol import Estimate


class UnderdampedState(NamedTuple):
    """Position θ, momentum p and the number of moves made."""

    position: Position
    momentum: PyTree
    step: Array


class Scales(NamedTuple):
    """h, γ, T and σ = √(2γT) of one step, scalars."""

    step_size: Scalar
    friction: Scalar
    temperature: Scalar
    noise_scale: Scalar


class WeightTerms(NamedTuple):
    """The exponent ½‖x + scale·g‖²: the scale, and each x as a coefficient of the momentum."""

    scale: Scalar
    frozen_noise: dict[str, Scalar]


class Terms(NamedTuple):
    """What each part of a step is multiplied by, None where it is not part of a sum.

    Attributes:
        ahead: of p: how far from θ the gradient is wanted.
        momentum: of p, g and ξ, in the new momentum p'.
        position: of p, g and p', and of each normal, in θ' − θ.
    """

    ahead: Scalar | None
    momentum: tuple[Scalar, Scalar, Scalar]
    position: tuple[Scalar | None, ...]


@module
class Underdamped(Dynamics[UnderdampedState]):
    """A scheme for underdamped Langevin dynamics. Write `terms` and `exponent`."""

    translates: ClassVar = True
    frozen_noise: ClassVar = ("momentum", "zero", "one", "rest")
    gaussian_momentum: ClassVar = True

    step_size: Constant | Schedule
    friction: Constant | Schedule
    temperature: Constant | Schedule

    @abc.abstractmethod
    def terms(self, scales: Scales) -> Terms:
        """Return what a step multiplies by."""

    @abc.abstractmethod
    def exponent(self, scales: Scales) -> WeightTerms:
        """Return the coefficients of the weight."""

    @property
    def num_normals(self) -> int:
        """How many normals a coordinate takes: one for the momentum, or another beside it."""
        return 1

    def scales(self, step: Array) -> Scales:
        """Return the numbers of a step."""
        h, gamma, t = self.step_size(step), self.friction(step), self.temperature(step)
        return Scales(h, gamma, t, jnp.sqrt(2 * gamma * t))

    def init(self, key: Key, position: Position) -> UnderdampedState:
        return UnderdampedState(position, pytrees.zeros_like(position), jnp.int32(0))

    def draw(self, key: Key, state: UnderdampedState) -> PyTree:
        if self.num_normals == 1:
            return super().draw(key, state)
        return rng.noise(key, (state.position, state.position))

    def evaluation_point(self, state: UnderdampedState) -> Position:
        # The gradient is taken a drift ahead, where a scheme kicks in the middle of its step.
        ahead = self.terms(self.scales(state.step)).ahead
        return (
            state.position
            if ahead is None
            else pytrees.combine((1, state.position), (ahead, state.momentum))
        )

    def log_weight(
        self, prepared: UnderdampedState, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        terms = self.exponent(self.scales(prepared.step))
        return weighed(terms, prepared.momentum, estimate, frozen_noise)

    def apply(
        self, noise: PyTree, prepared: UnderdampedState, estimate: Estimate, gradient_at: GradientAt
    ) -> UnderdampedState:
        state, gradient, terms = prepared, estimate.gradient, self.terms(self.scales(prepared.step))
        normals = (noise,) if self.num_normals == 1 else noise
        momentum = pytrees.combine(
            *zip(terms.momentum, (state.momentum, gradient, normals[0]), strict=True)
        )
        parts = zip(terms.position, (state.momentum, gradient, momentum, *normals), strict=True)
        # Coefficients that are None cost no operation.
        moves = [(coefficient, part) for coefficient, part in parts if coefficient is not None]
        position = pytrees.combine((1, state.position), *moves)
        return UnderdampedState(position, momentum, state.step + 1)

    def position_excess(self, step: Array) -> Scalar:
        """Return how batches raise the position's temperature where the momentum's rises by 1."""
        # Of how far the gradient and the normals lead in the end, where there is no force.
        terms = self.terms(self.scales(step))
        old, gradient, noise = terms.momentum
        by_old, by_gradient, by_new, *normals = (
            0.0 if each is None else each for each in terms.position
        )
        # How far a unit of momentum leads in the end, where friction alone acts.
        reach = by_new + (by_old + by_new * old) / (1 - old)
        first, *second = normals
        drawn = (first + reach * noise) ** 2 + sum(each**2 for each in second)
        return (by_gradient / gradient + reach) ** 2 * noise**2 / drawn


def weighed(terms: WeightTerms, momentum: PyTree, estimate: Estimate, frozen_noise: str) -> Array:
    """Return ½‖x + scale·g‖², each named x a multiple of the momentum."""
    named: dict[str, Term] = {name: (c, momentum) for name, c in terms.frozen_noise.items()}
    return half_squared_sum(frozen_noise, named, terms.scale, estimate.gradient)


def checked(
    step_size: Hyperparameter,
    friction: Hyperparameter,
    temperature: Hyperparameter,
    noise: NoiseLaw = "gaussian",
) -> dict[str, Any]:
    """Check what every underdamped dynamics is given, and return its hyperparameters by name."""
    check_noise(noise)
    return dict(hyperparameters(step_size=step_size, friction=friction, temperature=temperature))
