"""Underdamped Langevin with a matrix friction that balances the noise of minibatches (the friction
of EWSG-VR).

    p' = p − h (g(θ) + Γ p) + σ√h ξ,   Γ = (σ² I + h Cov)/(2T),   σ² = 2γT
    θ' = θ + h p'  (semi_implicit)  or  θ + h p  (euler)

with Cov the covariance of g at θ, as the estimator reports it or as it is given. A gradient with
this covariance adds noise of variance h² Cov to each step; the additional friction h Cov/(2T)
balances it at temperature T. So the target is exp(−(V(θ) + ‖p‖²/2)/T) with the bias of the scheme
alone, whatever the batch, as if the gradient were exact and the friction Γ. On V = λθ²/2 that bias
is h²λ/4 of the variance of θ for the semi-implicit scheme and hλ/Γ for Euler's. But the explicit
step needs hΓ < 2 in every direction (on V = λθ²/2 the semi-implicit one h²λ < 4 − 2hΓ), that is
roughly h² Cov/(2T) < 2; chains with larger ones diverge.
"""

from typing import Any

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, Position, PyTree
from ewsg_jax.dynamics._explicit import Scheme
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._noise_compensation import CompensatesGradientNoise, checked_arguments
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.dynamics._underdamped import UnderdampedState
from ewsg_jax.gradients._covariance import Covariance
from ewsg_jax.gradients._protocol import Estimate


@module
class NoiseCorrected(CompensatesGradientNoise):
    """The dynamics of `noise_corrected`."""

    def force(self, noise: PyTree, state: UnderdampedState, covariance: Any) -> Position:
        """Return (Γ − γ)p = h Cov p/(2T)."""
        scales = self.scales(state.step)
        damping = scales.step_size / (2 * scales.temperature)
        return pytrees.combine((damping, covariance.times(state.momentum)))

    def log_weight(
        self, prepared: UnderdampedState, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        # x = √h Γp/σ and x = (−1 + hΓ)p/(σ√h) hold the friction; the others do not.
        has_friction = frozen_noise in ("momentum", "rest")
        seen = self.with_force((), prepared, estimate) if has_friction else estimate
        return super().log_weight(prepared, seen, frozen_noise)


def noise_corrected(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    integrator: Scheme = "semi_implicit",
    covariance: Covariance | Array | None = None,
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Damp the momentum by the friction and by the covariance of the gradient.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order and heuristic under
            exponential weights.
        integrator: what the friction is added to, `"semi_implicit"` (default) or the paper's
            `"euler"`.
        covariance: the covariance of the gradient, in units of ∇V squared: a matrix (d, d) in
            `ravel_pytree` order, its diagonal (d,), or what `ewsg_jax.gradients.covariance_at`
            returns; it then goes with any estimator. Default None: as the estimator reports it.
        inverse_mass: C > 0, by default 1: a number; a pytree of numbers like the position; a
            positive definite matrix (d, d) over the position in `ravel_pytree` order; or a
            `LowRank`. The momentum of the state is that of L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value. `ewsg_jax.kernel` raises it
            for covariance=None and an estimator that does not report its covariance; `init` for a
            covariance that does not fit the position.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.noise_corrected(step_size=1e-2, friction=1.0)
    """
    fields = checked_arguments(step_size, friction, temperature, noise, integrator, covariance)
    return in_metric(NoiseCorrected(**fields), inverse_mass)
