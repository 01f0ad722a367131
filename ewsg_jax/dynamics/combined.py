"""Underdamped steps as sums of position, momentum, gradient a drift ahead, and normals."""

from typing import ClassVar, NamedTuple

from ewsg_jax import _random, _tree
from ewsg_jax._module import module
from ewsg_jax._types import Array, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics.underdamped import Underdamped, UnderdampedState


class Terms(NamedTuple):
    """What each part is multiplied by, None where it is not part of a sum.

    Attributes:
        ahead: of p: how far from θ the gradient is wanted.
        momentum: of p, g and ξ, in the new momentum p'.
        position: of p, g and p', and of each normal, in θ' − θ.
    """

    ahead: Scalar | None
    momentum: tuple[Scalar, Scalar, Scalar]
    position: tuple[Scalar | None, ...]


@module
class Combined(Underdamped):
    """Such a step. Write `terms`, which returns `Terms`, and `exponent`."""

    translates: ClassVar = True

    @property
    def num_normals(self) -> int:
        """How many normals a coordinate takes: one for the momentum, or another beside it."""
        return 1

    def draw(self, key: Key, state: UnderdampedState) -> PyTree:
        like = state.position if self.num_normals == 1 else (state.position, state.position)
        return _random.noise(key, like)

    def evaluation_point(self, state: UnderdampedState) -> Position:
        # The gradient is taken a drift ahead, where a scheme kicks in the middle of its step.
        ahead = self.coefficients(state.step).update.ahead
        return (
            state.position
            if ahead is None
            else _tree.combine((1, state.position), (ahead, state.momentum))
        )

    def update(
        self, terms: Terms, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        normals = (noise,) if self.num_normals == 1 else noise
        momentum = _tree.combine(
            *zip(terms.momentum, (state.momentum, gradient, normals[0]), strict=True)
        )
        parts = zip(terms.position, (state.momentum, gradient, momentum, *normals), strict=True)
        # Coefficients that are None cost no operation.
        moves = [(coefficient, part) for coefficient, part in parts if coefficient is not None]
        return _tree.combine((1, state.position), *moves), momentum

    def position_excess(self, step: Array) -> Scalar:
        """Return how batches raise the position's temperature where the momentum's rises by 1."""
        # Of how far the gradient and the normals lead in the end, where there is no force.
        update = self.coefficients(step).update
        old, gradient, noise = update.momentum
        by_old, by_gradient, by_new, *normals = (
            0.0 if each is None else each for each in update.position
        )
        # How far a unit of momentum leads in the end, where friction alone acts.
        reach = by_new + (by_old + by_new * old) / (1 - old)
        first, *second = normals
        drawn = (first + reach * noise) ** 2 + sum(each**2 for each in second)
        return (by_gradient / gradient + reach) ** 2 * noise**2 / drawn
