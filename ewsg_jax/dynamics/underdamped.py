"""What the underdamped dynamics share: a position with a momentum, their coefficients and their
weight.

    dθ = p dt,   dp = −(∇V(θ) + γp) dt + σ dW,   σ² = 2γT

with the invariant law exp(−(V(θ) + ‖p‖²/2)/T).
"""

import abc
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from ewsg_jax import _tree
from ewsg_jax._module import module
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Array, Hyperparameter, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics.protocol import (
    Constant,
    Dynamics,
    GradientAt,
    Schedule,
    Term,
    check_noise,
    half_squared_sum,
    hyperparameters,
)
from ewsg_jax.gradients.protocol import Estimate


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


class Coefficients(NamedTuple):
    """What a scheme's update multiplies by, and the exponent of its noise."""

    update: PyTree
    weight: WeightTerms


@module
class Underdamped(Dynamics[UnderdampedState]):
    """A scheme for underdamped Langevin dynamics. Write `terms`, `update` and `exponent`."""

    frozen_noise: ClassVar = ("momentum", "zero", "one", "rest")
    gaussian_momentum: ClassVar = True

    step_size: Constant | Schedule
    friction: Constant | Schedule
    temperature: Constant | Schedule

    @abc.abstractmethod
    def terms(self, scales: Scales) -> PyTree:
        """Return what `update` multiplies by."""

    @abc.abstractmethod
    def update(
        self, terms: PyTree, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        """Return the new position and momentum."""

    @abc.abstractmethod
    def exponent(self, scales: Scales) -> WeightTerms:
        """Return the coefficients of the weight."""

    def init(self, key: Key, position: Position) -> UnderdampedState:
        return UnderdampedState(position, _tree.zeros_like(position), jnp.int32(0))

    def coefficients(self, step: Array) -> Coefficients:
        """Return what the update and the weight multiply by at a step: scalars."""
        h, gamma, t = self.step_size(step), self.friction(step), self.temperature(step)
        scales = Scales(h, gamma, t, jnp.sqrt(2 * gamma * t))
        return Coefficients(self.terms(scales), self.exponent(scales))

    def log_weight(
        self, prepared: UnderdampedState, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        return weighed(
            self.coefficients(prepared.step).weight, prepared.momentum, estimate, frozen_noise
        )

    def apply(
        self, noise: PyTree, prepared: UnderdampedState, estimate: Estimate, gradient_at: GradientAt
    ) -> UnderdampedState:
        terms = self.coefficients(prepared.step).update
        position, momentum = self.update(terms, noise, prepared, estimate.gradient)
        return UnderdampedState(position, momentum, prepared.step + 1)

    def with_evaluation_point(self, state: UnderdampedState, point: Position) -> UnderdampedState:
        # The position moves as far as the point does; the momentum is kept.
        shift = _tree.combine((1, point), (-1, self.evaluation_point(state)))
        return state._replace(position=_tree.combine((1, state.position), (1, shift)))


class Kick(NamedTuple):
    """h, and 1 − γh, −h and σ√h of (1 − γh) p − h g + σ√h ξ."""

    step_size: Scalar
    decay: Scalar
    gradient: Scalar
    noise: Scalar


def kick_terms(scales: Scales) -> Kick:
    """Return what the explicit kick multiplies by."""
    h = scales.step_size
    return Kick(h, 1 - scales.friction * h, -h, scales.noise_scale * jnp.sqrt(h))


def kick(c: Kick, noise: PyTree, momentum: PyTree, gradient: Position) -> PyTree:
    """Return (1 − γh) p − h g + σ√h ξ."""
    return _tree.combine((c.decay, momentum), (c.gradient, gradient), (c.noise, noise))


def weighed(terms: WeightTerms, momentum: PyTree, estimate: Estimate, frozen_noise: str) -> Array:
    """Return ½‖x + scale·g‖², each named x a multiple of the momentum."""
    named: dict[str, Term] = {name: (c, momentum) for name, c in terms.frozen_noise.items()}
    return half_squared_sum(frozen_noise, named, terms.scale, estimate.gradient)


def explicit_exponent(scales: Scales) -> WeightTerms:
    """Return the exponent where ξ = (p' − (1 − γh) p + h g)/(σ√h) (EWSG section 4.2).

    No change of momentum, p' = p, gives x = √h γ p/σ; rest, p' = 0, gives x = (−1 + γh) p/(σ√h).
    """
    root = jnp.sqrt(scales.step_size)
    return WeightTerms(
        root / scales.noise_scale,
        {
            "momentum": root * scales.friction / scales.noise_scale,
            "rest": (scales.friction * scales.step_size - 1) / (scales.noise_scale * root),
        },
    )


def checked(
    step_size: Hyperparameter,
    friction: Hyperparameter,
    temperature: Hyperparameter,
    noise: NoiseLaw = "gaussian",
) -> dict[str, Any]:
    """Check what every underdamped dynamics is given, and return its hyperparameters by name."""
    check_noise(noise)
    return dict(hyperparameters(step_size=step_size, friction=friction, temperature=temperature))
