"""Underdamped Langevin by explicit steps: semi-implicit (symplectic) Euler, and Euler–Maruyama.

    p' = (1 − γh) p − h g(θ) + σ√h ξ
    θ' = θ + h p'   semi_implicit (SGHMC as in SVRG-HMC, Li et al., eqs. 1–2)
    θ' = θ + h p    euler (EWSG eq. 3; also called SGULD)

Both target exp(−(V(θ) + ‖p‖²/2)/T) with the gradient at the old position. The order of the two
lines is all that differs:

- `semi_implicit` moves the position with the *new* momentum, which keeps the symplectic order. Its
  bias of order h falls, on V = λθ²/2, on the momentum: the variance of θ is T/λ (1 + h²λ/4 +
  O(h³)), that of p is T (1 + γh/2 + O(h²)). It is stable for h²λ < 4 − 2γh, however small the
  friction.
- `euler` uses the old values in both lines. Its bias is of order h with a constant that grows as
  1/γ: on V = λθ²/2 it is stable only for hλ < γ. It is here to reproduce the papers;
  `semi_implicit` costs the same.

A stochastic gradient adds h·Cov(g)/(2γ) to the temperature.
"""

from typing import ClassVar

from ewsg_jax import _tree
from ewsg_jax._module import module, static
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, Position, PyTree
from ewsg_jax.dynamics.mass import InverseMass, in_metric
from ewsg_jax.dynamics.protocol import Dynamics
from ewsg_jax.dynamics.underdamped import (
    Kick,
    Scales,
    Underdamped,
    UnderdampedState,
    WeightTerms,
    checked,
    explicit_exponent,
    kick,
    kick_terms,
)


def kick_then_drift(
    c: Kick, noise: PyTree, state: UnderdampedState, gradient: Position
) -> tuple[Position, PyTree]:
    """Return the position and the momentum after a step of `semi_implicit`."""
    momentum = kick(c, noise, state.momentum, gradient)
    return _tree.combine((1, state.position), (c.step_size, momentum)), momentum


def drift_and_kick(
    c: Kick, noise: PyTree, state: UnderdampedState, gradient: Position
) -> tuple[Position, PyTree]:
    """Return the position and the momentum after a step of `euler`, both of the old values."""
    position = _tree.combine((1, state.position), (c.step_size, state.momentum))
    return position, kick(c, noise, state.momentum, gradient)


@module
class Explicit(Underdamped):
    """A kick and a drift, each by its formula above. Write `update`."""

    translates: ClassVar = True

    noise: NoiseLaw = static(default="gaussian")

    def terms(self, scales: Scales) -> Kick:
        return kick_terms(scales)

    def exponent(self, scales: Scales) -> WeightTerms:
        return explicit_exponent(scales)


@module
class SemiImplicit(Explicit):
    """The dynamics of `semi_implicit`."""

    bias_order: ClassVar = 2

    def update(
        self, terms: Kick, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        return kick_then_drift(terms, noise, state, gradient)


@module
class Euler(Explicit):
    """The dynamics of `euler`."""

    bias_order: ClassVar = 1

    def update(
        self, terms: Kick, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        return drift_and_kick(terms, noise, state, gradient)


def semi_implicit(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Kick the momentum, then drift with the new momentum.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds.
        temperature: T > 0, of the same kinds.
        noise: `"gaussian"` or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).
        inverse_mass: C > 0, by default 1: a number; a tree of numbers like the position; a positive
            definite matrix (d, d) in `ravel_pytree` order; or a `LowRank`. With the covariance of
            the posterior every direction has width 1. The momentum of the state is that of L⁻¹θ, C
            = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.semi_implicit(step_size=1e-2, friction=1.0)
    """
    return in_metric(
        SemiImplicit(**checked(step_size, friction, temperature, noise), noise=noise), inverse_mass
    )


def euler(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Drift with the old momentum and kick it with the gradient at the old position.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds.
        temperature: T > 0, of the same kinds.
        noise: `"gaussian"` or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).
        inverse_mass: C > 0, by default 1: a number; a tree of numbers like the position; a positive
            definite matrix (d, d) over the position in `ravel_pytree` order; or a `LowRank`. The
            momentum of the state is that of L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.euler(step_size=5e-2, friction=10.0)
    """
    return in_metric(
        Euler(**checked(step_size, friction, temperature, noise), noise=noise), inverse_mass
    )
