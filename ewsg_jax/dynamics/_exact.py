"""Underdamped Langevin with the gradient frozen over the step, solved exactly (CV-ULD; Cheng et al. 2018).

    dθ = v dt,   dv = −(γv + u g) dt + √(2γuT) dW,   g = g(θ₀) constant over a time h

With a = γh, φ₁ = (1 − e^{−a})/a and φ₂ = (a − 1 + e^{−a})/a² the step is Gaussian:

    v' = e^{−a} v − u h φ₁ g + √(uT(1 − e^{−2a})) ξ₁
    θ' = θ + h φ₁ v − u h² φ₂ g + √(uT)/γ · ((1 − e^{−a}) √tanh(a/2) ξ₁ + 2 √(a/2 − tanh(a/2)) ξ₂)

Targets exp(−(V(θ) + ‖v‖²/2u)/T) with a bias of order h: the frozen gradient lags by h/2, so on V = λθ²/2 the
variance of θ is T/λ (1 + uλh/(2γ) + O(h²)), half the excess of `euler`. What is exact is the law of the step
itself, at any γh. u is the inverse mass; the published choice is γ = 2, u = 1/L for an L-smooth V. Every
difference above is written without cancellation (`_functions`), so it keeps all digits of float32 down to
γh → 0.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from ewsg_jax import _check, _tree
from ewsg_jax._types import Array, Hyperparameter, Position, PyTree
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._underdamped import Coefficients, UnderdampedState, WeightTerms, underdamped

FRACTION_DEPTH = 12
"""Levels of the continued fraction of tanh: to rounding in float64 for arguments up to 1."""


class Functions(NamedTuple):
    """e^{−a}, φ₁, φ₂, tanh(a/2) and a/2 − tanh(a/2)."""

    decay: Array
    phi1: Array
    phi2: Array
    tanh: Array
    lag: Array


def exact(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter = 2.0,
    temperature: Hyperparameter = 1.0,
    inverse_mass: float = 1.0,
) -> Dynamics:
    """Solve the step with its gradient frozen at the old position.

    The momentum of the state is the velocity v, of variance u·T. The noise is Gaussian, as the law of the step
    is.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, likewise. Default 2.
        temperature: T > 0, likewise.
        inverse_mass: u > 0, a number or traced scalar; 1/L makes γ = 2 the published choice.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.exact(step_size=1e-2, friction=2.0, inverse_mass=0.25)
    """
    _check.positive("inverse_mass", inverse_mass)
    u = inverse_mass

    def move(
        c: Coefficients, noise: tuple[PyTree, PyTree], state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        h, gamma = c.step_size, c.friction
        a = gamma * h
        f = _functions(a)
        spread = jnp.sqrt(u * c.temperature)
        velocity = _tree.combine(
            (f.decay, state.momentum),
            (-u * h * f.phi1, gradient),
            (spread * jnp.sqrt(-jnp.expm1(-2 * a)), noise[0]),
        )
        position = _tree.combine(
            (1, state.position),
            (h * f.phi1, state.momentum),
            (-u * h * h * f.phi2, gradient),
            (spread / gamma * a * f.phi1 * jnp.sqrt(f.tanh), noise[0]),
            (spread / gamma * 2 * jnp.sqrt(f.lag), noise[1]),
        )
        return position, velocity

    def weight(c: Coefficients) -> WeightTerms:
        # The joint law of (θ', v') at v' = v, θ' = θ + h v: both residuals are multiples of v + (u/γ) g,
        # and their Mahalanobis norm is γh/(2uT) times its square.
        scale = jnp.sqrt(c.friction * c.step_size / (2 * u * c.temperature))
        return WeightTerms(scale * u / c.friction, {"momentum": scale})

    return underdamped(
        step_size,
        friction,
        temperature,
        "gaussian",
        move=move,
        weight=weight,
        frozen_noise=("momentum", "zero", "one"),
        noises_per_coordinate=2,
    )


def _functions(a: Any) -> Functions:
    """The functions of a = γh > 0, each a sum of positive terms: accurate to rounding at every a."""
    a = jnp.asarray(a, jnp.result_type(float))
    x = a / 2
    tanh = jnp.tanh(x)
    # x − tanh x = x³ψ, and tanh x = x / (1 + x²/(3 + x²/(5 + …))) gives ψ = 1/(D + x²), D = 3 + x²/(5 + …).
    small = jnp.minimum(x, 1.0)
    fraction = jnp.asarray(2.0 * FRACTION_DEPTH + 3.0, a.dtype)
    for level in range(FRACTION_DEPTH, 0, -1):
        fraction = 2 * level + 1 + small * small / fraction
    psi = jnp.where(x < 1, 1 / (fraction + small * small), (x - tanh) / jnp.maximum(x, 1.0) ** 3)
    # φ₂ = (xψ + tanh x / x) / (2 (1 + tanh x)): both terms are positive.
    phi2 = (x * psi + tanh / x) / (2 * (1 + tanh))
    return Functions(jnp.exp(-a), -jnp.expm1(-a) / a, phi2, tanh, x * x * x * psi)
