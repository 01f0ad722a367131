"""How much gradients of rows differ at a point, which makes the covariance of a batch's sum."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike

from ewsg_jax.base import products, pytrees, rng
from ewsg_jax.base.typing import Array, Data, Key, Position, Scalar
from ewsg_jax.gradients._covariance import Structure
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._scheme import SamplingScheme
from ewsg_jax.rows._shards import Shard
from ewsg_jax.rows._view import fold_over_rows, view

ROWS_PER_GUESS = 16
"""Rows whose mean gradient is the first guess at the mean over all rows; set by hand."""


def outer(centred: Array, structure: Structure, basis: Array | None = None) -> Array:
    """Return Σ aᵢaᵢᵀ of rows a (b, d) in the structure: (d, d), diagonal (d,), or basis (r, r)."""
    projections = centred if basis is None else products.matmul(centred, basis)
    return (
        jnp.sum(projections**2, axis=0)
        if structure == "diagonal"
        else products.matmul(projections.T, projections)
    )


def spread(
    posterior: Posterior,
    point: Position,
    data: Data,
    chunk_size: int,
    structure: Structure,
    basis: Array | None = None,
) -> tuple[Array, Array]:
    """Return the mean of all ∇Vᵢ, and n Σ aᵢaᵢᵀ with a = ∇Vᵢ − mean in the structure.

    One pass, with a guess at the mean subtracted: the cancellation is as large as the error of the
    guess, however large the mean is. A part of the data has its own mean and sum.
    """
    n = number_of(data, like_row(posterior, point, data).dtype)
    # With a basis no gradient of a row is made: its products with the basis are enough.
    if basis is not None:
        size = basis.shape[1], basis.shape[1]
        sums = _through(
            posterior,
            point,
            data,
            chunk_size,
            basis,
            size,
            lambda projections, _: products.matmul(projections.T, projections),
        )
        return sums.gradients / n, n * sums.products - jnp.outer(sums.projections, sums.projections)

    def add(
        total: tuple[Array, Array, Array], rows: Data, before: Array | int
    ) -> tuple[Array, Array, Array]:
        guess, first, second = total
        # Less a guess at the mean: sums of squares of large numbers would lose their difference.
        g = posterior.flat_row_gradients(point, rows)
        guess = jnp.where(before == 0, jnp.mean(g[:ROWS_PER_GUESS], axis=0), guess)
        g = view(rows).only_counted(g - guess[None])
        return guess, first + jnp.sum(g, axis=0), second + outer(g, structure)

    row = like_row(posterior, point, data)
    zero = jnp.zeros(row.shape, row.dtype)
    start = (
        zero,
        zero,
        jnp.zeros(row.shape if structure == "diagonal" else row.shape * 2, row.dtype),
    )
    guess, first, second = fold_over_rows(add, start, data, chunk_size)
    # The error of the guess is corrected.
    return guess + first / n, n * second - outer(first[None], structure)


def turned(
    posterior: Posterior, point: Position, data: Data, chunk_size: int, basis: Array
) -> Array:
    """Return a basis turned towards the leading directions: spread times basis, orthonormal."""
    sums = _through(
        # One pass: what a basis sees of each row goes back through the same derivative.
        posterior,
        point,
        data,
        chunk_size,
        basis,
        basis.shape,
        lambda projections, back: back(projections),
    )
    product_sums = number_of(data, basis.dtype) * sums.products - jnp.outer(
        sums.gradients, sums.projections
    )
    return jnp.linalg.qr(view(data).across(product_sums))[0]


class _Sums(NamedTuple):
    """Sums over rows of sᵢ = (∇Vᵢ − guess) · basis, ∇Vᵢ, and products with sᵢ; and the guess."""

    projections: Array
    gradients: Array
    products: Array
    guess: Array


def _through(
    posterior: Posterior,
    point: Position,
    data: Data,
    chunk_size: int,
    basis: Array,
    size: tuple[int, ...],
    products_of: Callable[[Array, Callable[[Array], Array]], Array],
) -> _Sums:
    """Return sums over rows of products of their gradients with a basis; makes no such gradient.

    Args:
        posterior: the posterior whose ∇Vᵢ are summed.
        point: the point at which they are taken, a pytree of d numbers.
        data: all rows.
        chunk_size: number of rows at a time.
        basis: orthonormal columns, shape (d, r).
        size: shape of the products.
        products_of: returns the products, from the sᵢ of some rows, shape (b, r), and a function
            that returns Σᵢ ∇Vᵢ wᵢᵀ, shape (d, k), for weights of shape (b, k).
    """
    flat, unravel = ravel_pytree(pytrees.widened(point))

    def add(total: _Sums, rows: Data, before: Array | int) -> _Sums:
        values, of_weights = jax.vjp(lambda p: -posterior.log_likelihoods(unravel(p), rows), flat)
        # The transposed transpose: forward differentiation for what knows the other alone.
        along = jax.linear_transpose(lambda weights: of_weights(weights)[0], values)
        # Derivatives have the dtypes of likelihood and position, which may differ in precision;
        # sums have the basis's.
        back = jax.vmap(
            lambda weights: of_weights(weights.astype(values.dtype))[0].astype(basis.dtype),
            in_axes=1,
            out_axes=1,
        )
        projections = jax.vmap(
            lambda column: along(column.astype(flat.dtype))[0].astype(basis.dtype),
            in_axes=1,
            out_axes=1,
        )(basis)
        guess = jnp.where(before == 0, jnp.mean(projections[:ROWS_PER_GUESS], axis=0), total.guess)
        projections = view(rows).only_counted(projections - guess)
        return _Sums(
            total.projections + jnp.sum(projections, axis=0),
            total.gradients + back(jnp.ones_like(values)[:, None])[:, 0],
            total.products + products_of(projections, back),
            guess,
        )

    zero = jnp.zeros_like(basis)
    start = _Sums(zero[0], zero[:, 0], jnp.zeros(size, basis.dtype), zero[0])
    return fold_over_rows(add, start, data, chunk_size)


def some_basis(key: Key, rank: int, row: jax.ShapeDtypeStruct) -> Array:
    """Return a random orthonormal basis, shape (d, r), r at most d."""
    (d,) = row.shape
    # By QR, so that directions stay apart however often the basis is turned.
    return jnp.linalg.qr(rng.noise(key, jax.ShapeDtypeStruct((d, min(rank, d)), row.dtype)))[0]


def like_row(posterior: Posterior, position: Position, data: Data) -> jax.ShapeDtypeStruct:
    """Return the shape (d,) and the dtype of a row's gradient, raveled."""
    gradients = jax.eval_shape(
        posterior.flat_row_gradients, position, jax.tree.map(lambda x: x[:1], data)
    )
    return jax.ShapeDtypeStruct(gradients.shape[1:], gradients.dtype)


def number_of(data: Data, dtype: DTypeLike) -> Scalar:
    """Return n, or the number of rows of a part of the data, in this dtype."""
    n = view(data).counted
    return n if isinstance(n, int) else n.astype(dtype)


def share(scheme: SamplingScheme, data: Data, dtype: DTypeLike) -> Scalar:
    """Return the factor of n Σ aᵢaᵢᵀ, centred, that gives the covariance of (n/b) Σ_{i∈I} aᵢ.

    A part of the data has the factor of its share of the batch; parts are independent.
    """
    b, n = view(data).share(scheme.batch_size), number_of(data, dtype)
    if isinstance(data, Shard) and not scheme.independent:
        return (n - b) / (jnp.maximum(n - 1, 1) * b)
    return 1 / b if scheme.independent else (n - b) / (max(n - 1, 1) * b)
