"""The quadratic bound of the logistic likelihood (Jaakkola & Jordan 1997), tight at a point c.

    log L(s) = y s − log(1 + eˢ),   s = xᵀθ,   ζ = xᵀc,   Δ = s − ζ
    log B(s) = log L(ζ) + (y − σ(ζ)) Δ − λ Δ²,   λ = tanh(ζ/2) / 4ζ   (1/8 at ζ = 0)

This is log σ(ζ) + (t − ζ)/2 − λ(t² − ζ²) at t = ±s, written around c. It is a bound for any
number y, because log(1 + eˢ) − s/2 is concave in s². The gap log L − log B is of order Δ² with a
factor that vanishes at ζ = 0; there the gap is Δ⁴/192.
"""

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, products, pytrees
from ewsg_jax.base.modules import hashable, module, static
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.bounds._protocol import Bound, Inputs, row_x, row_y
from ewsg_jax.bounds._remainders import log_partition
from ewsg_jax.rows._view import sum_over_rows


@module
class JaakkolaJordan(Bound[tuple[Array, Array]]):
    """The bound of `jaakkola_jordan`."""

    inputs: Inputs = static(default=row_x)
    targets: Inputs = static(default=row_y)

    def summarize(self, center: Array, data: Data, chunk_size: int) -> tuple[Array, Array]:
        center = pytrees.widened(center)

        def of_rows(rows: Data) -> tuple[Array, Array]:
            x, y = jax.vmap(self.inputs)(rows), jax.vmap(self.targets)(rows)
            at_center = products.matmul(x, center)
            y, predicted = pytrees.promoted(y, jax.nn.sigmoid(at_center))
            gradient = products.sum_of_outer(x, y - predicted)
            return gradient, products.einsum("bi,b,bj->ij", x, _curvature(at_center), x)

        return sum_over_rows(of_rows, data, chunk_size)

    def total(self, position: Array, center: Array, summary: tuple[Array, Array]) -> Array:
        gradient, curvature = summary
        change = pytrees.widened(position) - center
        return products.matmul(change, gradient) - products.matmul(
            products.matmul(change, curvature), change
        )

    def gaps(self, position: Array, center: Array, rows: Data) -> Array:
        x = jax.vmap(self.inputs)(rows)
        at_center = products.matmul(x, pytrees.widened(center))
        change = products.matmul(x, pytrees.widened(position) - center)
        # The logit is one of two predictors; the other is 0.
        remainder = log_partition(_with_zero(at_center), _with_zero(change))
        return _curvature(at_center) * jnp.square(change) - remainder


def jaakkola_jordan(*, inputs: Inputs = row_x, targets: Inputs = row_y) -> JaakkolaJordan:
    """Return the bound of log L = y xᵀθ − log(1 + exp(xᵀθ)); `models.logistic_regression` has it.

    Args:
        inputs: `inputs(datum) -> x`, shape (d,).
        targets: `targets(datum) -> y`, a number.

    Raises:
        TypeError: an argument is not a function.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> bound = ewsg.bounds.jaakkola_jordan()
        >>> rows = {"x": jnp.array([[1.0, 2.0]]), "y": jnp.array([1.0])}
        >>> bound.gaps(jnp.array([2.0, 1.0]), jnp.array([1.0, 1.0]), rows).round(4)
        Array([0.0584], dtype=float32)
    """
    checks.function("inputs", inputs, "(datum) -> x")
    checks.function("targets", targets, "(datum) -> y")
    return JaakkolaJordan(inputs=hashable(inputs), targets=hashable(targets))


def _curvature(at_center: Array) -> Array:
    """Return tanh(ζ/2) / 4ζ."""
    half = jnp.where(at_center == 0, 1, at_center / 2)
    return jnp.where(at_center == 0, 1 / 8, jnp.tanh(half) / (8 * half))


def _with_zero(predictor: Array) -> Array:
    return jnp.stack([jnp.zeros_like(predictor), predictor], axis=-1)
