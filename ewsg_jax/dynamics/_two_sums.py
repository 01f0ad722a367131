"""Underdamped schemes whose step is two sums: `splitting`, `exact` and `splitting_scheme`.

    p' = a p + b g + c ξ₁
    θ' = θ + d p + e g + f p' + k₁ ξ₁ + k₂ ξ₂

with the gradient g at θ, or a drift ahead of it. A scheme gives the coefficients, and everything
else follows from them.
"""

import abc
from typing import NamedTuple

from ewsg_jax.base import pytrees, rng
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics._protocol import GradientAt
from ewsg_jax.dynamics._underdamped import Scales, Underdamped, UnderdampedState
from ewsg_jax.gradients._protocol import Estimate


class Coefficients(NamedTuple):
    """The coefficients of a step, None for a term that its sum does not have.

    Attributes:
        ahead: how far along p the gradient is evaluated, in units of time; None for θ itself.
        momentum: a, b and c, which multiply p, g and ξ₁ in the new momentum p'.
        position: d, e, f and one k for each normal, which multiply p, g, p' and the normals in
            θ' − θ.
    """

    ahead: Scalar | None
    momentum: tuple[Scalar, Scalar, Scalar]
    position: tuple[Scalar | None, ...]


@module
class TwoSums(Underdamped):
    """A scheme that is given by its coefficients. Write `coefficients` and `exponent`."""

    @abc.abstractmethod
    def coefficients(self, scales: Scales) -> Coefficients:
        """Return the coefficients of a step."""

    @property
    def num_normals(self) -> int:
        """Normals per coordinate: one, or two for a position with noise of its own."""
        return 1

    def draw(self, key: Key, state: UnderdampedState) -> PyTree:
        if self.num_normals == 1:
            return super().draw(key, state)
        return rng.noise(key, (state.position, state.position))

    def evaluation_point(self, state: UnderdampedState) -> Position:
        # A scheme that kicks in the middle of its step evaluates the gradient a drift ahead.
        ahead = self.coefficients(self.scales(state.step)).ahead
        return (
            state.position
            if ahead is None
            else pytrees.combine((1, state.position), (ahead, state.momentum))
        )

    def apply(
        self, noise: PyTree, prepared: UnderdampedState, estimate: Estimate, gradient_at: GradientAt
    ) -> UnderdampedState:
        state, gradient = prepared, estimate.gradient
        coefficients = self.coefficients(self.scales(state.step))
        normals = (noise,) if self.num_normals == 1 else noise
        momentum = pytrees.combine(
            *zip(coefficients.momentum, (state.momentum, gradient, normals[0]), strict=True)
        )
        terms = zip(
            coefficients.position, (state.momentum, gradient, momentum, *normals), strict=True
        )
        # Coefficients that are None cost no operation.
        moves = [(coefficient, term) for coefficient, term in terms if coefficient is not None]
        position = pytrees.combine((1, state.position), *moves)
        return UnderdampedState(position, momentum, state.step + 1)

    def position_excess(self, step: Array) -> Scalar:
        # How far the gradient and the normals move the position in the end, without a force.
        coefficients = self.coefficients(self.scales(step))
        # a, b and c of the module's equations, and d, e, f and the k.
        old, gradient, noise = coefficients.momentum
        moved_by_old, moved_by_gradient, moved_by_new, *moved_by_normals = (
            0.0 if coefficient is None else coefficient for coefficient in coefficients.position
        )
        # How far a unit of momentum moves the position in the end, if friction alone acts on it.
        reach = moved_by_new + (moved_by_old + moved_by_new * old) / (1 - old)
        first, *second = moved_by_normals
        drawn = (first + reach * noise) ** 2 + sum(coefficient**2 for coefficient in second)
        return (moved_by_gradient / gradient + reach) ** 2 * noise**2 / drawn
