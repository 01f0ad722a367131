"""L-BFGS of SciPy, in coordinates of about equal curvature: a cheap way towards a mode.

Newton's method, which follows, judges whether there is a mode and how far it is.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.mode import settings
from ewsg_jax.answers.mode.potential import HostPotential, Point
from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import all_rows, num_rows, view
from ewsg_jax.vectors import differences


def approach(
    potential: HostPotential,
    start: Point,
    units: np.ndarray,
    tolerance: float,
    max_steps: int,
    progress: Callable[[], None],
) -> tuple[Point, int]:
    """Return a lower point than the start, and the number of steps to it.

    Args:
        potential: the potential.
        start: the start.
        units: units of the coordinates, shape (d,).
        tolerance: posterior standard deviations: the search ends with a step that lowers the
            potential by no more than that distance from a mode would.
        max_steps: the largest number of steps.
        progress: called after each step.
    """
    from scipy.optimize import OptimizeResult, minimize

    lowest, last, num_steps = start, start.value, 0

    def value_and_gradient(z: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal lowest
        point = potential.at(start.flat + units * z)
        if not point.is_finite():
            # Beyond the edge of the support: so much higher that the line search comes back.
            fall = abs(float(lowest.gradient @ (point.flat - lowest.flat)))
            return lowest.value + settings.KINK_FACTOR * fall, np.zeros_like(z)
        lowest = min(lowest, point, key=lambda candidate: candidate.value)
        return point.value, units * point.gradient

    def stepped(intermediate_result: OptimizeResult) -> None:
        nonlocal last, num_steps
        fall, last = last - intermediate_result.fun, intermediate_result.fun
        num_steps += 1
        progress()
        # A parabola falls by half the squared distance, in standard deviations.
        if fall <= tolerance**2 / 2:
            raise StopIteration

    if max_steps > 0:
        minimize(
            value_and_gradient,
            np.zeros_like(units),
            jac=True,
            method="L-BFGS-B",
            callback=stepped,
            options={
                "maxcor": 20,  # SciPy's default is 10
                "maxls": settings.MAX_STEP_LENGTHS,
                "maxiter": max_steps,
                "maxfun": settings.MAX_STEP_LENGTHS * max_steps,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
    return lowest, num_steps


@jax.jit(static_argnums=0)
def units_of(posterior: Posterior, position: Position, data: Data) -> Position:
    """Return units of coordinates in which curvatures are equal, to some orders of magnitude.

    Σ (∂Vᵢ)² over some rows stands for the diagonal of Σ ∇²Vᵢ, and |∇²V₀ 1| for that of the prior.
    """
    n, data = all_rows(data), view(data).tree
    count = min(num_rows(data), 256)

    def add(i: Array, total: Position) -> Position:
        # In floats, so that n·i is no overflow.
        row = (i * (num_rows(data) / count)).astype(jnp.int32)
        rows = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, row, 1), data)
        gradient = posterior.likelihood_gradient(position, rows)
        return jax.tree.map(lambda t, g: t + jnp.square(g.astype(t.dtype)), total, gradient)

    total = jax.lax.fori_loop(0, count, add, pytrees.widened(pytrees.zeros_like(position)))
    here, back = ravel_pytree(pytrees.widened(position))

    def prior_gradient(flat: Array) -> Array:
        return ravel_pytree(posterior.prior_gradient(back(flat)))[0]

    prior = back(differences.derivative(prior_gradient, here, jnp.ones_like(here)))
    curvature = jax.tree.map(lambda t, p: n / count * t + jnp.abs(p), total, prior)
    flat, unravel = ravel_pytree(curvature)
    logs = jnp.log(jnp.where(flat > 0, flat, jnp.nan))
    logs = jnp.nan_to_num(logs - jnp.nanmedian(logs), nan=0.0, posinf=0.0, neginf=0.0)
    # Within a factor of a hundred curvatures are left as they are: their estimates are no better.
    apart = jnp.sign(logs) * jnp.maximum(jnp.abs(logs) - math.log(100.0), 0.0)
    return jax.tree.map(lambda u, x: u.astype(x.dtype), unravel(jnp.exp(-0.5 * apart)), position)
