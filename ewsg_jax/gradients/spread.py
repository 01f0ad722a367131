"""How much the gradients of all rows differ at a point: what the covariance of a minibatch's sum comes from."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ewsg_jax import _random, products
from ewsg_jax._types import Array, Data, Key, Position
from ewsg_jax.gradients.covariance import Structure
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows import gathering
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.rows.law import RowLaw

ROWS_PER_GUESS = 16
"""Rows whose mean gradient is a guess at that of all."""


def outer(centred: Array, structure: Structure, basis: Array | None = None) -> Array:
    """Return Σ aᵢaᵢᵀ of rows a, shape (b, d), in the structure: (d, d), its diagonal (d,), or (r, r) in a basis."""
    seen = centred if basis is None else products.matmul(centred, basis)
    return jnp.sum(seen**2, axis=0) if structure == "diagonal" else products.matmul(seen.T, seen)


def spread(
    posterior: Posterior,
    point: Position,
    data: Data,
    chunk_size: int,
    outer_of: Callable[[Array], Array],
) -> tuple[Array, Array]:
    """Return the mean of all ∇Vᵢ, and n times what `outer_of` gives for all ∇Vᵢ − mean.

    In one pass, about a guess at the mean: however large that is, no more cancels than the guess is off.
    """

    def add(total: tuple[Array, Array, Array], rows: Data, before: Array | int) -> tuple[Array, Array, Array]:
        guess, first, second = total
        g = posterior.flat_row_gradients(point, rows)
        guess = jnp.where(before == 0, jnp.mean(g[:ROWS_PER_GUESS], axis=0), guess)
        return guess, first + jnp.sum(g - guess, axis=0), second + outer_of(g - guess)

    n = num_rows(data)
    row = like_row(posterior, point, data)
    of_rows = jax.eval_shape(outer_of, jax.ShapeDtypeStruct((1, *row.shape), row.dtype))
    zero = jnp.zeros(row.shape, row.dtype)
    start = zero, zero, jnp.zeros(of_rows.shape, of_rows.dtype)
    guess, first, second = gathering.fold_over_rows(add, start, data, chunk_size)
    return guess + first / n, n * second - outer_of(first[None])


def turned(posterior: Posterior, point: Position, data: Data, chunk_size: int, basis: Array) -> Array:
    """Return a basis turned towards the leading directions: the spread times the basis, orthonormal again."""

    def times_basis(rows: Array) -> Array:
        return products.matmul(rows.T, products.matmul(rows, basis))

    return jnp.linalg.qr(spread(posterior, point, data, chunk_size, times_basis)[1])[0]


def some_basis(key: Key, rank: int, row: jax.ShapeDtypeStruct) -> Array:
    """Return a random orthonormal basis, shape (d, r), r at most d."""
    (d,) = row.shape
    return jnp.linalg.qr(_random.noise(key, jax.ShapeDtypeStruct((d, min(rank, d)), row.dtype)))[0]


def like_row(posterior: Posterior, position: Position, data: Data) -> jax.ShapeDtypeStruct:
    """Return the shape (d,) and the dtype of a row's gradient, raveled."""
    gradients = jax.eval_shape(posterior.flat_row_gradients, position, jax.tree.map(lambda x: x[:1], data))
    return jax.ShapeDtypeStruct(gradients.shape[1:], gradients.dtype)


def share(law: RowLaw, n: int) -> float:
    """Return what n Σ aᵢaᵢᵀ of centred rows is multiplied by for the covariance of (n/b) Σ_{i∈I} aᵢ."""
    b = law.batch_size
    return 1 / b if law.independent else (n - b) / (max(n - 1, 1) * b)
