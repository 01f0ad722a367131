"""Langevin with a quasi-Newton matrix from past steps (HAMCMC: Şimşekli, Badeau, Cemgil & Richard
2016, eq. 16).

    θ_t = θ_{t−M} − h H g(θ_{t−M}) + √(2hT) S ξ,   S Sᵀ = H

H is the L-BFGS matrix, from γ_H I, of the M − 1 pairs i = t−M+1 … t−1,

    s_i = θ_i − θ_{i−M},   y_i = g_i(θ_i) − g_i(θ_{i−M}) + λ s_i,   g_i on the batch of step i.

So M chains run interleaved, and each moves by pairs of the others: H is no function of
θ_{t−M}. (The papers at hand do not print the lag of the pairs. It follows from the supplement's set
of points, θ_{t−2M+1} … θ_{t−1} without θ_{t−M}: any lag but M would need θ_{t−M}.) A pair that is
missing, since one of its points is from before the start, or whose curvature is not above ε, sᵀy >
ε ‖s‖ ‖y‖, is left out. h is constant on blocks of M steps.

Targets exp(−V/T) on a quadratic V = θᵀAθ/2, with a bias of order h: there y = (A + λI) s, H holds
the directions of the s alone, and a step from the target leaves, given H, the covariance T (A⁻¹ +
h² H A H).

For other V, in two dimensions or more, a bias stays as h → 0, against the supplement's Theorem 5. H
is no function of θ_{t−M}, but it is not independent of it either: the steps between were made with
matrices that know the curvature at θ_{t−M}, and the divergence of E[H | θ_{t−M}] is missing from
the drift. (The proof takes the old points for independent of the new ones next to them.) Measured
for x ~ N(0, 1), y | x ~ N(2 tanh x, 1/4), M = 2, λ = 20, γ_H = 1: E x² = 1.185 ± 0.004 at h = 0.02
and 1.167 ± 0.002 at h = 0.01, for 1 under the target. So use it for posteriors that are nearly
Gaussian, with a λ that is not small compared with the changes of the curvature.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import module, number, static
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Data, Hyperparameter, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics import _lbfgs as lbfgs
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


class QuasiNewtonState(NamedTuple):
    """The last 2M − 1 points and the pairs between them.

    Attributes:
        position: the newest point θ_t.
        point: θ_{t+1−M}, which moves next.
        points: θ_{t−M+1} … θ_t, leaves (M, …); θ_i at place i mod M.
        pairs: s_{t−M+2} … s_t and then the y, leaves (2, M − 1, …); pair i at place i mod M − 1.
            With the points the s say where θ_{t−2M+2} … θ_{t−M} were.
        usable: whether there is such a pair, of enough curvature, shape (M − 1,).
        step: t, the number of steps made.
    """

    position: Position
    point: Position
    points: PyTree
    pairs: PyTree
    usable: Array
    step: Array


class PreparedFactor(NamedTuple):
    """A state with the factor of H."""

    state: QuasiNewtonState
    factor: lbfgs.PairFactor


@module
class Held(Schedule):
    """A schedule that is read every M steps, so that all points of a block have one step size."""

    function: Any = static(default=None)
    schedule: Schedule
    every: int = static()

    def __call__(self, step: Array) -> Any:
        return self.schedule(step - step % self.every)

    def __repr__(self) -> str:
        return repr(self.schedule)


@module
class QuasiNewton(Dynamics[QuasiNewtonState]):
    """The dynamics of `quasi_newton`."""

    frozen_noise: ClassVar = ("momentum", "zero", "one")
    extra_gradients: ClassVar = 1

    step_size: Constant | Schedule
    memory_size: int = static(default=5)
    trust_region: Scalar
    initial_scale: Scalar
    curvature_threshold: Scalar
    temperature: Constant | Schedule
    noise: NoiseKind = static(default="gaussian")

    def init(self, key: Key, position: Position) -> QuasiNewtonState:
        # The start stands for the points before it, which never were.
        size = self.memory_size
        # All M places hold the start, so that the first M steps have a point to begin from.
        points = jax.tree.map(lambda x: jnp.repeat(x[None], size, axis=0), position)
        pairs = jax.tree.map(lambda x: jnp.zeros((2, size - 1, *x.shape), x.dtype), position)
        # No pair is usable yet: H is a multiple of the identity.
        usable = jnp.zeros(size - 1, bool)
        return QuasiNewtonState(
            position, pytrees.copy(position), points, pairs, usable, jnp.int32(0)
        )

    def evaluation_point(self, state: QuasiNewtonState) -> Position:
        return state.point

    def prepare(
        self, state: QuasiNewtonState, prior_gradient: PriorGradient, data: Data
    ) -> PreparedFactor:
        # The oldest pair is at the place that this step will write to.
        oldest = (state.step + 1) % (self.memory_size - 1)
        factor = lbfgs.factor(state.pairs, state.usable, oldest, self.initial_scale)
        return PreparedFactor(state, factor)

    def log_weight(
        self, prepared: PreparedFactor, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        # θ_t = θ_{t−M} is the most likely value, so without a momentum "momentum" means x = 0.
        force = lbfgs.transposed_times(prepared.factor, estimate.gradient)
        step = prepared.state.step
        h, t = self.step_size(step), self.temperature(step)
        return half_squared_sum(frozen_noise, None, jnp.sqrt(h / (2 * t)), force)

    def apply(
        self, noise: PyTree, prepared: PreparedFactor, estimate: Estimate, gradient_at: GradientAt
    ) -> QuasiNewtonState:
        (state, factor), g, size = prepared, estimate.gradient, self.memory_size
        h, t = self.step_size(state.step), self.temperature(state.step)
        # In coordinates of S, where S Sᵀ = H: drift H g and noise of covariance H from one product.
        force = lbfgs.transposed_times(factor, g)
        kick = pytrees.combine((-h, force), (jnp.sqrt(2 * h * t), noise))
        end = pytrees.combine((1, state.point), (1, lbfgs.times(factor, kick)))

        # The difference of the rounded points, so that s and y belong together.
        s = pytrees.combine((1, end), (-1, state.point))
        # λ s is added to y, so that the curvature along s is at least about the trust region's.
        y = pytrees.combine((self.trust_region, s), (1, gradient_at(end)), (-1, g))
        step = state.step + 1
        place = step % (size - 1)
        # In the first M steps θ_{t−M} is not a point of the chain, or it is the start, from which
        # other steps begin too.
        usable = (step >= size) & lbfgs.is_usable(s, y, self.curvature_threshold)
        points = jax.tree.map(lambda x, new: _set(x, new, step % size), state.points, end)
        return QuasiNewtonState(
            end,
            # Read once written: a read before would have a compiled loop copy all points first.
            jax.tree.map(
                lambda x: jax.lax.dynamic_index_in_dim(x, (step + 1) % size, keepdims=False), points
            ),
            points,
            jax.tree.map(
                lambda x, s, y: _set(_set(x, s, 0, place), y, 1, place), state.pairs, s, y
            ),
            _set(state.usable, usable, place),
            step,
        )

    def with_evaluation_point(self, state: QuasiNewtonState, point: Position) -> QuasiNewtonState:
        # After a move to a point that the pairs may know, the history begins again: H must not be a
        # function of that point.
        stayed = _is_equal(point, state.point)
        return state._replace(point=point, usable=state.usable & stayed)


def quasi_newton(
    step_size: Hyperparameter,
    *,
    memory_size: int = 5,
    trust_region: ArrayLike = 1.0,
    initial_scale: ArrayLike = 1.0,
    curvature_threshold: ArrayLike = 1e-4,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
) -> QuasiNewton:
    """Move M interleaved chains, each with a matrix that L-BFGS makes of the steps of the others.

    Targets exp(−V/T) with a bias of order h if V is a quadratic. For other V a bias stays as h → 0:
    the matrix is no function of the point that it moves, and yet not independent of it.

    Args:
        step_size: h > 0, multiplies H ∇V, ∇V of the whole sum; a number, a traced scalar or a
            schedule, which is read at the first step of every M.
        memory_size: M ≥ 2; by default 5.
        trust_region: λ > 0, added to the curvature of every pair; a curvature of V (1/variance of
            the position), of the size of the posterior's. The default goes with parameters of unit
            scale.
        initial_scale: γ_H > 0, an inverse curvature, by default 1: H is γ_H I before there are
            pairs, and in directions that no pair has.
        curvature_threshold: ε > 0, the least cosine of the angle between s and y; by default 1e-4.
        temperature: T > 0, as `step_size` but read at every step; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order and heuristic under
            exponential weights.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.quasi_newton(step_size=1e-3, memory_size=3, trust_region=10.0)
    """
    fields = hyperparameters(step_size=step_size, temperature=temperature)
    checks.integer("memory_size", memory_size, minimum=2)
    checks.positive("trust_region", trust_region)
    checks.positive("initial_scale", initial_scale)
    checks.positive("curvature_threshold", curvature_threshold)
    check_noise(noise)
    h = fields["step_size"]
    return QuasiNewton(
        step_size=Held(schedule=h, every=int(memory_size)) if isinstance(h, Schedule) else h,
        temperature=fields["temperature"],
        memory_size=int(memory_size),
        trust_region=number(trust_region),
        initial_scale=number(initial_scale),
        curvature_threshold=number(curvature_threshold),
        noise=noise,
    )


def _set(stack: Array, value: Array, *place: object) -> Array:
    """Return the stack with a value at a place of its leading axes."""
    start = [jnp.int32(number) for number in (*place, *[0] * value.ndim)]
    return jax.lax.dynamic_update_slice(
        stack, value.reshape(*[1] * len(place), *value.shape), start
    )


def _is_equal(tree: PyTree, other: PyTree) -> Array:
    parts = jax.tree.leaves(jax.tree.map(lambda x, y: jnp.all(x == y), tree, other))
    return jnp.all(jnp.stack(parts))
