"""Inverse masses C = L Lᵀ, as their factors L.

    z = L⁻¹ θ,   ∇_z V = Lᵀ ∇V:   the step is that of the dynamics in z, and θ' = θ + L (z' − z)

So Langevin dynamics is θ' = θ − h C g + √(2hT) L ξ, and underdamped dynamics has p ~ N(0, T C⁻¹),
kept as q = Lᵀp ~ N(0, T I), with θ' = θ + h L q'. Exponential weights are those of Lᵀ g. The target
is the same. With the covariance of the target for C all directions have sd 1, and the step size is
in units of this sd.
"""

import dataclasses
from typing import Any, NamedTuple

from ewsg_jax.base import checks, numeric, pytrees
from ewsg_jax.base.factors import Factor, factor_of
from ewsg_jax.base.modules import Part, arguments, made_by, module, written
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree, State
from ewsg_jax.dynamics._protocol import (
    Constant,
    Dynamics,
    GradientAt,
    PriorGradient,
    Schedule,
    needs_covariance,
)
from ewsg_jax.gradients._covariance import Congruent
from ewsg_jax.gradients._protocol import Estimate

InverseMass = Any
"""A number, a pytree of numbers like a position, a matrix, or a `LowRank`."""


@module
class Mass(Part):
    """An inverse mass as it was given, and its factor."""

    given: InverseMass
    factor: Factor


class PreparedInMetric(NamedTuple):
    """θ, and what the inner dynamics prepared at the origin of z."""

    position: Position
    inner: PyTree


