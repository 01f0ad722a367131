"""The largest stable step, by the largest curvature that chains meet, which may be far larger than
the mode's.

A posterior may have steep edges away from its mode. A chain that steps beyond such an edge gets a
huge gradient, is thrown back, and oscillates.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.forecast.dynamics_step import Scheme, at_rest, moved_by, names_of
from ewsg_jax.answers.mode.lanczos import Recursion
from ewsg_jax.base import pytrees
from ewsg_jax.base.compiling import UNOPTIMISED, in_float64, run
from ewsg_jax.base.factors import Number
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics._mass import Mass, with_step_size
from ewsg_jax.dynamics._protocol import Constant, needs_covariance
from ewsg_jax.gradients._covariance import Covariance
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.potential import Compiled, PotentialSpec, product_with


def largest_curvature(
    of: PotentialSpec, mass: Mass | None, position: Position, places: np.ndarray, data: Data
) -> float:
    """Return the largest eigenvalue of Lᵀ∇²V L over some places.

    Args:
        of: the potential.
        mass: its factor is L; None for L = 1.
        position: the mode.
        places: positions less the mode, flat, shape (places, d).
        data: the rows.
    """
    factor = Number(root=1.0) if mass is None else mass.factor
    flat = np.concatenate([np.asarray(x).ravel() for x in jax.tree.leaves(position)])
    start = np.random.default_rng(3).standard_normal(flat.shape)
    size = min(6, len(start))
    # A part of the largest number, below which a number is rounding in float32.
    recursions = [Recursion(start, size, 1e-5) for _ in places]
    # All places together: the rows are read once for each product.
    while not all(one.is_over for one in recursions):
        vectors = np.stack([one.vector for one in recursions])
        images = _images(
            of, factor, position, np.asarray(places, np.float32), vectors.astype(flat.dtype), data
        )
        for one, image in zip(recursions, np.asarray(images, float), strict=True):
            one.add(image)
    return max(0.0, *(one.spectrum().largest for one in recursions))


def compile_ahead(
    of: PotentialSpec, factor: object, position: Position, count: int, data: Data
) -> None:
    """Compile what `largest_curvature` runs for `count` places."""
    size = pytrees.size(position)
    dtype = jnp.result_type(*jax.tree.leaves(position))
    places = jax.ShapeDtypeStruct((count, size), jnp.float32)
    vectors = jax.ShapeDtypeStruct((count, size), dtype)
    run(_images.suited(of, data), of, factor, position, places, vectors, data)


def in_mass(mass: Mass | None, curvature: np.ndarray, layout: Layout) -> float:
    """Return the largest eigenvalue of Lᵀ H L, for a matrix H of shape (d, d)."""
    if mass is not None:
        rows = [layout.tree(row, np.float32) for row in np.eye(len(curvature))]
        turned = np.stack(
            [vector(mass.factor.times(jax.tree.map(jnp.asarray, row))) for row in rows]
        )
        curvature = turned @ curvature @ turned.T
    return float(np.linalg.eigvalsh(curvature)[-1])


def traces(
    of: PotentialSpec, mass: Mass, position: Position, places: np.ndarray, data: Data
) -> np.ndarray:
    """Return an unbiased estimate of the trace of Lᵀ∇²V L at each place, shape (places,): the
    products vᵀLᵀ∇²V L v for random signs v, which are exact if the matrix is diagonal.

    Args:
        of: the potential.
        mass: its factor is L.
        position: the mode.
        places: positions less the mode, flat, shape (places, d).
        data: the rows.
    """
    signs = np.random.default_rng(7).choice([-1.0, 1.0], places.shape)
    dtype = np.concatenate([np.asarray(x).ravel() for x in jax.tree.leaves(position)]).dtype
    images = _images(of, mass.factor, position, places, signs.astype(dtype), data)
    return np.sum(signs * np.asarray(images, float), axis=1)


@Compiled
def _images(
    of: PotentialSpec, factor: Any, position: Position, places: Array, vectors: Array, data: Data
) -> Array:
    """Return Lᵀ∇²V L v for a vector v at each place, shape (places, d)."""
    flat, unravel = ravel_pytree(position)

    def at_place(place: Array, v: Array) -> Array:
        moved = ravel_pytree(factor.times(unravel(v)))[0]
        return ravel_pytree(
            factor.transposed(unravel(product_with(of, flat + place, data)(moved)))
        )[0]

    return jax.vmap(at_place)(places, vectors)


def largest_step(dynamics: Dynamics, step: int, curvature: float, noise: float) -> float:
    """Return the step size above which a direction of this curvature is unstable.

    Args:
        dynamics: it depends on the position through the gradient alone, and has no mass.
        step: the number of the step at which schedules are read.
        curvature: the curvature of the direction.
        noise: the largest eigenvalue of the gradient's covariance, for a friction that uses it.
    """

    def is_stable(h: float) -> bool:
        # In float64: for a short step or a small friction float32 rounds the eigenvalue to 1.
        with in_float64():
            covariance = Covariance(jnp.array([noise])) if needs_covariance(dynamics) else ()
            matrix = _matrix(dynamics, at_rest(dynamics, step), curvature, covariance, h)
        matrix = np.asarray(matrix, float)
        return bool(np.isfinite(matrix).all() and np.abs(np.linalg.eigvals(matrix)).max() < 1)

    low = high = float(dynamics.step_size(jnp.int32(step)))
    while is_stable(high) and high < 1e30:
        low, high = high, 4 * high
    while not is_stable(low) and low > 1e-30:
        low, high = low / 4, low
    # To the last digit of float64.
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low


@functools.partial(jax.jit, compiler_options=UNOPTIMISED)
def _matrix(
    dynamics: Dynamics, state: PyTree, curvature: Array, covariance: PyTree, step_size: Array
) -> Array:
    """Return the matrix of a step of this size on z, in a potential of this curvature."""
    resized = with_step_size(dynamics, Constant(value=step_size))
    scheme = Scheme(dynamics=resized, posterior=None, state=state, covariance=covariance)
    still = jnp.zeros_like(scheme.noise(jax.random.key(0)))

    def moved(z: Array) -> Array:
        return scheme.step(z, curvature * resized.evaluation_point(moved_by(state, z)), still)

    return jax.jacfwd(moved)(jnp.zeros(len(names_of(state))))
