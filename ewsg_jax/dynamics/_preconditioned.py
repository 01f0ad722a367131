"""Langevin dynamics preconditioned by a running mean of squared gradients (pSGLD, Li, Chen, Carlson
& Carin 2016).

    m' = α m + (1 − α) ḡ∘ḡ,   ḡ = (g − ∇V₀)/n the mean likelihood gradient
    θ' = θ − h G g + √(2hTG) ξ,   G = 1/(λ + √m')

h is half of the paper's ε. This is the published method, without its Γ = T∇·G, and its stationary
distribution is not exp(−V/T) however small h. When θ hardly moves within the 1/(1 − α) steps that m
remembers, m follows ḡ(θ)², and in one dimension the distribution tends to (λ + |ḡ|) exp(−V/T).
(When m averages over the whole posterior instead, G is nearly constant and this bias small.) And a
minibatch enters both G and g: a bias of order 1 − α at any h.

With the correction, derived here, G is that of the stored m, which has not seen the batch, and

    θ' = θ − h (G g − Γ) + √(2hTG) ξ,   Γ = T ∂G/∂θ = −T G² D/(2√m)
    D' = α J D + 2(1 − α) ḡ ∂ḡ/∂θ,   J = 1 − h G ∂g/∂θ within [0, 1]

D is the derivative of m by the present θ through *all* the gradients that m remembers: as h → 0 the
total derivative of ḡ(θ)², with no factor 1 − α. J is the share of a change of θ that was already in
the θ of the step before. The target is then exp(−V/T) with a bias of order h, for every decay and
every unbiased estimator. (In several dimensions J leaves out the other coordinates, so h must be
small compared with 1 − α.) As ḡ passes through 0, G has a peak of height 1/λ and width λ. The bias
is of order h only for steps √(2hT/λ) shorter than this width, and its constant grows steeply (in
one example from 1.1 to 17 between λ = 0.5 and 0.1): with λ = 1e-5 no step is small. To sample the
posterior take λ near the size of |ḡ|.

Adam has two more things. One is that m is divided by the weight 1 − αᵗ that its squares have: as a
recursion α becomes α (1 − αᵗ⁻¹)/(1 − αᵗ) in the t-th step, also in that of D, so that the
correction is the same (`bias_correction`). The other is an average of the gradient in the place of
g, which no Γ makes right: it lags, by which the bias is 19 times as large for β₁ = 0.9 (see
`_adaptive_mass.py`). The noise must enter that average: `adaptive_mass` over `semi_implicit` is
Adam so, and over `langevin` RMSProp, both without a Γ because their mass is frozen.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import module, number, static
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Data, Hyperparameter, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics._protocol import (
    Constant,
    Dynamics,
    GradientAt,
    PriorGradient,
    Schedule,
    check_noise,
    half_squared_sum,
    hyperparameters,
)
from ewsg_jax.gradients._protocol import Estimate
from ewsg_jax.rows._view import view


class PreconditionedState(NamedTuple):
    """Position θ, running mean m of ḡ², its derivative D (or `()`), and the steps made."""

    position: Position
    mean_square: PyTree
    slope: PyTree
    step: Array


class PreparedMean(NamedTuple):
    """The state, ∇V₀ at its position and as a function, and n."""

    state: PreconditionedState
    prior_gradient: Position
    prior_gradient_at: PriorGradient
    num_rows: Array | int


@module
class Preconditioned(Dynamics[PreconditionedState]):
    """The dynamics of `preconditioned`."""

    frozen_noise: ClassVar = ("momentum", "zero", "one")

    step_size: Constant | Schedule
    decay: Scalar
    damping: Scalar
    temperature: Constant | Schedule
    correction: bool = static(default=False)
    bias_correction: bool = static(default=False)
    noise: NoiseKind = static(default="gaussian")

    @property
    def extra_gradients(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One for the correction, else none."""
        return int(self.correction)

    def init(self, key: Key, position: Position) -> PreconditionedState:
        zero = pytrees.widened(pytrees.zeros_like(position))
        return PreconditionedState(
            position, zero, pytrees.copy(zero) if self.correction else (), jnp.int32(0)
        )

    def draw(self, key: Key, state: PreconditionedState) -> PyTree:
        if not self.correction:
            return rng.noise(key, state.position, self.noise)
        # Signs are drawn apart, so that the noise is the same with and without the correction.
        noise_key, signs_key = jax.random.split(key)
        signs = rng.noise(signs_key, state.position, "rademacher")
        return rng.noise(noise_key, state.position, self.noise), signs

    def prepare(
        self, state: PreconditionedState, prior_gradient: PriorGradient, data: Data
    ) -> PreparedMean:
        # The mean is over rows alone: the prior's gradient is taken out of g, and n divides it.
        return PreparedMean(
            state, prior_gradient(state.position), prior_gradient, view(data).number_in_all
        )

    def scale(self, mean_square: Array) -> Array:
        """Return G."""
        return 1 / (self.damping + jnp.sqrt(mean_square))

    def divergence(self, mean_square: Array, derivative: Array) -> Array:
        """Return Γ/T for the mean m and its derivative D; 0 if every gradient so far was 0."""
        root = jnp.sqrt(mean_square)
        numerator = -(self.scale(mean_square) ** 2) * derivative
        return jnp.where(root > 0, numerator / jnp.where(root > 0, 2 * root, 1), 0)

    def log_weight(
        self, prepared: PreparedMean, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        state = prepared.state
        h, t = self.step_size(state.step), self.temperature(state.step)
        # In coordinates in which the noise is white: x and g are both over √G.
        root = jax.tree.map(lambda m: jnp.sqrt(self.scale(m)), state.mean_square)
        scaled = jax.tree.map(lambda r, g: r * g, root, estimate.gradient)
        # θ' = θ is the most likely value: x undoes the drift Γ, and is 0 without one.
        x = None
        if self.correction:
            drift = jax.tree.map(
                lambda m, d, r: self.divergence(m, d) / r, state.mean_square, state.slope, root
            )
            x = -jnp.sqrt(h * t / 2), drift
        return half_squared_sum(frozen_noise, x, jnp.sqrt(h / (2 * t)), scaled)

    def apply(
        self, noise: PyTree, prepared: PreparedMean, estimate: Estimate, gradient_at: GradientAt
    ) -> PreconditionedState:
        state, g = prepared.state, estimate.gradient
        h, t = self.step_size(state.step), self.temperature(state.step)
        # (g − ∇V₀)/n, whose square is averaged: of the size of one row's gradient, whatever n.
        mean = _per_row(g, prepared.prior_gradient, prepared.num_rows)

        def averaged(old: Array, new: Array) -> Array:
            # With the correction the first steps are averaged evenly, for the first alone may be
            # near 0.
            count, kept = state.step.astype(old.dtype), self.decay
            if self.bias_correction:
                # The weight of all squares before, over that of this one too: 0 at first.
                power = self.decay**count
                kept = self.decay * (1 - power) / (1 - self.decay * power)
            elif self.correction:
                kept = jnp.minimum(self.decay, count / (count + 1))
            return (kept * old + (1 - kept) * new).astype(old.dtype)

        mean_square = jax.tree.map(lambda m, x: averaged(m, x * x), state.mean_square, mean)
        # Without the correction G is of this step's gradient too, as the paper has it.
        if not self.correction:
            used, derivative = mean_square, ()
            drift = jax.tree.map(lambda m, x: self.scale(m) * x, mean_square, g)
        else:
            noise, signs = noise
            # Before the first step nothing is stored.
            used = pytrees.where(state.step == 0, mean_square, state.mean_square)
            drift = jax.tree.map(
                lambda m, x, d: self.scale(m) * x - t * self.divergence(m, d), used, g, state.slope
            )
            # How ḡ changes with θ along the diagonal, which says how G does.
            change = _diagonal(gradient_at, state.position, signs)
            prior_change = _diagonal(prepared.prior_gradient_at, state.position, signs)
            mean_change = _per_row(change, prior_change, prepared.num_rows)

            # Clipped to a contraction: the mean would grow if h G times the curvature is above 1.
            def derivative_of(d: Array, m: Array, c: Array, x: Array, dx: Array) -> Array:
                return averaged(jnp.clip(1 - h * self.scale(m) * c, 0, 1) * d, 2 * x * dx)

            derivative = jax.tree.map(derivative_of, state.slope, used, change, mean, mean_change)

        def leaf(x: Array, m: Array, drift: Array, xi: Array) -> Array:
            # Summed first: a small drift, added alone to a large position, would round to nothing.
            return (x + (jnp.sqrt(2 * h * t * self.scale(m)) * xi - h * drift)).astype(x.dtype)

        position = jax.tree.map(leaf, state.position, used, drift, noise)
        return PreconditionedState(position, mean_square, derivative, state.step + 1)


def preconditioned(
    step_size: Hyperparameter,
    *,
    decay: float = 0.99,
    damping: float | None = None,
    correction: bool = False,
    bias_correction: bool = False,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
) -> Preconditioned:
    """Scale each coordinate by the inverse root of a running mean of its squared gradients.

    Args:
        step_size: h > 0, half of the paper's ε; a number, a traced scalar or a schedule.
        decay: α, in [0, 1), a number or a scalar array: how much of the mean a step keeps; by
            default 0.99.
        damping: λ > 0, a number or a scalar array, in units of (1/n) Σᵢ ∇Vᵢ. Default: 1e-5, as in
            the paper. With the correction it has no default: give the size of this mean over a
            batch of b rows near the mode, about √(tr S/(bd)) with S = Cov(∇Vᵢ).
        correction: whether the stationary distribution tends to exp(−V/T) as h → 0. It costs the
            derivative of a gradient along a ±1 vector and the memory of a position. Default: no.
        bias_correction: whether the mean of squares is divided by the weight that its squares have,
            as in Adam. Default: no; it starts from 0, or with the correction from the mean of the
            first squares.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order and heuristic under
            exponential weights.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.preconditioned(step_size=1e-3)
    """
    fields = hyperparameters(step_size=step_size, temperature=temperature)
    checks.decay("decay", decay)
    if checks.boolean("correction", correction) and damping is None:
        raise ValueError(
            "damping must be a positive number with correction=True, of the size of (1/n) Σᵢ ∇Vᵢ: "
            "with the default of 1e-5 no step is small enough; got None"
        )
    damping = 1e-5 if damping is None else damping
    checks.positive("damping", damping)
    check_noise(noise)
    return Preconditioned(
        **fields,
        decay=number(decay),
        damping=number(damping),
        correction=bool(correction),
        bias_correction=checks.boolean("bias_correction", bias_correction),
        noise=noise,
    )


def _per_row(gradient: Position, prior_gradient: Position, count: Array | int) -> PyTree:
    """Return (g − ∇V₀)/n, at least in float32."""
    difference = pytrees.combine((1, pytrees.widened(gradient)), (-1, prior_gradient))
    return pytrees.combine((1 / count, difference))


def _diagonal(gradient: PriorGradient, position: Position, signs: PyTree) -> PyTree:
    """Return an unbiased ∂gᵢ/∂θᵢ from one random ±1 vector (Hutchinson 1989; exact for d = 1)."""
    _, change = jax.jvp(gradient, (position,), (signs,))
    return jax.tree.map(lambda v, c: v * c, signs, change)
