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

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax.numpy as jnp

from ewsg_jax.base.modules import module, static
from ewsg_jax.base.pytrees import combine
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, PyTree, Scalar
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._protocol import Dynamics, GradientAt
from ewsg_jax.dynamics._underdamped import Exponent, Scales, Underdamped, UnderdampedState, checked
from ewsg_jax.gradients._protocol import Estimate

Scheme = Literal["semi_implicit", "euler"]
SCHEMES = ("semi_implicit", "euler")


@module
class Explicit(Underdamped):
    """A kick, and a drift by the new or the old momentum. Name the `integrator`."""

    noise: NoiseKind = static(default="gaussian")

    if TYPE_CHECKING:  # a constant of two dynamics, a field of those with a covariance
        integrator: Any = dataclasses.field(init=False)

    def apply(
        self, noise: PyTree, prepared: UnderdampedState, estimate: Estimate, gradient_at: GradientAt
    ) -> UnderdampedState:
        theta, p, step = prepared
        h, gamma, _, sigma = self.scales(step)
        # p' = (1 − γh) p − h g + σ√h ξ
        new_p = combine((1 - gamma * h, p), (-h, estimate.gradient), (sigma * jnp.sqrt(h), noise))
        # θ' = θ + h p  (euler)  or  θ + h p'  (semi_implicit)
        new_theta = combine((1, theta), (h, p if self.integrator == "euler" else new_p))
        return UnderdampedState(new_theta, new_p, step + 1)

    def exponent(self, scales: Scales) -> Exponent:
        return explicit_exponent(scales)

    def position_excess(self, step: Array) -> Scalar:
        # Exactly: both schemes move the position by momenta alone.
        return 1.0


@module
class SemiImplicit(Explicit):
    """The dynamics of `semi_implicit`."""

    bias_order: ClassVar = 2
    integrator: ClassVar = "semi_implicit"


@module
class Euler(Explicit):
    """The dynamics of `euler`."""

    bias_order: ClassVar = 1
    integrator: ClassVar = "euler"


def semi_implicit(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Kick the momentum, then drift with the new momentum.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order and heuristic under
            exponential weights.
        inverse_mass: C > 0, by default 1: a number; a pytree of numbers like the position; a
            positive definite matrix (d, d) in `ravel_pytree` order; or a `LowRank`. With the
            covariance of the posterior every direction has sd 1. The momentum of the state is that
            of L⁻¹θ, C = L Lᵀ.

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
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Drift with the old momentum and kick it with the gradient at the old position.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order and heuristic under
            exponential weights.
        inverse_mass: C > 0, by default 1: a number; a pytree of numbers like the position; a
            positive definite matrix (d, d) over the position in `ravel_pytree` order; or a
            `LowRank`. The momentum of the state is that of L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.euler(step_size=5e-2, friction=10.0)
    """
    return in_metric(
        Euler(**checked(step_size, friction, temperature, noise), noise=noise), inverse_mass
    )


def explicit_exponent(scales: Scales) -> Exponent:
    """Return the exponent for ξ = (p' − (1 − γh) p + h g)/(σ√h) (EWSG section 4.2).

    No change of momentum, p' = p, gives x = √h γ p/σ; rest, p' = 0, gives x = (−1 + γh) p/(σ√h).
    """
    h, gamma, _, sigma = scales
    root = jnp.sqrt(h)
    return Exponent(
        root / sigma, {"momentum": root * gamma / sigma, "rest": (gamma * h - 1) / (sigma * root)}
    )
