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

from typing import Any, Literal, NamedTuple

from ewsg_jax import _check, _tree
from ewsg_jax._module import module, static
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Array, Hyperparameter, Position, PyTree
from ewsg_jax.dynamics._euler import drift_and_kick
from ewsg_jax.dynamics._semi_implicit import kick_then_drift
from ewsg_jax.dynamics.protocol import Probe
from ewsg_jax.dynamics.underdamped import (
    Kick,
    Scales,
    Underdamped,
    UnderdampedState,
    WeightTerms,
    checked,
    explicit_exponent,
    kick_terms,
)
from ewsg_jax.gradients.protocol import Estimate

UPDATES = {"semi_implicit": kick_then_drift, "euler": drift_and_kick}


class Terms(NamedTuple):
    """What the scheme multiplies by, and h/(2T)."""

    kick: Kick
    damping: Any


@module
class NoiseCorrected(Underdamped):
    """The dynamics of `noise_corrected`."""

    needs_covariance = True

    noise: NoiseLaw = static(default="gaussian")
    integrator: str = static(default="semi_implicit")

    def terms(self, scales: Scales) -> Terms:
        return Terms(kick_terms(scales), scales.step_size / (2 * scales.temperature))

    def exponent(self, scales: Scales) -> WeightTerms:
        return explicit_exponent(scales)

    def corrected(self, state: UnderdampedState, estimate: Estimate) -> Estimate:
        """Return the estimate with the force of the added friction: Γ p = γ p + h Cov p/(2T)."""
        damping = estimate.covariance.times(state.momentum)
        gradient = _tree.combine((1, estimate.gradient), (self.at(state.step).update.damping, damping))
        return estimate._replace(gradient=gradient)

    def weight(
        self, prepared: UnderdampedState, estimate: Estimate, frozen_noise: str | PyTree = "momentum"
    ) -> Array:
        # x = √h Γp/σ and x = (−1 + hΓ)p/(σ√h) hold the friction; the others do not.
        has_friction = isinstance(frozen_noise, str) and frozen_noise in ("momentum", "rest")
        seen = self.corrected(prepared, estimate) if has_friction else estimate
        return super().weight(prepared, seen, frozen_noise)

    def move(self, noise: PyTree, prepared: UnderdampedState, estimate: Estimate, probe: Probe) -> UnderdampedState:
        return super().move(noise, prepared, self.corrected(prepared, estimate), probe)

    def update(
        self, terms: Terms, noise: PyTree, state: UnderdampedState, gradient: Position
    ) -> tuple[Position, PyTree]:
        return UPDATES[self.integrator](terms.kick, noise, state, gradient)


def noise_corrected(
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    integrator: Literal["semi_implicit", "euler"] = "semi_implicit",
) -> NoiseCorrected:
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
    _check.one_of("integrator", integrator, UPDATES)
    return NoiseCorrected(**checked(step_size, friction, temperature, noise), noise=noise, integrator=integrator)
