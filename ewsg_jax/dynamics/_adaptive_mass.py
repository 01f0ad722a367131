"""A diagonal inverse mass that is learned from the gradients of the burn-in, and then frozen.

    G = 1/√v,   v a running mean of squared gradients of the whole sum:
    v' = v + (g² − v) (1 − β)/(1 − βᵗ)   at the t-th step                         (decay=β)
    τ' = τ (1 − ḡ²/v) + 1,   ḡ' = ḡ + (g − ḡ)/τ',   v' = v + (g² − v)/τ'      (decay=None)

elementwise, while fewer than `burn_in` steps are made; a step of the inner dynamics in the inverse
mass G follows.

The first form is the mean of squares of Adam, with its correction for the first steps. Adam with
rate η and β₁ is then h = √(η(1 − β₁)), γh = 1 − β₁ of `semi_implicit`: its averaged gradient is the
momentum, and its target at T is exp(−V/T) because the noise enters that average. (Added to the
position instead, with the averaged gradient for g, it does not: on V = λθ²/2 with G = 1 the
variance of θ is T/λ (1 + hλ(1 + β₁)/(2(1 − β₁))) to first order in h: 19 times the bias of SGLD for
β₁ = 0.9.) With `langevin` it is RMSProp with noise.

With `semi_implicit` and the second form it is the adaptive SGHMC of Springenberg, Klein, Falkner &
Hutter (2016): in u = h √G p, their momentum,

    u' = (1 − γh) u − h² G g + √(2γh·h²GT) ξ,   θ' = θ + u'

so their ε is h and their α is γh. Their mean starts from 1, which has units; here the first square
counts from nothing, and G does not depend on the units of V. They also take ε⁴ off the variance of
the noise, Chen et al.'s B̂ with v for the covariance of a batch. v is not that: it holds the squares
of the gradient itself, so with full gradients the draws would be too narrow, and it is left out.
If a gradient hardly changes from step to step, as with full gradients or in a number that few rows
reach, ḡ² is v, the window τ falls to 1 and v is the last square alone: what is frozen may be
next to 0 there, and its step too large. Adam's mean has a window of 1/(1 − β) steps everywhere.

Once frozen, G is a constant, and the distribution is that of the inner dynamics in this inverse
mass, whatever the burn-in did. A mass that adapts for ever is a function of the gradients just
seen, and has another distribution: with v following g(θ)² the variables dy = dθ/√G(θ) move as
under a constant mass, so that in one dimension θ has the density exp(−V/T)/√G = |V'|^½ exp(−V/T) at
every friction, as h → 0; on V = θ²/2 its variance is 3/2 in the place of 1 (at h = 0.1 and γ = 1
it is 2.5, for either form that forgets at once; 1.3 at β = 0.9 and 1.01 at β = 0.999).
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.factors import Diagonal
from ewsg_jax.base.modules import is_own, module, number
from ewsg_jax.base.typing import Array, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics._langevin import Langevin, LangevinState
from ewsg_jax.dynamics._mass import InMetric, InverseMass, Mass, in_metric
from ewsg_jax.dynamics._protocol import Dynamics, GradientAt
from ewsg_jax.dynamics._underdamped import Underdamped, UnderdampedState
from ewsg_jax.gradients._batching import where_due
from ewsg_jax.gradients._protocol import Estimate


class AdaptiveMassState(NamedTuple):
    """The state of the inner dynamics, and what is learned: v, and for the window also τ and ḡ.

    Attributes:
        position: θ.
        momentum: that of G^(−½)θ, which is N(0, T I) once G is frozen; `()` without one.
        mean_square: v, like the position.
        mean_gradient: ḡ, like the position; `()` with a decay.
        window: τ, over how many steps each mean goes, like the position; `()` with a decay.
        step: the number of steps made.
    """

    position: Position
    momentum: PyTree
    mean_square: PyTree
    mean_gradient: PyTree
    window: PyTree
    step: Array


@module
class AdaptiveMass(Dynamics[AdaptiveMassState]):
    """The dynamics of `adaptive_mass`.

    Attributes:
        dynamics: the inner dynamics, in the inverse mass G.
        burn_in: the number of steps that learn.
        decay: β, or None for a window that adapts.
    """

    translates: ClassVar = True
    bias_order: ClassVar = None
    """Chains at h and h/2 learn masses of their own, so `halve` has no order to extrapolate by."""

    dynamics: Dynamics
    burn_in: Any
    decay: Scalar | None = None

    def __getattr__(self, name: str) -> Any:
        # Step size, friction, temperature; not while it is unpickled, before there is an inner one.
        if name.startswith("__") or "dynamics" not in vars(self):
            raise AttributeError(name)
        return getattr(self.dynamics, name)

    @property
    def frozen_noise(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The noises that the inner dynamics can freeze."""
        return self.dynamics.frozen_noise

    @property
    def gaussian_momentum(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether momenta of the inner dynamics are Gaussian."""
        return self.dynamics.gaussian_momentum

    def init(self, key: Key, position: Position) -> AdaptiveMassState:
        inner = self.dynamics.init(key, position)
        zero = pytrees.widened(pytrees.zeros_like(position))
        momentum = getattr(inner, "momentum", ())
        if self.decay is not None:
            return AdaptiveMassState(position, momentum, zero, (), (), inner.step)
        ones = pytrees.ones_like(zero)
        return AdaptiveMassState(position, momentum, zero, pytrees.copy(zero), ones, inner.step)

    def draw(self, key: Key, state: AdaptiveMassState) -> PyTree:
        return self.dynamics.draw(key, _inner(state))

    def evaluation_point(self, state: AdaptiveMassState) -> Position:
        return self.in_mass(state.mean_square).evaluation_point(_inner(state))

    def log_weight(
        self, prepared: AdaptiveMassState, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        metric = self.in_mass(prepared.mean_square)
        return metric.log_weight(_inner(prepared), estimate, frozen_noise)

    def apply(
        self,
        noise: PyTree,
        prepared: AdaptiveMassState,
        estimate: Estimate,
        gradient_at: GradientAt,
    ) -> AdaptiveMassState:
        state = prepared
        old = state.mean_square, state.mean_gradient, state.window
        gradient = pytrees.widened(estimate.gradient)
        square, mean, window = where_due(
            state.step < self.burn_in, lambda: self.learned(state, gradient), old
        )
        # While it is learned, G has seen the gradient that it scales: the first move is finite.
        end = self.in_mass(square).apply(noise, _inner(state), estimate, gradient_at)
        momentum = getattr(end, "momentum", ())
        return AdaptiveMassState(end.position, momentum, square, mean, window, end.step)

    def learned(self, state: AdaptiveMassState, gradient: PyTree) -> tuple[PyTree, PyTree, PyTree]:
        """Return v, ḡ and τ with one more gradient."""
        if self.decay is not None:
            # The share that makes v the mean with weights β^age, divided by their sum.
            kept = self.decay ** state.step.astype(float)
            share = (1 - self.decay) / (1 - self.decay * kept)
            new = jax.tree.map(
                lambda v, g: v + share.astype(v.dtype) * (g * g - v), state.mean_square, gradient
            )
            return new, (), ()

        def window(tau: Array, mean: Array, v: Array) -> Array:
            # By rounding a ratio may be above 1.
            ratio = jnp.where(v > 0, mean * mean / jnp.where(v > 0, v, 1), 0)
            return jnp.maximum(tau * (1 - ratio), 0) + 1

        windows = jax.tree.map(window, state.window, state.mean_gradient, state.mean_square)
        mean_gradient = jax.tree.map(
            lambda m, g, tau: m + (g - m) / tau, state.mean_gradient, gradient, windows
        )
        mean_square = jax.tree.map(
            lambda v, g, tau: v + (g * g - v) / tau, state.mean_square, gradient, windows
        )
        return mean_square, mean_gradient, windows

    def in_mass(self, mean_square: PyTree) -> InMetric:
        """Return the inner dynamics in the inverse mass 1/√v; 1 for a number without a gradient."""
        # Two roots: a power takes longer than all the rest of a step.
        root = jax.tree.map(lambda v: jax.lax.rsqrt(jnp.sqrt(jnp.where(v > 0, v, 1))), mean_square)
        return InMetric(dynamics=self.dynamics, mass=Mass(given=1.0, factor=Diagonal(root=root)))


def _inner(state: AdaptiveMassState) -> LangevinState | UnderdampedState:
    """Return the state of the inner dynamics."""
    if isinstance(state.momentum, tuple) and not state.momentum:
        return LangevinState(state.position, state.step)
    return UnderdampedState(state.position, state.momentum, state.step)


def adaptive_mass(
    dynamics: Dynamics,
    *,
    burn_in: int,
    decay: float | None = 0.999,
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Learn a diagonal inverse mass from the gradients of the burn-in, and freeze it.

    With `semi_implicit` it is Adam with noise, or with `decay=None` adaptive SGHMC; with `langevin`
    RMSProp with noise. After `burn_in` steps the mass is a constant, and the distribution that of
    `dynamics` in it. Draws are kept from then on: `sample(…, burn_in=…)` takes no less.

    The inverse mass is 1/√v, v the mean square of the gradient of the whole potential, so a step
    h of `langevin` moves a number by about h, as the rate of RMSProp or Adam does, and one of an
    underdamped dynamics by about h².

    Args:
        dynamics: `langevin` or an underdamped scheme (`semi_implicit`, `euler`, `splitting`,
            `exact`, `splitting_scheme`) without an inverse mass of its own.
        burn_in: the number of steps that learn, at least 1.
        decay: β in [0, 1), a number or a scalar array, the weight of the old mean of squares,
            corrected for the first steps as in Adam; the burn-in should be longer than 1/(1 − β)
            steps. None: a window for each number, which grows if its gradients change their signs
            (Springenberg et al. 2016); for batches, not for full gradients.
        inverse_mass: C > 0, units in which the diagonal is learned, such as prior variances; by
            default 1: a number, a pytree of numbers like the position, a matrix (d, d) or a
            `LowRank`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or the dynamics cannot be
            taken.

    References:
        J. T. Springenberg, A. Klein, S. Falkner and F. Hutter, Bayesian optimization with robust
            Bayesian neural networks, NeurIPS 2016.
        D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, International
            Conference on Learning Representations 2015.

    Example:
        >>> import ewsg_jax as ewsg
        >>> h = (1e-3 * (1 - 0.9)) ** 0.5  # Adam's rate 1e-3 and β₁ = 0.9
        >>> inner = ewsg.dynamics.semi_implicit(h, friction=(1 - 0.9) / h)
        >>> dynamics = ewsg.dynamics.adaptive_mass(inner, burn_in=2_000, decay=0.999)
    """
    takes = "dynamics must be langevin or an underdamped scheme without an inverse mass"
    checks.instance("dynamics", dynamics, Dynamics, "one of ewsg_jax.dynamics")
    # The noise of a batch enters other dynamics, or their steps depend on the position.
    is_plain = isinstance(dynamics, Langevin | Underdamped) and not hasattr(dynamics, "covariance")
    if not is_plain or is_own(type(dynamics)):
        raise ValueError(f"{takes} of its own; got {dynamics!r}")
    checks.integer("burn_in", burn_in)
    if decay is not None:
        checks.decay("decay", decay)
        decay = number(decay)
    return in_metric(
        AdaptiveMass(dynamics=dynamics, burn_in=int(burn_in), decay=decay), inverse_mass
    )
