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
from ewsg_jax.base.rng import NoiseLaw
from ewsg_jax.base.typing import Array, Hyperparameter, Scalar
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._underdamped import Scales, Terms, Underdamped, WeightTerms, checked

Scheme = Literal["semi_implicit", "euler"]
SCHEMES = ("semi_implicit", "euler")


@module
class Explicit(Underdamped):
    """A kick, and a drift by the new or the old momentum. Name the `integrator`."""

    noise: NoiseLaw = static(default="gaussian")

    if TYPE_CHECKING:  # a constant of two dynamics, a field of those that take out heat
        integrator: Any = dataclasses.field(init=False)

    def terms(self, scales: Scales) -> Terms:
        h = scales.step_size
        momentum = (1 - scales.friction * h, -h, scales.noise_scale * jnp.sqrt(h))
        by_old, by_new = (h, None) if self.integrator == "euler" else (None, h)
        return Terms(None, momentum, (by_old, None, by_new, None))

    def exponent(self, scales: Scales) -> WeightTerms:
        return explicit_exponent(scales)

    def position_excess(self, step: Array) -> Scalar:
        # What the sums of coefficients give, without their rounding where γh is small.
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
