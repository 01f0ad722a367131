"""Which coordinates are effects: normal in the prior, with a width that other coordinates set.

By derivatives of the log prior f alone, so that no name is needed. Coordinate j is normal given
the others if ∂³ⱼⱼⱼ f = 0, and several are jointly normal if their second derivatives do not change
along any of them. Their precision matrix is then −∂² f, and j is an effect if its precision changes
with what is not normal, such as a log scale. The mean of effects passes this test too: given them,
its precision is set by their scale. A child has fewer neighbours (∂²ⱼₖ f ≠ 0) than its parent, so
the lowest level are the effects with the fewest of them. The next level shows when these are
integrated out, which for a normal distribution is algebra.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.compiling import UNOPTIMISED
from ewsg_jax.base.typing import Array
from ewsg_jax.hierarchy.conditionals import Level, VectorPrior

MIN_EFFECTS = 3
"""Effects of a level, at least. By hand: a scale of two is no scale that many share."""
NUM_POINTS = 3
"""Places at which the prior is differentiated: what differs between them is a dependence."""
NUM_HALVES = 10
"""Halves of the coordinates that are moved to see whether gradients of the others change."""
MAX_LEVELS = 3
"""Levels of effects, at most: the conditional mean of each takes those of all levels below it."""
MAX_COORDINATES = 1_000
"""Coordinates up to which second derivatives are formed, d² numbers for each point; memory."""
ROUNDING = 1e-5
"""A precision, relative to that before others were integrated out, that may be all rounding."""
ZERO = 1e-3
"""A derivative, relative to the size that it may have, below which it is rounding of float32."""


class Derivatives(NamedTuple):
    """Derivatives of a log prior f at a point.

    Attributes:
        second: ∂²ⱼₖ f, shape (d, d).
        third: ∂³ⱼⱼⱼ f, shape (d,).
        change: the change of the second derivatives along a direction, shape (d, d).
    """

    second: np.ndarray
    third: np.ndarray
    change: np.ndarray


def levels_of(prior: VectorPrior, points: np.ndarray) -> tuple[Level, ...]:
    """Return levels of effects in a prior, the lowest first; none if there is no hierarchy.

    Args:
        prior: the log prior of a vector.
        points: at least two positions at which it is differentiated, shape (points, d), that differ
            in every coordinate.
    """
    if points.shape[1] > MAX_COORDINATES or _is_separable(prior, points):
        return ()
    rng = np.random.default_rng(0)
    directions = rng.normal(size=points.shape)
    at_points = [_derivatives(prior, x, r) for x, r in zip(points, directions, strict=True)]
    if not all(np.isfinite(x).all() for one in at_points for x in one):
        return ()
    is_normal = np.logical_and.reduce([_is_normal(one) for one in at_points])
    # Jointly normal: what changes along the others, as a product of two coordinates, is left out.
    along = _derivatives(prior, points[0], np.where(is_normal, directions[0], 0.0))
    is_normal &= ~_differs(np.diag(along.change), np.diag(along.second))
    places = np.flatnonzero(is_normal)
    precisions = [-one.second[np.ix_(places, places)] for one in at_points]
    return _levels(places, precisions)


def _is_separable(prior: VectorPrior, points: np.ndarray) -> bool:
    """Return whether no coordinate's gradient changes with another one: there is no hierarchy.

    Most priors are such, and first derivatives show it, which compile in a part of the time.
    """
    rng = np.random.default_rng(0)
    # With ten random halves all pairs but one in a thousand are apart in one of them.
    is_moved = rng.random((NUM_HALVES, points.shape[1])) < 0.5
    places = np.concatenate([points[:1], np.where(is_moved, points[1], points[0])])
    dtype = jnp.result_type(float, *prior.layout.dtypes)
    # Arrays of NumPy: a change of dtype on the device is a program of its own.
    first, *others = np.asarray(_gradients(prior, places.astype(dtype)), np.float64)
    return not any(
        (_differs(other - first, first) & ~moved).any()
        for other, moved in zip(others, is_moved, strict=True)
    )


def _levels(places: np.ndarray, precisions: list[np.ndarray]) -> tuple[Level, ...]:
    """Return levels among jointly normal coordinates.

    Args:
        places: the coordinates, shape (k,).
        precisions: their precision matrices at some points, shape (k, k) each.
    """
    levels: tuple[Level, ...] = ()
    # Of a mean with a flat prior only rounding is left when its effects are integrated out.
    least = ROUNDING * np.min([np.diag(p) for p in precisions], axis=0, initial=np.inf)
    while len(levels) < MAX_LEVELS and len(places):
        level = _lowest(precisions, least)
        if len(level) < MIN_EFFECTS:
            break
        levels = (*levels, tuple(places[level].tolist()))
        rest = np.setdiff1d(np.arange(len(places)), level)
        # Integrated out: those of a level are independent of each other given all others.
        precisions = [
            p[np.ix_(rest, rest)] - (p[np.ix_(rest, level)] / np.diag(p)[level]) @ p[level][:, rest]
            for p in precisions
        ]
        places, least = places[rest], least[rest]
    return levels


def _lowest(precisions: list[np.ndarray], least: np.ndarray) -> np.ndarray:
    """Return which coordinates are the lowest level of effects.

    Args:
        precisions: precision matrices at some points, shape (k, k) each.
        least: precisions up to which a coordinate is improper, shape (k,).
    """
    first, diagonals = precisions[0], [np.diag(p) for p in precisions]
    is_proper = np.logical_and.reduce([diagonal > least for diagonal in diagonals])
    depends = np.logical_or.reduce([_differs(d - diagonals[0], d) for d in diagonals[1:]])
    widths = np.where(is_proper, diagonals[0], 1.0) ** -0.5
    neighbours = np.abs(first) * widths * widths[:, None] > ZERO
    np.fill_diagonal(neighbours, False)
    effects = np.flatnonzero(depends & is_proper)
    degree = neighbours.sum(1)
    chosen: list[int] = []
    for effect in effects[degree[effects] == degree[effects].min(initial=len(first))]:
        if not neighbours[effect, chosen].any():
            chosen.append(int(effect))
    return np.array(chosen, int)


def _is_normal(derivatives: Derivatives) -> np.ndarray:
    """Return which coordinates are normal given all others, shape (d,)."""
    precision = -np.diag(derivatives.second)
    width = np.where(precision > 0, precision, 1.0) ** -0.5
    return (precision > 0) & ~_differs(derivatives.third * width, precision)


def _differs(difference: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return which differences are more than rounding of numbers of some size."""
    return np.abs(difference) > ZERO * np.abs(size)


