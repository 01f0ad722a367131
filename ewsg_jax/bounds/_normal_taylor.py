"""A bound of the normal likelihood with unknown scale: its second Taylor polynomial less a bound of
the remainder.

    log L = −τ − ½ (x − μ)² e^(−2τ),   θ = (μ, τ = log σ),   (a, b) = θ − c,
    r = x − μ_c,   w = e^(−2τ_c)

No quadratic with one curvature everywhere is a bound: the third derivative along the segment from c
to θ, at its point t, is w_t b (6a² + 12ab r_t + 4b² r_t²) with r_t = r − ta and w_t = w e^(−2bt),
as large as x and σ make it. It is bounded on the segment, by a polynomial in x, so that its sum
needs n, Σr and Σr² only:

    b ≥ 0:  at least −3 w a² b, for 4b²r² + 12abr + 9a² is a square;
    b < 0:  at least −w e^(−2b) |b| (12a² + 10 b² r_t²), for 12|abr| ≤ 6a² + 6b²r²;
            and r_t² ≤ (1−t) r₀² + t r₁².

Times (1−t)²/2 and over t from 0 to 1 the remainder is at least −R,

    b ≥ 0:  R = ½ w a² b
    b < 0:  R = w e^(−2b) |b| (2a² + 10 b² (r₀²/8 + r₁²/24)),   r₁ = r − a.

The gap log L − log B is of third order in θ − c.
"""

import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.bounds._protocol import Bound
from ewsg_jax.bounds._remainders import exponential
from ewsg_jax.rows._view import num_rows, sum_over_rows


@module
class NormalTaylor(Bound[tuple[Array, Array, Array]]):
    """The bound of `normal_taylor`."""

    def summarize(self, center: Array, data: Data, chunk_size: int) -> tuple[Array, Array, Array]:
        mean = pytrees.widened(center)[0]

        def of_rows(rows: Data) -> tuple[Array, Array]:
            return jnp.sum(rows - mean), jnp.sum(jnp.square(rows - mean))

        first, second = sum_over_rows(of_rows, data, chunk_size)
        return jnp.asarray(num_rows(data), first.dtype), first, second

    def total(self, position: Array, center: Array, summary: tuple[Array, Array, Array]) -> Array:
        count, first, second = summary
        a, b, weight = _change(position, center)
        linear = a * weight * first + b * (weight * second - count)
        curved = -0.5 * weight * (a * a * count + 4 * a * b * first + 2 * b * b * second)
        moved = second - 2 * a * first + a * a * count
        return linear + curved - _remainder(a, b, weight, count, second, moved)

    def gaps(self, position: Array, center: Array, rows: Data) -> Array:
        a, b, weight = _change(position, center)
        r = rows - pytrees.widened(center)[0]
        x = -2 * b
        beyond = (
            exponential(x, 3) * jnp.square(r)
            - 2 * a * r * exponential(x, 2)
            + jnp.square(a) * exponential(x, 1)
        )
        return (
            _remainder(a, b, weight, 1.0, jnp.square(r), jnp.square(r - a)) - 0.5 * weight * beyond
        )


def normal_taylor() -> NormalTaylor:
    """Return the bound of log L = −log σ − (x − μ)²/2σ² at (μ, log σ); `models.normal` has it.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> bound = ewsg.bounds.normal_taylor()
        >>> bound.gaps(jnp.array([0.1, -0.1]), jnp.zeros(2), jnp.array([0.0, 2.0])).round(4)
        Array([0.0013, 0.0108], dtype=float32)
    """
    return NormalTaylor()


def _change(position: Array, center: Array) -> tuple[Array, Array, Array]:
    """Return a, b and w."""
    center = pytrees.widened(center)
    change = pytrees.widened(position) - center
    return change[0], change[1], jnp.exp(-2 * center[1])


def _remainder(
    a: Array, b: Array, weight: Array, count: Array | float, at_center: Array, at_position: Array
) -> Array:
    """Return R, or its sum; `at_center` is Σr₀², `at_position` Σr₁²."""
    narrower = (
        weight
        * jnp.exp(-2 * b)
        * -b
        * (2 * a * a * count + 10 * b * b * (at_center / 8 + at_position / 24))
    )
    return jnp.where(b < 0, narrower, 0.5 * weight * a * a * b * count)
