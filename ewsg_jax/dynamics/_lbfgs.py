"""The L-BFGS matrix H of a few pairs (s, y) and a factor of it: S Sᵀ = H, both as products, never d
× d.

    H ← (I − s yᵀ/sᵀy) H (I − y sᵀ/sᵀy) + s sᵀ/sᵀy,   from H = γ_H I, the oldest pair first
    S ← (I − p qᵀ) S,   p = s/sᵀy,   q = y + √(sᵀy/sᵀBs) B s,   B = H⁻¹

(Brodlie, Gourlay & Greenstadt 1973; Zhang & Sutton 2011). The product of all these factors is one
matrix,

    S = √γ_H (I − Pᵀ Q),

the K rows of P multiples of the s, those of Q combinations of the s and y whose coefficients follow
from the inner products of the pairs: O(K² d) work, of which most is two matrix products, and O(K d)
memory. P and Q serve S and Sᵀ alike, so S Sᵀ is the covariance of S ξ whatever rounding did to Q:
rounding changes H, and not the target.
"""

import functools
import math
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import products, pytrees
from ewsg_jax.base.typing import Array, PyTree, Scalar


class PairFactor(NamedTuple):
    """S = √γ_H (I − Pᵀ Q).

    Attributes:
        scale: √γ_H.
        pairs: the s and then the y, a pytree of leaves (2, K, …).
        weights: what P multiplies each s by, shape (K,); 0 for a pair that is left out.
        rows: Q, a pytree of leaves (K, …), at least in float32.
    """

    scale: Array
    pairs: PyTree
    weights: Array
    rows: PyTree


def is_usable(s: PyTree, y: PyTree, threshold: Scalar) -> Array:
    """Return whether sᵀy > ε ‖s‖ ‖y‖: False if one of them is 0 or NaN."""
    ss, sy, yy = (pytrees.inner(*both) for both in ((s, s), (s, y), (y, y)))
    return sy > threshold * jnp.sqrt(ss) * jnp.sqrt(yy)


