"""Underdamped Langevin, symmetric splitting: the "2nd-HMC" of SVRG2nd-HMC (Li et al.), eqs. 12–18.

    g is taken at θ + (h/2) p
    p' = e^{−γh/2} (e^{−γh/2} p − h g + σ√h ξ)
    θ' = θ + (h/2) (p + p')

Targets exp(−(V(θ) + ‖p‖²/2)/T) with a bias of order h². On V = λθ²/2 it is stable for h²λ < 4
(exactly: for h²λ < 4 cosh(γh/2)). One gradient a step, as the first-order schemes.
`splitting_scheme("AOBOA")` is the same step with the noise of exact friction, sinh(γh)/(γh) times
this one's variance.
"""

from typing import ClassVar

import jax.numpy as jnp

from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Hyperparameter
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._two_sums import Coefficients, TwoSums
from ewsg_jax.dynamics._underdamped import Exponent, Scales, checked


@module
class Splitting(TwoSums):
    """The dynamics of `splitting`."""

    bias_order: ClassVar = 2

    def coefficients(self, scales: Scales) -> Coefficients:
        h = scales.step_size
        decay = jnp.exp(-scales.friction * h / 2)
        momentum = (decay * decay, -h * decay, decay * scales.noise_scale * jnp.sqrt(h))
        return Coefficients(h / 2, momentum, (h / 2, None, h / 2, None))

    def exponent(self, scales: Scales) -> Exponent:
        # ξ = (e^{γh/2} p' − e^{−γh/2} p + h g)/(σ√h), at p' = p and at p' = 0.
        unit = scales.noise_scale * jnp.sqrt(scales.step_size)
        half = scales.friction * scales.step_size / 2
        return Exponent(
            scales.step_size / unit,
            {"momentum": 2 * jnp.sinh(half) / unit, "rest": -jnp.exp(-half) / unit},
        )


def splitting(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Drift half, kick with damping and noise on both sides of it, drift half.

    The noise is Gaussian: ±1 noise would give the momentum an excess kurtosis of order h, and the
    scheme would lose its second order.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds.
        temperature: T > 0, of the same kinds; by default 1.
        inverse_mass: C > 0, by default 1: a number; a pytree of numbers like the position; a
            positive definite matrix (d, d) over the position in `ravel_pytree` order; or a
            `LowRank`. The momentum of the state is that of L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.splitting(step_size=1e-2, friction=1.0)
    """
    return in_metric(Splitting(**checked(step_size, friction, temperature)), inverse_mass)