@module
class InMetric(Dynamics[State]):
    """A dynamics in the coordinates z = L⁻¹θ of an inverse mass C = L Lᵀ.

    Attributes:
        dynamics: the inner dynamics, whose steps depend on the position through its gradient alone.
        mass: the inverse mass.
    """

    dynamics: Dynamics[State]
    mass: Mass

    def __getattr__(self, name: str) -> Any:
        # Its step size, friction, order of the bias, …; not before there is an inner one, as while
        # it is unpickled.
        if name.startswith("__") or "dynamics" not in vars(self):
            raise AttributeError(name)
        return getattr(self.dynamics, name)

    def __repr__(self) -> str:
        return written(
            made_by(self.dynamics), arguments(self.dynamics) | {"inverse_mass": self.mass.given}
        )

    @property
    def frozen_noise(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The noises that the inner dynamics can freeze."""
        return self.dynamics.frozen_noise

    @property
    def translates(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether a step of the inner dynamics depends on the position through gradients alone."""
        return self.dynamics.translates

    @property
    def gaussian_momentum(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether momenta of the inner dynamics are Gaussian."""
        return self.dynamics.gaussian_momentum

    @property
    def extra_gradients(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many further gradients the inner dynamics takes in a step."""
        return self.dynamics.extra_gradients

    def init(self, key: Key, position: Position) -> State:
        return self.dynamics.init(key, position)

    def draw(self, key: Key, state: State) -> PyTree:
        return self.dynamics.draw(key, state)

    def check(self, position: Position) -> None:
        self.mass.factor.check("inverse_mass", position)
        self.dynamics.check(position)

    def evaluation_point(self, state: State) -> Position:
        return self._displaced(state.position, self.dynamics.evaluation_point(_at_origin(state)))

    def prepare(self, state: State, prior_gradient: PriorGradient, data: Data) -> PyTree:
        if type(self.dynamics).prepare is Dynamics.prepare:
            return state
        gradient = self._gradient_in_z(state.position, prior_gradient)
        inner = self.dynamics.prepare(_at_origin(state), gradient, data)
        return PreparedInMetric(state.position, inner)

    def log_weight(
        self, prepared: PyTree, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        _, inner = _parts(prepared)
        return self.dynamics.log_weight(inner, self._estimate_in_z(estimate), frozen_noise)

    def apply(
        self, noise: PyTree, prepared: PyTree, estimate: Estimate, gradient_at: GradientAt
    ) -> State:
        # A step from the origin: what it adds to the position is rounded once.
        position, inner = _parts(prepared)
        gradient = self._gradient_in_z(position, gradient_at)
        end = self.dynamics.apply(noise, inner, self._estimate_in_z(estimate), gradient)
        return end._replace(position=self._displaced(position, end.position))

    def _displaced(self, position: Position, displacement: Position) -> Position:
        """Return the position θ + L z for a displacement z."""
        return pytrees.combine((1, position), (1, self.mass.factor.times(displacement)))

    def _gradient_in_z(
        self, origin: Position, gradient_at: GradientAt | PriorGradient
    ) -> GradientAt:
        """Return the gradient as a function of z, as the inner step takes it: Lᵀ∇V(θ + L z).

        Args:
            origin: θ, the position at which z is 0.
            gradient_at: ∇V as a function of θ.
        """

        def gradient(position: Position) -> Position:
            return self.mass.factor.transposed(gradient_at(self._displaced(origin, position)))

        return gradient

    def _estimate_in_z(self, estimate: Estimate) -> Estimate:
        """Return the estimate in z: the gradient Lᵀg, of covariance Lᵀ Cov L."""
        covariance = estimate.covariance
        if needs_covariance(self.dynamics):
            covariance = Congruent(covariance, self.mass.factor)
        return estimate._replace(
            gradient=self.mass.factor.transposed(estimate.gradient), covariance=covariance
        )


def _at_origin(state: State) -> State:
    return state._replace(position=pytrees.zeros_like(state.position))


def _parts(prepared: PyTree) -> tuple[Position, PyTree]:
    """Return θ, and what the inner dynamics prepared at the origin: by default its state."""
    if isinstance(prepared, PreparedInMetric):
        return prepared
    return prepared.position, _at_origin(prepared)


def is_one(inverse_mass: object) -> bool:
    """Return whether an inverse mass is the number 1, which needs no factor."""
    return (
        isinstance(inverse_mass, int | float)
        and not isinstance(inverse_mass, bool)
        and inverse_mass == 1
    )


def in_metric(dynamics: Dynamics, inverse_mass: InverseMass) -> Dynamics:
    """Return a dynamics in the coordinates of an inverse mass; for the number 1, the same dynamics.

    Args:
        dynamics: a dynamics whose steps depend on the position through its gradient alone
            (`translates`).
        inverse_mass: C > 0: a number, a pytree of numbers like the position, a positive definite
            matrix (d, d) over the position in `ravel_pytree` order, or a `LowRank`. It is
            factorised in float64.

    Raises:
        TypeError, ValueError: it is not an inverse mass, or the dynamics takes none.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.dynamics.in_metric(ewsg.dynamics.langevin(0.1), 4.0).mass.factor.root
        2.0
    """
    checks.instance("dynamics", dynamics, Dynamics, "one of ewsg_jax.dynamics")
    inverse_mass = numeric.native(inverse_mass)
    if is_one(inverse_mass):
        return dynamics
    if not dynamics.translates:
        raise ValueError(
            f"inverse_mass must be 1 for {made_by(dynamics)}, whose steps depend on the position; "
            f"got {checks.describe(inverse_mass)}"
        )
    factor = factor_of(inverse_mass, "inverse_mass")
    covariance = getattr(dynamics, "covariance", None)
    if covariance is not None:
        # It is the covariance of the gradient by θ, and the inner step takes that by z.
        dynamics = dataclasses.replace(dynamics, covariance=Congruent(covariance, factor))  # pyright: ignore
    return InMetric(dynamics=dynamics, mass=Mass(given=inverse_mass, factor=factor))


def without_metric(dynamics: Dynamics) -> tuple[Dynamics, Mass | None]:
    """Return the inner dynamics and its inverse mass; None for a dynamics without one."""
    return (
        (dynamics.dynamics, dynamics.mass) if isinstance(dynamics, InMetric) else (dynamics, None)
    )


def with_step_size(dynamics: Dynamics, step_size: Constant | Schedule) -> Dynamics:
    """Return the same dynamics with another step size, a field of it."""
    inner = vars(dynamics).get("dynamics")
    if inner is not None:
        return dataclasses.replace(dynamics, dynamics=with_step_size(inner, step_size))  # pyright: ignore
    return dataclasses.replace(dynamics, step_size=step_size)  # pyright: ignore
