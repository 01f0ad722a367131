"""L-BFGS with a zoom line search, both of optax, in coordinates of about equal curvature: towards a
mode, cheaply.

In the dtypes of the position. What it says of its distance is its own estimate; whether there is a
mode is judged elsewhere.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ewsg_jax import _tree
from ewsg_jax._types import Array, Data, Position
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import differences
from ewsg_jax.rows.view import all_rows, num_rows, view

MEMORY_SIZE = 20
"""Pairs that L-BFGS keeps."""
MOST_TRIALS = 30
"""Trials of a line search."""
ROWS_FOR_UNITS = 256
"""Rows whose gradients give the units of the coordinates."""
UNLIKE = 100.0
"""Curvatures that are unlike by less than this factor are left alone: they are not known better."""


class _Search(NamedTuple):
    """The state of L-BFGS: a point in units, with its value and gradient, and what optax keeps."""

    position: Position
    value: Array
    gradient: Position
    direction: Position
    distance: Array
    pairs: Any
    line: Any
    evaluations: Array


class Found(NamedTuple):
    """Where L-BFGS ended.

    Attributes:
        position: the point.
        num_steps: its steps.
        data_passes: gradients over all rows.
    """

    position: Position
    num_steps: int
    data_passes: float


def approach(
    posterior: Posterior,
    position: Position,
    units: Position,
    data: Data,
    tolerance: float,
    max_steps: int,
    chunk_size: int,
    progress: Callable[[], None],
) -> Found:
    """Go downhill until the distance is within tolerance, or as low as rounding allows."""
    here = position, units
    search, num_steps = _begin(posterior, here, data, chunk_size), 0
    while num_steps < max_steps and float(search.distance) > tolerance:
        following = _improve(posterior, search, here, data, chunk_size)
        value, distance = float(following.value), float(following.distance)
        # Beyond a wall the slope is 0, and the distance told of too.
        is_nearer = value < float(search.value) or distance < float(search.distance)
        if not (math.isfinite(value) and is_nearer):
            break
        search, num_steps = following, num_steps + 1
        progress()
    place = _in_place(*jax.device_get((search.position, here)))
    return Found(place, num_steps, float(search.evaluations))


@jax.jit(static_argnums=0)
def units_of(posterior: Posterior, position: Position, data: Data) -> Position:
    """Return units of coordinates in which curvatures are alike, to some orders of magnitude.

    Σ (∂Vᵢ)² over some rows stands for the diagonal of Σ ∇²Vᵢ, and |∇²V₀ 1| for that of the prior.
    """
    n, data = all_rows(data), view(data).tree
    count = min(num_rows(data), ROWS_FOR_UNITS)

    def add(i: Array, total: Position) -> Position:
        # In floats, so that n·i is no overflow.
        row = (i * (num_rows(data) / count)).astype(jnp.int32)
        rows = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, row, 1), data)
        gradient = posterior.likelihood_gradient(position, rows)
        return jax.tree.map(lambda t, g: t + jnp.square(g.astype(t.dtype)), total, gradient)

    total = jax.lax.fori_loop(0, count, add, _tree.widened(_tree.zeros_like(position)))
    here, back = ravel_pytree(_tree.widened(position))

    def prior_gradient(flat: Array) -> Array:
        return ravel_pytree(posterior.prior_gradient(back(flat)))[0]

    prior = back(differences.derivative(prior_gradient, here, jnp.ones_like(here)))
    curvature = jax.tree.map(lambda t, p: n / count * t + jnp.abs(p), total, prior)
    flat, unravel = ravel_pytree(curvature)
    logs = jnp.log(jnp.where(flat > 0, flat, jnp.nan))
    logs = jnp.nan_to_num(logs - jnp.nanmedian(logs), nan=0.0, posinf=0.0, neginf=0.0)
    unlike = jnp.sign(logs) * jnp.maximum(jnp.abs(logs) - math.log(UNLIKE), 0.0)
    return jax.tree.map(lambda u, x: u.astype(x.dtype), unravel(jnp.exp(-0.5 * unlike)), position)


def _in_place(position: Position, here: tuple[Position, Position]) -> Position:
    """Return the position of a point in units around a start."""
    return jax.tree.map(lambda z, start, unit: start + unit * z, position, *here)


def _potential(
    posterior: Posterior, here: tuple[Position, Position], data: Data, chunk_size: int
) -> Any:
    """Return V as a function of the point in units, whose derivative is the posterior's own."""

    @jax.custom_vjp
    def value(position: Position) -> Array:
        return posterior.varying.potential(_in_place(position, here), data, chunk_size)

    def backward(position: Position, cotangent: Array) -> tuple[Position]:
        gradient = posterior.gradient(_in_place(position, here), data, chunk_size)
        return (_tree.combine((cotangent, jax.tree.map(jnp.multiply, here[1], gradient))),)

    value.defvjp(lambda position: (value(position), position), backward)
    return value


def _parts() -> Any:
    import optax

    return optax.scale_by_lbfgs(MEMORY_SIZE), optax.scale_by_zoom_linesearch(MOST_TRIALS)


def _with_direction(search: _Search) -> _Search:
    """Return the search with its next direction B g, and the implied distance √(gᵀ B g)."""
    direction, pairs = _parts()[0].update(search.gradient, search.pairs, search.position)
    products = jax.tree.map(lambda g, d: jnp.sum(g * d), search.gradient, direction)
    distance = jnp.sqrt(jnp.maximum(sum(jax.tree.leaves(products)), 0.0))
    made = search._replace(direction=direction, distance=distance, pairs=pairs)
    # Of the same types from the first step on, also where the optimiser's are weak: one program for
    # all steps.
    return jax.tree.map(lambda x: jnp.asarray(x, x.dtype), made)


@jax.jit(static_argnums=(0, 3))
def _begin(
    posterior: Posterior, here: tuple[Position, Position], data: Data, chunk_size: int
) -> _Search:
    lbfgs, line_search = _parts()
    position = _tree.zeros_like(here[0])
    value, gradient = jax.value_and_grad(_potential(posterior, here, data, chunk_size))(position)
    kept = lbfgs.init(position), line_search.init(position)
    return _with_direction(
        _Search(position, value, gradient, gradient, jnp.zeros(()), *kept, jnp.float32(1.0))
    )


@jax.jit(static_argnums=(0, 4))
def _improve(
    posterior: Posterior,
    search: _Search,
    here: tuple[Position, Position],
    data: Data,
    chunk_size: int,
) -> _Search:
    """Go along the direction as far as the line search says."""
    updates, line = _parts()[1].update(
        _tree.combine((-1, search.direction)),
        search.line,
        search.position,
        value=search.value,
        grad=search.gradient,
        value_fn=_potential(posterior, here, data, chunk_size),
    )
    moved = search._replace(
        position=_tree.combine((1, search.position), (1, updates)),
        value=line.value,
        gradient=line.grad,
        line=line,
        evaluations=search.evaluations + line.info.num_linesearch_steps,
    )
    return _with_direction(moved)
