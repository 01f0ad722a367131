"""Second derivatives by differences of gradients, where a model can be differentiated once only.

A central difference (∇V(θ + hv) − ∇V(θ − hv))/2h is off by rounding, which grows as h falls, and by
the third derivatives of the gradient, which grow as h². The step is a small part of a standard
deviation, h √(vᵀ∇²V v) = δ: nothing depends on the units of a parameter.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ewsg_jax.base import products
from ewsg_jax.base.typing import Array

PARTS = {8: (1e-4, 1e-3, 1e-2, 1e-1), 4: (0.03, 0.1, 0.3)}
"""δ by the bytes of a number: for functions known to rounding, and for rougher ones."""
MOST_ROUNDS, NEAR = 12, 4.0
"""Steps tried for one direction, and by which factor the last may miss the one wanted."""
FARTHER = 1e3
"""How many times as far the next step may go at most."""


def part_of(dtype: jnp.dtype) -> float:
    """Return the δ of a function of this dtype known to some digits fewer than rounding allows."""
    return PARTS[jnp.dtype(dtype).itemsize][1]


def product(
    gradient: Callable[[Array], Array],
    flat: Array,
    v: Array,
    part: Array | float,
    first: Array | float = 0.0,
) -> Array:
    """Return ∇²V v.

    Args:
        gradient: ∇V, of vectors.
        flat: where, shape (d,).
        v: shape (d,).
        part: δ, the length of the step in standard deviations.
        first: the step that is tried first; 0: one that moves no coordinate by more than a small
            part of itself.

    The step is found between one that is too short for what the difference says of the width, and
    one that is too long, or leads to where there is no gradient.
    """
    # A third root of rounding, where truncation and rounding of a difference are as large.
    largest = jnp.max(jnp.abs(v) / jnp.maximum(jnp.abs(flat), 1.0))
    own = jnp.finfo(flat.dtype).eps ** (1 / 3) / jnp.where(largest > 0, largest, 1.0)
    tiny = jnp.finfo(flat.dtype).tiny

    def step(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        length, short, long, image, number, _ = carry
        plus, minus = flat + length * v, flat - length * v
        # From both sides, so that the third derivative of V cancels.
        found = (gradient(plus) - gradient(minus)) / (2 * length)
        is_known = jnp.all(jnp.isfinite(found))
        bend = jnp.abs(products.matmul(v, found))
        # The step at which a unit of curvature changes the slope by the part that is wanted.
        wanted = jnp.where(is_known, part / jnp.sqrt(jnp.maximum(bend, tiny)), 0.0).astype(
            length.dtype
        )
        is_near = is_known & (wanted <= NEAR * length) & (length <= NEAR * wanted)
        # A step that is too short or too long ends the interval in which the next one lies.
        short = jnp.where(wanted > length, jnp.maximum(short, length), short)
        long = jnp.where(wanted > length, long, jnp.minimum(long, length))
        following = jnp.clip(wanted, length / FARTHER, length * FARTHER)
        inside = (following > short) & (following < long)
        # Where both ends are known, half of the way between them, in orders of magnitude.
        between = jnp.where(short > 0, jnp.sqrt(short) * jnp.sqrt(long), long / FARTHER)
        following = jnp.where(inside, following, between)
        return following, short, long, jnp.where(is_known, found, image), number + 1, is_near

    def goes_on(carry: tuple[Array, ...]) -> Array:
        return (carry[4] < MOST_ROUNDS) & ~carry[5]

    length = jnp.where(jnp.asarray(first) > 0, first, own).astype(flat.dtype)
    ends = jnp.zeros_like(length), jnp.full_like(length, jnp.inf)
    start = (length, *ends, jnp.full_like(flat, jnp.nan), jnp.int32(0), jnp.bool_(False))
    return jax.lax.while_loop(goes_on, step, start)[3]


def derivative(gradient: Callable[[Array], Array], flat: Array, v: Array) -> Array:
    """Return ∇²V v: by differentiation where JAX knows how, else by differences."""
    try:
        return jax.vjp(gradient, flat)[1](v)[0]
    except Exception:
        # Such as a NotImplementedError of gammaincc, or a custom_vjp whose rule cannot be
        # differentiated.
        return product(gradient, flat, v, part_of(flat.dtype))


def slopes(function: Callable[[Array], Array], at: Array, v: Array) -> Array:
    """Return derivatives of an elementwise function times v, in the same way."""
    try:
        return jax.jvp(function, (at,), (v,))[1]
    except Exception:
        length = jnp.finfo(at.dtype).eps ** (1 / 3) * jnp.maximum(jnp.abs(at), 1.0)
        plus, minus = at + length, at - length
        return v * (function(plus) - function(minus)) / (plus - minus)