def _derivatives(prior: VectorPrior, point: np.ndarray, direction: np.ndarray) -> Derivatives:
    """Return derivatives at a point, in float64."""
    dtype = jnp.result_type(float, *prior.layout.dtypes)
    arrays = _program(prior, point.astype(dtype), direction.astype(dtype))
    return Derivatives(*(np.asarray(x, np.float64) for x in arrays))


@functools.partial(jax.jit, static_argnums=0, compiler_options=UNOPTIMISED)
def _gradients(prior: VectorPrior, points: Array | np.ndarray) -> Array:
    """Return gradients at points (points, d)."""
    return jax.vmap(jax.grad(prior))(points)


@functools.partial(jax.jit, static_argnums=0, compiler_options=UNOPTIMISED)
def _program(
    prior: VectorPrior, point: Array | np.ndarray, direction: Array | np.ndarray
) -> tuple[Array, Array, Array]:
    """Return the arrays of `Derivatives`."""
    axes = jnp.eye(point.shape[0], dtype=point.dtype)

    def product(at: Array, axis: Array) -> Array:
        """Return a row of second derivatives."""
        return jax.jvp(jax.grad(prior), (at,), (axis,))[1]

    def changes(axis: Array) -> tuple[Array, Array, Array]:
        """Return a row of second derivatives, its change along its axis, and along another."""

        def change(along: Array) -> tuple[Array, Array]:
            return jax.jvp(lambda at: product(at, axis), (point,), (along,))

        rows, (along_axis, other) = jax.vmap(change)(jnp.stack([axis, direction]))
        return rows[0], along_axis @ axis, other

    return jax.vmap(changes)(axes)
