"""The covariance of a gradient, as one of three structures."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ewsg_jax import products
from ewsg_jax._types import Array, Position

Structure = Literal["dense", "diagonal", "low_rank"]
STRUCTURES = ("dense", "diagonal", "low_rank")


class Covariance(NamedTuple):
    """A symmetric matrix over the d numbers of a position, raveled leaf after leaf.

    Attributes:
        matrix: dense, shape (d, d); its diagonal, shape (d,); or, of low rank, its part in the basis, shape (r, r).
        basis: orthonormal columns, shape (d, r), where it is of low rank: C = basis · matrix · basisᵀ.
    """

    matrix: Array
    basis: Array | None = None

    def times(self, vector: Position) -> Position:
        """Return the product with a tree shaped like the position."""
        flat, unravel = ravel_pytree(vector)
        if self.basis is not None:
            within = products.matmul(self.matrix, products.matmul(self.basis.T, flat))
            return unravel(products.matmul(self.basis, within).astype(flat.dtype))
        product = self.matrix * flat if self.matrix.ndim == 1 else products.matmul(self.matrix, flat)
        return unravel(product.astype(flat.dtype))


def clipped(matrix: Array, rounding: Array) -> tuple[Array, Array]:
    """Return a symmetric matrix (or diagonal) without its negative part, and whether it is none to rely on.

    It is none where its negative part exceeds the rounding, or the rounding a tenth of its largest eigenvalue.
    """

    def is_unsure(values: Array) -> Array:
        return jnp.any(values < -rounding) | (0.1 * jnp.max(values) < rounding)

    if matrix.ndim == 1:
        return jnp.maximum(matrix, 0), is_unsure(matrix)
    values, vectors = jnp.linalg.eigh(matrix)
    positive = products.matmul(vectors * jnp.maximum(values, 0), vectors.T)
    return positive, is_unsure(values)