def factor(pairs: PyTree, usable: Array, oldest: Array, initial_scale: Scalar) -> PairFactor:
    """Return the factor of H.

    Args:
        pairs: the s and the y, leaves (2, K, …).
        usable: which pairs count, bool, shape (K,).
        oldest: the index of the oldest pair; newer ones follow in order, around the end.
        initial_scale: γ_H.
    """
    count = usable.shape[0]
    by_s = _sum(jax.tree.map(lambda x: products.matmul(_rows(x)[:count], _rows(x).T), pairs))
    ss, sy, dtype = by_s[:, :count], by_s[:, count:], by_s.dtype
    gamma = jnp.asarray(initial_scale, dtype)
    lengths = jnp.sqrt(jnp.diagonal(ss))
    unit = jnp.where(lengths > 0, 1 / lengths, 0)

    # From here on in the order of time, and each s of length 1, its y divided by the same: H stays
    # what it is. A pair that does not count is of zeros.
    order, back = ((jnp.arange(count) + shift) % count for shift in (oldest, -oldest))
    both = usable[None] & usable[:, None]
    scaled = (jnp.where(both, x * unit[None] * unit[:, None], 0) for x in (ss, sy))
    s_s, s_y = (x[order][:, order] for x in scaled)
    by_s, curvature = jnp.concatenate([s_s, s_y], axis=1), jnp.diagonal(s_y)

    identity, zero = jnp.eye(count, dtype=dtype), jnp.zeros((count, count), dtype)
    # Column k: B s_k, as coefficients of the s and the y. B ← B − (Bs)(Bs)ᵀ/sᵀBs + y yᵀ/sᵀy.
    b_s = jnp.concatenate([identity / gamma, zero])
    terms, largest = jnp.diagonal(s_s) / gamma, gamma
    # A pair is left out if 64 roundings would hide its curvature: of the terms of sᵀBs, or of the
    # largest I − Pᵀ Q so far.
    rounding = 64 * jnp.finfo(dtype).eps
    inverse, rows = jnp.zeros(count, dtype), jnp.zeros((count, 2 * count), dtype)
    for k in range(count):
        s_b_s = products.matmul(by_s[k], b_s)
        is_used = (s_b_s[k] > rounding * terms[k]) & (rounding**2 * largest * curvature[k] < 1)
        s_y_k, s_b_s_k = (jnp.where(is_used, x, 1) for x in (curvature[k], s_b_s[k]))
        root = jnp.sqrt(s_y_k / s_b_s_k)
        y_k = jnp.concatenate([zero[k], identity[k]])
        # (I − p_k q_kᵀ)(I − Pᵀ Q) = I − Pᵀ Q − p_k (q_k − Σ_j (q_kᵀp_j) Q_j)ᵀ.
        earlier = (s_y[:, k] + root * s_b_s) * inverse
        row = y_k + root * b_s[:, k] - products.matmul(earlier, rows)
        updated = b_s - jnp.outer(b_s[:, k], s_b_s / s_b_s_k) + jnp.outer(y_k, s_y[:, k] / s_y_k)
        b_s = jnp.where(is_used, updated, b_s)
        terms = jnp.where(is_used, terms + s_y[:, k] ** 2 / s_y_k, terms)
        largest = jnp.where(is_used, jnp.maximum(largest, 1 / s_y_k), largest)
        inverse = inverse.at[k].set(jnp.where(is_used, 1 / s_y_k, 0))
        rows = rows.at[k].set(jnp.where(is_used, row, 0))

    weights = inverse[back] * unit
    coefficients = (rows.reshape(count, 2, count)[back][:, :, back] * unit[None, None]).reshape(
        count, 2 * count
    )
    # Beyond the range of floats: no pair.
    fine = jnp.all(jnp.isfinite(weights)) & jnp.all(jnp.isfinite(coefficients))
    weights, coefficients = jnp.where(fine, weights, 0), jnp.where(fine, coefficients, 0)

    def combined(x: Array) -> Array:
        z = _rows(x)
        return products.matmul(coefficients.astype(z.dtype), z).reshape(count, *x.shape[2:])

    return PairFactor(jnp.sqrt(gamma), pairs, weights, jax.tree.map(combined, pairs))


def times(s: PairFactor, vector: PyTree) -> PyTree:
    """Return S v, in the dtypes of v."""
    along = _products(jax.tree.map(lambda q: q.reshape(q.shape[0], -1), s.rows), vector)
    return _without(s.scale, vector, along * s.weights, jax.tree.map(lambda x: x[0], s.pairs))


def transposed_times(s: PairFactor, vector: PyTree) -> PyTree:
    """Return Sᵀ v, in the dtypes of v."""
    along = _products(jax.tree.map(lambda x: _rows(x)[: s.weights.shape[0]], s.pairs), vector)
    return _without(s.scale, vector, along * s.weights, s.rows)


def _without(scale: Array, vector: PyTree, coefficients: Array, stack: PyTree) -> PyTree:
    """Return scale·(v − Σ_k c_k x_k)."""

    def leaf(v: Array, x: Array) -> Array:
        wide = _wide(v)
        c = coefficients.astype(wide.dtype)
        # Term by term, so that it is one pass with what comes before and after; a product would be
        # written down.
        for k in range(x.shape[0]):
            wide = wide - c[k] * _wide(x[k])
        return (scale.astype(wide.dtype) * wide).astype(v.dtype)

    return jax.tree.map(leaf, vector, stack)


def _products(matrices: PyTree, vector: PyTree) -> Array:
    return _sum(
        jax.tree.map(lambda x, v: products.matmul(x, _wide(v).reshape(-1)), matrices, vector)
    )


def _sum(parts: PyTree) -> Array:
    return functools.reduce(operator.add, jax.tree.leaves(parts))


def _rows(stack: Array) -> Array:
    """The vectors of a stack (2, K, …), the s and then the y, as the rows of a matrix."""
    return _wide(stack).reshape(math.prod(stack.shape[:2]), math.prod(stack.shape[2:]))


def _wide(x: Array) -> Array:
    return x.astype(pytrees.wide(x.dtype))
