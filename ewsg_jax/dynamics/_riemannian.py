"""Langevin dynamics in a user-defined metric (SGRLD, Patterson & Teh 2013; Girolami & Calderhead
2011).

    θ' = θ − h (G⁻¹ g − Γ) + √(2hT) L ξ,   L Lᵀ = G⁻¹(θ),   Γᵢ = T Σⱼ ∂ⱼ (G⁻¹)ᵢⱼ

Targets exp(−V/T), a density by dθ, with a bias of order h. The step size h is half of the paper's
ε. Γ is the one drift with which that density π has no flux: Γ π = G⁻¹∇V π + T ∇·(G⁻¹π). The drift
that Patterson & Teh print, T (−2 Σⱼ (G⁻¹ ∂ⱼG G⁻¹)ᵢⱼ + Σⱼ (G⁻¹)ᵢⱼ tr(G⁻¹ ∂ⱼG)), is another unless
G⁻¹ = diag(Dᵢ(θᵢ)), as in their examples. A stochastic gradient adds h·G⁻¹Cov(g)/2 to the
temperature.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checks, products, pytrees
from ewsg_jax.base.modules import hashable, module, static
from ewsg_jax.base.needs import Need
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Data, Hyperparameter, Key, Position, PyTree
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

OfPosition = Callable[[Position, Data], PyTree]


class RiemannianState(NamedTuple):
    """Position θ and the number of steps made."""

    position: Position
    step: Array


class PreparedMetric(NamedTuple):
    """The state, G⁻¹, its factor L and Γ/T, in `ravel_pytree` order; a diagonal has shape (d,)."""

    state: RiemannianState
    inverse_metric: Array
    factor: Array
    divergence: Array


@module
class Riemannian(Dynamics[RiemannianState]):
    """The dynamics of `riemannian`."""

    # The metric is a function of all rows. A stack of data sets finds out whether it reads them.
    needs = frozenset({Need.ONE_PLACE, Need.ALL_ROWS})

    frozen_noise: ClassVar = ("momentum", "zero", "one")

    step_size: Constant | Schedule
    inverse_metric: OfPosition = static()
    divergence: OfPosition | None = static(default=None)
    temperature: Constant | Schedule
    noise: NoiseKind = static(default="gaussian")

    def init(self, key: Key, position: Position) -> RiemannianState:
        return RiemannianState(position, jnp.int32(0))

    def prepare(
        self, state: RiemannianState, prior_gradient: PriorGradient, data: Data
    ) -> PreparedMetric:
        shapes = checks.shapes(state.position), checks.shapes(data)
        is_dense = _is_matrix("inverse_metric", self.inverse_metric, *shapes, may_be=True)
        flat, unravel = ravel_pytree(state.position)

        def metric_at(x: Array) -> Array:
            value = self.inverse_metric(unravel(x), data)
            return pytrees.widened(jnp.asarray(value)) if is_dense else _flat(value)

        metric = metric_at(flat)
        # Γ, the divergence of the metric, by d derivatives: for a dense metric of many parameters
        # the user should give it.
        if self.divergence is None:
            # ∂ⱼ of the j-th column, of a diagonal of its j-th entry.
            drift = jax.vmap(
                lambda j: _derivative(lambda y: metric_at(y)[..., j], flat, j), out_axes=-1
            )(jnp.arange(flat.shape[0]))
            drift = jnp.sum(drift, axis=-1) if is_dense else drift
        else:
            _is_matrix("divergence", self.divergence, *shapes, may_be=False)
            drift = _flat(self.divergence(state.position, data))
        # Once a step, for the noise, and for the weight of each candidate.
        factor = jnp.linalg.cholesky(metric) if is_dense else jnp.sqrt(metric)
        return PreparedMetric(state, metric, factor, drift)

    def log_weight(
        self, prepared: PreparedMetric, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        factor, step = prepared.factor, prepared.state.step
        h, t = self.step_size(step), self.temperature(step)
        # θ' = θ is the most likely value: x undoes the drift Γ.
        if factor.ndim == 2:
            drift = jax.scipy.linalg.solve_triangular(factor, prepared.divergence, lower=True)
        else:
            drift = prepared.divergence / factor
        scaled = _unflat(_times(factor.T, _flat(estimate.gradient)), estimate.gradient)
        x = -jnp.sqrt(h * t / 2), _unflat(drift, estimate.gradient)
        return half_squared_sum(frozen_noise, x, jnp.sqrt(h / (2 * t)), scaled)

    def apply(
        self, noise: PyTree, prepared: PreparedMetric, estimate: Estimate, gradient_at: GradientAt
    ) -> RiemannianState:
        state = prepared.state
        h, t = self.step_size(state.step), self.temperature(state.step)
        drift = _times(prepared.inverse_metric, _flat(estimate.gradient)) - t * prepared.divergence
        change = -h * drift + jnp.sqrt(2 * h * t) * _times(prepared.factor, _flat(noise))
        return RiemannianState(
            pytrees.combine((1, state.position), (1, _unflat(change, state.position))),
            state.step + 1,
        )


def riemannian(
    step_size: Hyperparameter,
    *,
    inverse_metric: OfPosition,
    divergence: OfPosition | None = None,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
) -> Riemannian:
    """Move along the gradient in a metric that changes with the position.

    Args:
        step_size: h > 0, half of the paper's ε; a number, a traced scalar or a schedule.
        inverse_metric: `inverse_metric(position, data)` is G⁻¹, differentiable and positive
            definite: a pytree like the position, for a diagonal metric; or an array (d, d), over
            the d parameters in `ravel_pytree` order. It gets all data, and its evaluations are not
            counted.
        divergence: `divergence(position, data)` is Σⱼ ∂ⱼ(G⁻¹)ᵢⱼ, a pytree like the position. By
            default automatic: d forward derivatives of `inverse_metric` at once, of d² numbers or,
            dense, of d³.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order and heuristic under
            exponential weights.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; in a step, that a function
            fails or returns something of another shape. A metric that is not positive definite
            makes the state NaN.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.riemannian(
        ...     1e-3, inverse_metric=lambda position, data: 1 + position**2
        ... )
    """
    fields = hyperparameters(step_size=step_size, temperature=temperature)
    checks.function("inverse_metric", inverse_metric, "(position, data) -> G⁻¹")
    if divergence is not None:
        checks.function("divergence", divergence, "(position, data) -> pytree")
    check_noise(noise)
    return Riemannian(
        **fields,
        inverse_metric=hashable(inverse_metric),
        divergence=None if divergence is None else hashable(divergence),
        noise=noise,
    )


def _flat(tree: PyTree) -> Array:
    """Return the d parameters in `ravel_pytree` order, at least in float32."""
    return ravel_pytree(pytrees.widened(tree))[0]


def _unflat(x: Array, like: PyTree) -> PyTree:
    """Return d numbers as a pytree, at least in float32."""
    flat, unravel = ravel_pytree(pytrees.widened(like))
    return unravel(x.astype(flat.dtype))


def _times(matrix: Array, x: Array) -> Array:
    return products.matmul(matrix, x) if matrix.ndim == 2 else matrix * x


def _derivative(function: Callable[[Array], Array], x: Array, j: Array) -> Array:
    """Return ∂f/∂xⱼ."""
    return jax.jvp(function, (x,), (jnp.zeros_like(x).at[j].set(1),))[1]


def _is_matrix(
    name: str, function: OfPosition, position: PyTree, data: PyTree, may_be: bool
) -> bool:
    """Check what a user's function returns for these shapes; return whether it is a matrix."""
    d = pytrees.size(position)
    matrix = f" or an array ({d}, {d})" if may_be else ""
    takes = f"{name} must return a pytree like the position{matrix}, of floating-point dtype"
    try:
        value = jax.eval_shape(lambda *a: jax.tree.map(jnp.asarray, function(*a)), position, data)
    except Exception as error:
        raise ValueError(f"{takes}; it failed: {checks.reason(error)}") from error
    shapes, like = ([x.shape for x in jax.tree.leaves(tree)] for tree in (value, position))
    if all(jnp.issubdtype(x.dtype, jnp.floating) for x in jax.tree.leaves(value)):
        if jax.tree.structure(value) == jax.tree.structure(position) and shapes == like:
            return False
        if may_be and getattr(value, "shape", None) == (d, d):
            return True
    listed = checks.listed("it", value) or "nothing"
    raise ValueError(f"{takes} ({checks.listed('position', position)}); got {listed}")
