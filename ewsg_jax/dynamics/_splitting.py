"""Underdamped Langevin, symmetric splitting: the "2nd-HMC" of SVRG2nd-HMC (Li et al.), eqs. 12–18.

    g is taken at θ + (h/2) p
    p' = e^{−γh/2} (e^{−γh/2} p − h g + σ√h ξ)
    θ' = θ + (h/2) (p + p')

Targets exp(−(V(θ) + ‖p‖²/2)/T) with a bias of order h². On V = λθ²/2 it is stable for h²λ < 4 (exactly: for
h²λ < 4 cosh(γh/2)). One gradient a step, as the first-order schemes.
"""

import jax.numpy as jnp

from ewsg_jax import _tree
from ewsg_jax._types import Hyperparameter, Position, PyTree
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._underdamped import Coefficients, UnderdampedState, WeightTerms, underdamped


def splitting(
    step_size: Hyperparameter, *, friction: Hyperparameter, temperature: Hyperparameter = 1.0
) -> Dynamics:
    """Drift half, kick with damping and noise on both sides of it, drift half.

    The noise is Gaussian: ±1 noise would give the momentum a kurtosis of order h and cost the second order.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, likewise.
        temperature: T > 0, likewise.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.splitting(step_size=1e-2, friction=1.0)
    """

    def middle(c: Coefficients, state: UnderdampedState) -> Position:
        return _tree.combine((1, state.position), (c.step_size / 2, state.momentum))

    def move(
        c: Coefficients, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        h = c.step_size
        decay = jnp.exp(-c.friction * h / 2)
        momentum = _tree.combine(
            (decay * decay, state.momentum),
            (-h * decay, gradient),
            (decay * c.noise_scale * jnp.sqrt(h), noise),
        )
        return _tree.combine((1, middle(c, state)), (h / 2, momentum)), momentum

    def weight(c: Coefficients) -> WeightTerms:
        # ξ = (e^{γh/2} p' − e^{−γh/2} p + h g)/(σ√h), at p' = p and at p' = 0.
        unit = c.noise_scale * jnp.sqrt(c.step_size)
        half = c.friction * c.step_size / 2
        return WeightTerms(
            c.step_size / unit, {"momentum": 2 * jnp.sinh(half) / unit, "rest": -jnp.exp(-half) / unit}
        )

    return underdamped(
        step_size,
        friction,
        temperature,
        "gaussian",
        move=move,
        weight=weight,
        frozen_noise=("momentum", "zero", "one", "rest"),
        point=middle,
    )
