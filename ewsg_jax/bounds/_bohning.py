"""The quadratic bound of the softmax likelihood (Böhning 1992), tight at a point c.

    log L(η) = η_y − lse(η),   η = Wᵀx,   ψ = Cᵀx,   Δ = η − ψ
    log B(η) = log L(ψ) + (e_y − softmax(ψ))ᵀΔ − ½ ΔᵀAΔ,   A = ½ (I − 11ᵀ/K)

A is at least the Hessian of lse at any point. The gap log L − log B is of order ‖Δ‖² for any c.
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
class Bohning(Bound[tuple[Array, Array]]):
    """The bound of `bohning`."""

    inputs: Inputs = static(default=row_x)
    targets: Inputs = static(default=row_y)

    def summarize(self, center: Array, data: Data, chunk_size: int) -> tuple[Array, Array]:
        center = pytrees.widened(center)

        def of_rows(rows: Data) -> tuple[Array, Array]:
            x, y = jax.vmap(self.inputs)(rows), jax.vmap(self.targets)(rows)
            predictors = products.matmul(x, center)
            residuals = jax.nn.one_hot(
                y, center.shape[-1], dtype=predictors.dtype
            ) - jax.nn.softmax(predictors)
            x = x.astype(predictors.dtype)
            return products.sum_of_outer(x, residuals), products.sum_of_outer(x, x)

        return sum_over_rows(of_rows, data, chunk_size)

    def total(self, position: Array, center: Array, summary: tuple[Array, Array]) -> Array:
        gradient, moments = summary
        change = pytrees.widened(position) - center
        apart = change - jnp.mean(change, axis=-1, keepdims=True)
        return jnp.sum(change * gradient) - 0.25 * jnp.sum(apart * products.matmul(moments, apart))

    def gaps(self, position: Array, center: Array, rows: Data) -> Array:
        x = jax.vmap(self.inputs)(rows)
        predictors = products.matmul(x, pytrees.widened(center))
        change = products.matmul(x, pytrees.widened(position) - center)
        apart = change - jnp.mean(change, axis=-1, keepdims=True)
        return 0.25 * jnp.sum(jnp.square(apart), axis=-1) - log_partition(predictors, change)


def bohning(*, inputs: Inputs = row_x, targets: Inputs = row_y) -> Bohning:
    """Return the bound of log L = (Wᵀx)_y − log Σₖ exp((Wᵀx)ₖ); `models.softmax_regression` has it.

    Args:
        inputs: `inputs(datum) -> x`, shape (d,).
        targets: `targets(datum) -> y`, a whole number from 0 to K − 1.

    Raises:
        TypeError: an argument is not a function.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> bound = ewsg.bounds.bohning()
        >>> rows = {"x": jnp.array([[1.0]]), "y": jnp.array([0])}
        >>> bound.gaps(jnp.array([[1.0, 0.0, 2.0]]), jnp.zeros((1, 3)), rows).round(4)
        Array([0.191], dtype=float32)
    """
    checks.function("inputs", inputs, "(datum) -> x")
    checks.function("targets", targets, "(datum) -> y")
    return Bohning(inputs=hashable(inputs), targets=hashable(targets))
