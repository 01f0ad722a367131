"""Underdamped Langevin, semi-implicit (symplectic) Euler: SGHMC as in SVRG-HMC (Li et al.), eqs. 1–2.

    p' = (1 − γh) p − h g(θ) + σ√h ξ
    θ' = θ + h p'

Targets exp(−(V(θ) + ‖p‖²/2)/T) with a bias of order h, which on V = λθ²/2 falls on the momentum: the variance
of θ is T/λ (1 + h²λ/4 + O(h³)), that of p is T (1 + γh/2 + O(h²)). The gradient is taken at the old position
and the position moves with the *new* momentum, which keeps the symplectic order: it is stable for
h²λ < 4 − 2γh, however small the friction. A stochastic gradient adds h·Cov(g)/(2γ) to the temperature.
"""

from typing import Any, ClassVar

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


def kick_then_drift(c: Kick, noise: PyTree, state: UnderdampedState, gradient: Position) -> tuple[Position, PyTree]:
    """Kick the momentum, then move the position with the new one."""
    momentum = kick(c, noise, state.momentum, gradient)
    return _tree.combine((1, state.position), (c.step_size, momentum)), momentum


@module
class SemiImplicit(Underdamped):
    """The dynamics of `semi_implicit`."""

    translates: ClassVar = True
    bias_order: ClassVar = 2

    noise: NoiseLaw = static(default="gaussian")

    def terms(self, scales: Scales) -> Kick:
        return kick_terms(scales)

    def exponent(self, scales: Scales) -> WeightTerms:
        return explicit_exponent(scales)

    def update(
        self, terms: Kick, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        return kick_then_drift(terms, noise, state, gradient)


def semi_implicit(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics[Any]:
    """Kick the momentum, then drift with the new momentum.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, likewise.
        temperature: T > 0, likewise.
        noise: `"gaussian"` or `"rademacher"` (±1: the same weak order; heuristic under exponential weights).
        inverse_mass: C > 0, by default 1: a number; a tree of numbers like the position; a positive definite matrix
            (d, d) over the position raveled leaf after leaf; or a `LowRank`. The momentum of the state is that of
            L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.semi_implicit(step_size=1e-2, friction=1.0)
    """
    return in_metric(SemiImplicit(**checked(step_size, friction, temperature, noise), noise=noise), inverse_mass)
