"""Underdamped Langevin, Euler–Maruyama (EWSG eq. 3; also called SGULD).

    θ' = θ + h p
    p' = p − h (g(θ) + γ p) + σ√h ξ

Both updates use the old values. Targets exp(−(V(θ) + ‖p‖²/2)/T) with a bias of order h whose constant grows
as 1/γ: on V = λθ²/2 it is stable only for hλ < γ. It is here to reproduce the papers; prefer
`semi_implicit`, which costs the same.
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


def drift_and_kick(c: Kick, noise: PyTree, state: UnderdampedState, gradient: Position) -> tuple[Position, PyTree]:
    """Move the position and the momentum, both from the old values."""
    position = _tree.combine((1, state.position), (c.step_size, state.momentum))
    return position, kick(c, noise, state.momentum, gradient)


@module
class Euler(Underdamped):
    """The dynamics of `euler`."""

    translates: ClassVar = True
    bias_order: ClassVar = 1

    noise: NoiseLaw = static(default="gaussian")

    def terms(self, scales: Scales) -> Kick:
        return kick_terms(scales)

    def exponent(self, scales: Scales) -> WeightTerms:
        return explicit_exponent(scales)

    def update(
        self, terms: Kick, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        return drift_and_kick(terms, noise, state, gradient)


def euler(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics[Any]:
    """Drift with the old momentum and kick it with the gradient at the old position.

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
        >>> dynamics = ewsg.dynamics.euler(step_size=5e-2, friction=10.0)
    """
    return in_metric(Euler(**checked(step_size, friction, temperature, noise), noise=noise), inverse_mass)
