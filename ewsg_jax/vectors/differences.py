"""Second derivatives by differences of gradients, for models that JAX differentiates only once.

A central difference (∇V(θ + hv) − ∇V(θ − hv))/2h has an error by rounding, which grows as h falls,
and one by third derivatives of the gradient, which grows as h². The step is a small part of a
standard deviation, h √(vᵀ∇²V v) = δ: nothing depends on the units of a parameter.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ewsg_jax.base import products
from ewsg_jax.base.typing import Array

STEPS_IN_SDS = {8: (1e-4, 1e-3, 1e-2, 1e-1), 4: (0.03, 0.1, 0.3)}
"""δ, steps in standard deviations, by the bytes of a number: the first for functions that are exact
to rounding, the later ones for rougher functions. Set by hand."""
STEP_TOLERANCE = 4.0
"""Factor by which a step may miss the step of length δ. Set by hand."""
MOST_STEP_GROWTH = 1e3
"""Largest factor between a step and the next one that is tried. Set by hand."""


def part_of(dtype: jnp.dtype) -> float:
    """Return the δ for a function of this dtype that is a few digits rougher than rounding."""
    return STEPS_IN_SDS[jnp.dtype(dtype).itemsize][1]


def product(
    gradient: Callable[[Array], Array],
    flat: Array,
    v: Array,
    part: Array | float,
    first: Array | float = 0.0,
) -> Array:
    """Return ∇²V v.

    The step is searched between one that is too short by the standard deviation that its difference
    implies, and one that is too long or ends at a position without a finite gradient.

    Args:
        gradient: ∇V as a function of vectors.
        flat: the position, shape (d,).
        v: the direction, shape (d,).
        part: δ, the length of the step in standard deviations.
        first: the step that is tried first; 0 for one that moves no coordinate by more than a small
            part of itself.
    """
    # The third root of rounding, at which truncation and rounding of a difference are as large.
    largest = jnp.max(jnp.abs(v) / jnp.maximum(jnp.abs(flat), 1.0))
    default = jnp.finfo(flat.dtype).eps ** (1 / 3) / jnp.where(largest > 0, largest, 1.0)
    tiny = jnp.finfo(flat.dtype).tiny

    def step(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        length, short, long, image, number, _ = carry
        plus, minus = flat + length * v, flat - length * v
        # From both sides, so that the third derivative of V cancels.
        difference = (gradient(plus) - gradient(minus)) / (2 * length)
        is_known = jnp.all(jnp.isfinite(difference))
        bend = jnp.abs(products.matmul(v, difference))
        # The step of δ standard deviations, by the curvature along v.
        wanted = jnp.where(is_known, part / jnp.sqrt(jnp.maximum(bend, tiny)), 0.0).astype(
            length.dtype
        )
        is_near = is_known & (wanted <= STEP_TOLERANCE * length)
        is_near &= length <= STEP_TOLERANCE * wanted
        # A step that is too short or too long ends the interval in which the next one lies.
        short = jnp.where(wanted > length, jnp.maximum(short, length), short)
        long = jnp.where(wanted > length, long, jnp.minimum(long, length))
        following = jnp.clip(wanted, length / MOST_STEP_GROWTH, length * MOST_STEP_GROWTH)
        inside = (following > short) & (following < long)
        # With both ends known, their geometric mean.
        between = jnp.where(short > 0, jnp.sqrt(short) * jnp.sqrt(long), long / MOST_STEP_GROWTH)
        following = jnp.where(inside, following, between)
        return following, short, long, jnp.where(is_known, difference, image), number + 1, is_near

    def is_searching(carry: tuple[Array, ...]) -> Array:
        return (carry[4] < 12) & ~carry[5]

    length = jnp.where(jnp.asarray(first) > 0, first, default).astype(flat.dtype)
    ends = jnp.zeros_like(length), jnp.full_like(length, jnp.inf)
    start = (length, *ends, jnp.full_like(flat, jnp.nan), jnp.int32(0), jnp.bool_(False))
    return jax.lax.while_loop(is_searching, step, start)[3]


def derivative(gradient: Callable[[Array], Array], flat: Array, v: Array) -> Array:
    """Return ∇²V v, by differentiation if JAX can, else by differences."""
    try:
        return jax.vjp(gradient, flat)[1](v)[0]
    except Exception:
        # For example a NotImplementedError of gammaincc, or a custom_vjp whose rule cannot be
        # differentiated.
        return product(gradient, flat, v, part_of(flat.dtype))


def elementwise_derivative(function: Callable[[Array], Array], at: Array, v: Array) -> Array:
    """Return v times the derivatives of an elementwise function, by differentiation if JAX can,
    else by differences.
    """
    try:
        return jax.jvp(function, (at,), (v,))[1]
    except Exception:
        length = jnp.finfo(at.dtype).eps ** (1 / 3) * jnp.maximum(jnp.abs(at), 1.0)
        plus, minus = at + length, at - length
        return v * (function(plus) - function(minus)) / (plus - minus)
