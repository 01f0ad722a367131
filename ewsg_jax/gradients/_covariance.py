"""The covariance of a gradient, as one of three structures."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import products
from ewsg_jax.base.factors import Factor
from ewsg_jax.base.typing import Array, Position

Structure = Literal["dense", "diagonal", "low_rank"]
STRUCTURES = ("dense", "diagonal", "low_rank")

OfEigenvalues = Callable[[Array], Array]


class Covariance(NamedTuple):
    """A symmetric matrix over the d parameters of a position in `ravel_pytree` order.

    Attributes:
        matrix: dense, shape (d, d); its diagonal, shape (d,); or its part in the basis, shape (r,
            r), or the eigenvalues, shape (r,), if that part is diagonal.
        basis: orthonormal columns, shape (d, r): C = basis · matrix · basisᵀ; for a dense matrix
            its d eigenvectors. Default None: no basis.
    """

    matrix: Array
    basis: Array | None = None

    @property
    def size(self) -> int:
        """The number of rows and columns, d."""
        return self.matrix.shape[-1] if self.basis is None else self.basis.shape[-2]

    def times(self, vector: Position) -> Position:
        """Return the product with a pytree shaped like the position."""
        flat, unravel = ravel_pytree(vector)
        within = flat if self.basis is None else products.matmul(self.basis.T, flat)
        product = (
            self.matrix * within if self.matrix.ndim == 1 else products.matmul(self.matrix, within)
        )
        return unravel(
            (product if self.basis is None else products.matmul(self.basis, product)).astype(
                flat.dtype
            )
        )

    def combine(self, *terms: tuple[OfEigenvalues, Position]) -> Position:
        """Return Σ f(C) v of pytrees v shaped like the position; f takes eigenvalues, any shape.

        A matrix that is not diagonal in its basis costs an eigendecomposition.
        """
        flat, unravel = zip(*(ravel_pytree(vector) for _, vector in terms), strict=True)
        functions = [function for function, _ in terms]
        # The eigenvalues are computed once for all terms.
        values, bases = self.matrix, [] if self.basis is None else [self.basis]
        if self.matrix.ndim == 2:
            values, inner = jnp.linalg.eigh(self.matrix)
            bases.append(inner)
        if not bases:
            total = sum(
                function(values) * vector for function, vector in zip(functions, flat, strict=True)
            )
            return unravel[0](jnp.asarray(total).astype(flat[0].dtype))

        total = jnp.zeros((), values.dtype)
        outside_part = jnp.zeros((), values.dtype)
        for function, vector in zip(functions, flat, strict=True):
            # Outside the basis the eigenvalues are 0. (Vectors side by side in one product: twice
            # the time.)
            outside = function(jnp.zeros((), values.dtype))
            within = vector
            for basis in bases:
                within = products.matmul(basis.T, within)
            total = total + (function(values) - outside) * within
            outside_part = outside_part + outside * vector
        for basis in reversed(bases):
            total = products.matmul(basis, total)
        return unravel[0]((total + outside_part).astype(flat[0].dtype))


class Congruent(NamedTuple):
    """Lᵀ C L: a covariance in the coordinates of an inverse mass L Lᵀ."""

    covariance: Covariance
    factor: Factor

    @property
    def size(self) -> int:
        """The number of rows and columns, d."""
        return self.covariance.size

    def times(self, vector: Position) -> Position:
        """Return the product with a pytree shaped like the position."""
        return self.factor.transposed(self.covariance.times(self.factor.times(vector)))


def clipped(matrix: Array, rounding: Array, basis: Array | None = None) -> tuple[Covariance, Array]:
    """Return a symmetric matrix without its negative part, and whether it is unreliable.

    It is unreliable if its negative part exceeds the rounding error, or the rounding error a tenth
    of its largest eigenvalue. With a basis, the matrix is the part within it.
    """

    def is_unsure(values: Array) -> Array:
        return jnp.any(values < -rounding) | (0.1 * jnp.max(values) < rounding)

    if matrix.ndim == 1:
        return Covariance(jnp.maximum(matrix, 0)), is_unsure(matrix)
    values, vectors = jnp.linalg.eigh(matrix)
    if basis is None:
        return Covariance(jnp.maximum(values, 0), vectors), is_unsure(values)
    positive = products.matmul(vectors * jnp.maximum(values, 0), vectors.T)
    return Covariance(positive, basis), is_unsure(values)
