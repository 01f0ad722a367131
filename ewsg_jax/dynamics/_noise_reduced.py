"""Underdamped Langevin that injects less noise, by what the minibatch brings (Chen, Fox & Guestrin
2014: B̂).

    p' = p − h (g(θ) + Γ p) + √h Σ ξ,   Σ² = (σ² I − h Cov)₊,   Γ = γ I + (h Cov − σ² I)₊/(2T)
    θ' = θ + h p'  (semi_implicit)  or  θ + h p  (euler)

with σ² = 2γT and Cov the covariance of g at θ, as the estimator reports it or as it is given. A
gradient with this covariance adds noise of variance h² Cov to each step; so much less is injected,
and the noise of a step is the σ²h that the friction γ balances at temperature T. If the gradient
alone has more noise in a direction, nothing is injected there and more friction balances the rest:
the papers leave that out. As long as h Cov ≤ σ², the stationary distribution is that of
`semi_implicit` or `euler` with an exact gradient and the friction γ. It is stable whenever
`noise_corrected` is, and at larger steps.

Chen et al. write B̂ for h Cov/2, C for γ, and have T = 1: their noise has the variance 2(C − B̂)h.
It is also the first of the two remedies of Li, Wang, Zha & Tao, appendix F.
"""

from typing import Any, ClassVar

import jax.numpy as jnp

from ewsg_jax.base.modules import module
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, Position, PyTree
from ewsg_jax.dynamics._explicit import Scheme
from ewsg_jax.dynamics._noise_compensation import CompensatesGradientNoise, checked_arguments
from ewsg_jax.dynamics._underdamped import UnderdampedState
from ewsg_jax.gradients._covariance import Covariance


@module
class NoiseReduced(CompensatesGradientNoise):
    """The dynamics of `noise_reduced`."""

    # A step takes functions of the covariance: those of Lᵀ Cov L do not follow from those of Cov.
    translates: ClassVar = False
    frozen_noise: ClassVar = ()  # a weight divides by the noise, of which none may be left

    def force(self, noise: PyTree, state: UnderdampedState, covariance: Any) -> Position:
        """Return (Γ − γ)p − (Σ − σ)ξ/√h."""
        h, gamma, t, noise_scale = self.scales(state.step)
        damping = h / (2 * t)

        def friction(values: Array) -> Array:
            return jnp.maximum(damping * values - gamma, 0)

        def missing(values: Array) -> Array:
            # h Cov/σ² of the noise comes with the gradient. The root of 0 has no derivative.
            left = 1 - damping / gamma * values
            root = jnp.where(left > 0, jnp.sqrt(jnp.where(left > 0, left, 1)), 0)
            return noise_scale * jnp.sqrt(h) / h * (1 - root)

        return covariance.combine((friction, state.momentum), (missing, noise))


def noise_reduced(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    integrator: Scheme = "semi_implicit",
    covariance: Covariance | Array | None = None,
) -> NoiseReduced:
    """Inject less noise, by what the minibatch brings itself.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule.
        friction: γ > 0 per unit of time, of the same kinds.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order.
        integrator: the scheme, `"semi_implicit"` (default) or `"euler"`.
        covariance: the covariance of the gradient, in units of ∇V squared: a matrix (d, d) in
            `ravel_pytree` order, its diagonal (d,), or what `ewsg_jax.gradients.covariance_at`
            returns; it then goes with any estimator. Chen et al.'s B̂ is `h * covariance / 2`.
            Default None: as the estimator reports it.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; from `ewsg_jax.kernel`,
            exponential weights, which need noise in every direction, or covariance=None with an
            estimator that does not report its covariance; from `init`, a covariance that does not
            fit the position.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> noise_estimate = jnp.eye(2)  # B̂
        >>> dynamics = ewsg.dynamics.noise_reduced(
        ...     1e-2, friction=10.0, covariance=2 * noise_estimate / 1e-2
        ... )
    """
    return NoiseReduced(
        **checked_arguments(step_size, friction, temperature, noise, integrator, covariance)
    )
