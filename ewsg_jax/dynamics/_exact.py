"""Underdamped Langevin with the gradient frozen over the step, solved exactly (CV-ULD; Cheng et al.
2018).

    dθ = v dt,   dv = −(γv + u g) dt + √(2γuT) dW,   g = g(θ₀) constant over a time h

With a = γh, φ₁ = (1 − e^{−a})/a and φ₂ = (a − 1 + e^{−a})/a² the step is Gaussian:

    v' = e^{−a} v − u h φ₁ g + √(uT(1 − e^{−2a})) ξ₁
    θ' = θ + h φ₁ v − u h² φ₂ g + √(uT)/γ · ((1 − e^{−a}) √tanh(a/2) ξ₁ + 2 √(a/2 − tanh(a/2)) ξ₂)

Targets exp(−(V(θ) + ‖v‖²/2u)/T) with a bias of order h: the frozen gradient lags by h/2, so on V =
λθ²/2 the variance of θ is T/λ (1 + uλh/(2γ) + O(h²)), half the excess of `euler`. The distribution
of the step itself is exact, at any γh. u is the inverse mass; the published choice is γ = 2, u =
1/L for an L-smooth V. Every difference above is written without cancellation (`functions_of`), so
it keeps all digits of float32 down to γh → 0.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from ewsg_jax.base import checks
from ewsg_jax.base.factors import is_number
from ewsg_jax.base.modules import module, number
from ewsg_jax.base.typing import Array, Hyperparameter, Scalar
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._two_sums import Coefficients, TwoSums
from ewsg_jax.dynamics._underdamped import Exponent, Scales, checked

TANH_FRACTION_LEVELS = 12
"""Levels of the continued fraction of tanh: exact to float64 rounding for arguments up to 1."""


class Functions(NamedTuple):
    """e^{−a}, φ₁, φ₂, tanh(a/2) and a/2 − tanh(a/2)."""

    decay: Array
    phi1: Array
    phi2: Array
    tanh: Array
    lag: Array


@module
class Exact(TwoSums):
    """The dynamics of `exact`."""

    bias_order: ClassVar = 1
    frozen_noise: ClassVar = ("momentum", "zero", "one")

    inverse_mass: Scalar

    @property
    def num_normals(self) -> int:
        return 2

    def coefficients(self, scales: Scales) -> Coefficients:
        h, gamma, u = scales.step_size, scales.friction, self.inverse_mass
        a = gamma * h
        # By functions that keep their digits as γh → 0, in which plain differences cancel.
        f = functions_of(a)
        spread = jnp.sqrt(u * scales.temperature)
        return Coefficients(
            None,
            (f.decay, -u * h * f.phi1, spread * jnp.sqrt(-jnp.expm1(-2 * a))),
            (
                h * f.phi1,
                -u * h * h * f.phi2,
                None,
                spread / gamma * a * f.phi1 * jnp.sqrt(f.tanh),
                spread / gamma * 2 * jnp.sqrt(f.lag),
            ),
        )

    def exponent(self, scales: Scales) -> Exponent:
        # The joint density of (θ', v') at v' = v, θ' = θ + h v: both residuals are multiples of v +
        # (u/γ) g, and their Mahalanobis norm is γh/(2uT) times its square.
        u = self.inverse_mass
        scale = jnp.sqrt(scales.friction * scales.step_size / (2 * u * scales.temperature))
        return Exponent(scale * u / scales.friction, {"momentum": scale})


def exact(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter = 2.0,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Solve the step with its gradient frozen at the old position.

    The momentum of the state is the velocity v, of variance u·T. The noise is Gaussian, as the
    exact step is.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds. Default 2.
        temperature: T > 0, of the same kinds; by default 1.
        inverse_mass: u > 0, by default 1: a number or traced scalar (1/L makes γ = 2 the published
            choice). Or C, a pytree of numbers like the position, a positive definite matrix (d, d)
            in `ravel_pytree` order, or a `LowRank`: v is then the velocity of L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.exact(step_size=1e-2, friction=2.0, inverse_mass=0.25)
    """
    fields = checked(step_size, friction, temperature)
    if is_number(inverse_mass):
        checks.positive("inverse_mass", inverse_mass)
        return Exact(**fields, inverse_mass=number(inverse_mass))
    return in_metric(Exact(**fields, inverse_mass=1.0), inverse_mass)


def functions_of(a: object) -> Functions:
    """The functions of a = γh > 0 as sums of positive terms: accurate to rounding at every a."""
    a = jnp.asarray(a, jnp.result_type(float))
    x = a / 2
    tanh = jnp.tanh(x)
    # x − tanh x = x³ψ, and tanh x = x / (1 + x²/(3 + x²/(5 + …))) gives ψ = 1/(D + x²), D = 3 +
    # x²/(5 + …).
    small = jnp.minimum(x, 1.0)
    fraction = 2.0 * TANH_FRACTION_LEVELS + 3.0
    for level in range(TANH_FRACTION_LEVELS, 0, -1):
        fraction = 2 * level + 1 + small * small / fraction
    psi = jnp.where(x < 1, 1 / (fraction + small * small), (x - tanh) / jnp.maximum(x, 1.0) ** 3)
    # φ₂ = (xψ + tanh x / x) / (2 (1 + tanh x)): both terms are positive.
    phi2 = (x * psi + tanh / x) / (2 * (1 + tanh))
    return Functions(jnp.exp(-a), -jnp.expm1(-a) / a, phi2, tanh, x * x * x * psi)
