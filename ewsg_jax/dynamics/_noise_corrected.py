"""Underdamped Langevin with a matrix friction that takes up the minibatch's heat (the friction of EWSG-VR).

    p' = p − h (g(θ) + Γ p) + σ√h ξ,   Γ = (σ² I + h Cov)/(2T),   σ² = 2γT
    θ' = θ + h p'  (semi_implicit)  or  θ + h p  (euler)

with Cov the covariance of g at θ, as the estimator reports it. A gradient with this covariance adds noise of
variance h² Cov to each step; the friction h Cov/(2T) beside γ is what balances it at temperature T. So the law is
exp(−(V(θ) + ‖p‖²/2)/T) with the bias of the scheme alone, whatever the batch, as if the gradient were exact and the
friction Γ. On V = λθ²/2 that is h²λ/4 of the variance of θ for the semi-implicit scheme and hλ/Γ for Euler's. But
the explicit step needs hΓ < 2 in every direction (on V = λθ²/2 the semi-implicit one h²λ < 4 − 2hΓ), that is
roughly h² Cov/(2T) < 2, and chains beyond it diverge.
"""

from typing import Literal

from ewsg_jax import _check, _tree
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Array, Hyperparameter, PyTree
from ewsg_jax.dynamics._euler import euler
from ewsg_jax.dynamics._protocol import Dynamics, Probe, value_at
from ewsg_jax.dynamics._semi_implicit import semi_implicit
from ewsg_jax.dynamics._underdamped import UnderdampedState
from ewsg_jax.gradients._protocol import Estimate


def noise_corrected(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    integrator: Literal["semi_implicit", "euler"] = "semi_implicit",
) -> Dynamics:
    """Damp the momentum by the friction and by the covariance of the gradient.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, likewise.
        temperature: T > 0, likewise.
        noise: `"gaussian"` or `"rademacher"` (±1: the same weak order; heuristic under exponential weights).
        integrator: what the friction is added to; the paper's is `"euler"`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; from `ewsg_jax.kernel`, an estimator that does not
            report its covariance.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.noise_corrected(step_size=1e-2, friction=1.0)
    """
    _check.one_of("integrator", integrator, ("semi_implicit", "euler"))
    build = euler if integrator == "euler" else semi_implicit
    plain = build(step_size, friction=friction, temperature=temperature, noise=noise)

    def corrected(state: UnderdampedState, estimate: Estimate) -> Estimate:
        """The estimate with the force of the added friction: Γ p = γ p + h Cov p/(2T)."""
        h, temperature_now = value_at(step_size, state.step), value_at(temperature, state.step)
        damping = estimate.covariance.times(state.momentum)
        gradient = _tree.combine((1, estimate.gradient), (h / (2 * temperature_now), damping))
        return estimate._replace(gradient=gradient)

    def weight(state: UnderdampedState, estimate: Estimate, frozen_noise: str | PyTree = "momentum") -> Array:
        # x = √h Γp/σ and x = (−1 + hΓ)p/(σ√h) hold the friction; the others do not.
        has_friction = isinstance(frozen_noise, str) and frozen_noise in ("momentum", "rest")
        return plain.weight(state, corrected(state, estimate) if has_friction else estimate, frozen_noise)

    def move(noise: PyTree, state: UnderdampedState, estimate: Estimate, probe: Probe) -> UnderdampedState:
        return plain.move(noise, state, corrected(state, estimate), probe)

    return Dynamics(
        plain.init,
        plain.draw,
        plain.point,
        weight,
        move,
        plain.restart,
        plain.step_size,
        plain.frozen_noise,
        needs_covariance=True,
    )
