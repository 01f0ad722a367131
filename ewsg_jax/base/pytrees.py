"""Arithmetic on positions: pytrees of floating-point arrays."""

import functools
import hashlib
import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ewsg_jax.base.typing import Array, PyTree

wide = functools.partial(np.promote_types, np.float32)
"""The narrowest dtype that holds a floating-point one and float32, also if JAX promotes none."""


def common_dtype(*values: Any) -> np.dtype:
    """Return the dtype that JAX gives the sum of arrays or dtypes, also if
    `jax_numpy_dtype_promotion="strict"` lets it promote none.
    """
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*values)


def promoted(*arrays: Any) -> tuple[Array, ...]:
    """Return arrays in the dtype of their sum."""
    dtype = common_dtype(*arrays)
    return tuple(jnp.asarray(x, dtype) for x in arrays)


def combine(*terms: tuple[ArrayLike, PyTree]) -> PyTree:
    """Return Σ cᵢ·xᵢ over `(c, x)` terms, leaf by leaf, in the dtype of the first pytree.

    Coefficients are scalars. A coefficient that is the number 1 costs no multiplication. Half
    precision is rounded to once, at the end: it does not hold a step size of 10⁻⁸. What is added to
    the first term is summed first: a small force, added alone to a large position, would round to
    nothing; together with the noise of the step it does not on average.
    """
    coefficients = [c for c, _ in terms]
    trees = [x for _, x in terms]

    def leaf(*leaves: Array) -> Array:
        dtype = leaves[0].dtype
        sums = wide(dtype)
        first, *rest = (
            x if isinstance(c, int) and c == 1 else jnp.asarray(c, sums) * x.astype(sums)
            for c, x in zip(coefficients, leaves, strict=True)
        )
        total = first + functools.reduce(operator.add, rest) if rest else first
        return total.astype(dtype)

    return jax.tree.map(leaf, *trees)


def add_with_error(total: PyTree, error: PyTree, term: PyTree) -> tuple[PyTree, PyTree]:
    """Return the rounded sum of three pytrees and its rounding error (Knuth's two-sum).

    A running total that is updated so is wrong by its own last rounding and by that of `term +
    error`, however many terms were added and however large it once was.
    """
    term = jax.tree.map(lambda x, e: x.astype(e.dtype) + e, term, error)
    new = jax.tree.map(operator.add, total, term)

    def lost(a: Array, b: Array, s: Array) -> Array:
        seen = s - a
        return (a - (s - seen)) + (b - seen)

    return new, jax.tree.map(lost, total, term, new)


def squared_norm(tree: PyTree) -> Array:
    """Return the sum of the squares of all numbers in the pytree, at least in float32."""
    parts = [jnp.sum(jnp.square(x.astype(wide(x.dtype)))) for x in jax.tree.leaves(tree)]
    return functools.reduce(operator.add, parts, jnp.float32(0.0))


def inner(a: PyTree, b: PyTree) -> Array:
    """Return the inner product Σ aᵢbᵢ of two pytrees of the same shapes, at least in float32."""
    products = jax.tree.map(
        lambda x, y: jnp.sum(x.astype(wide(x.dtype)) * y.astype(wide(y.dtype))), a, b
    )
    return functools.reduce(operator.add, jax.tree.leaves(products))


def is_finite(tree: PyTree) -> Array:
    """Return whether every number in the pytree is finite: a scalar bool."""
    parts = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]
    return functools.reduce(operator.and_, parts, jnp.bool_(True))


def placed(tree: PyTree, dtype: Any) -> PyTree:
    """Return NumPy arrays as arrays of JAX, without a program for each shape as `jnp.asarray` has.

    What the dtype does not hold is infinite.
    """
    with np.errstate(over="ignore"):
        return jax.device_put(jax.tree.map(lambda x: np.asarray(x, dtype), tree))


def take(tree: PyTree, index: ArrayLike) -> PyTree:
    """Index the leading axis of every leaf with indices known to be in bounds."""
    return jax.tree.map(lambda x: jnp.asarray(x).at[index].get(mode="promise_in_bounds"), tree)


def add_at(tree: PyTree, indices: Array, values: PyTree) -> PyTree:
    """Add to rows of every leaf, at indices known to be in bounds."""
    return jax.tree.map(lambda x, v: x.at[indices].add(v, mode="promise_in_bounds"), tree, values)


def where(condition: ArrayLike, yes: PyTree, no: PyTree) -> PyTree:
    """Select a whole pytree by one scalar condition."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def ones_like(tree: PyTree) -> PyTree:
    """Return a pytree of ones of the same shapes and dtypes."""
    return jax.tree.map(jnp.ones_like, tree)


def zeros_like(tree: PyTree) -> PyTree:
    """Return a pytree of zeros of the same shapes and dtypes."""
    return jax.tree.map(jnp.zeros_like, tree)


def widened(tree: PyTree) -> PyTree:
    """Return a pytree at least in float32, the least for sums over many steps."""
    return jax.tree.map(lambda x: x.astype(wide(x.dtype)), tree)


def in_dtypes_of(like: PyTree, tree: PyTree) -> PyTree:
    """Return a pytree in the dtypes of another."""
    return jax.tree.map(lambda to, x: x.astype(to.dtype), like, tree)


def dtypes(tree: PyTree) -> list[np.dtype]:
    """Return the dtypes of the leaves."""
    return [x.dtype for x in jax.tree.leaves(tree)]


@jax.jit
def copy(tree: PyTree) -> PyTree:
    """Return a pytree in memory of its own, so that it may be donated and the original kept.

    One program: a copy leaf by leaf would cost more.
    """
    return jax.tree.map(jnp.copy, tree)


def num_bytes(tree: PyTree) -> int:
    """Return the size in bytes of a pytree of arrays or of abstract arrays."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))


def size(tree: PyTree, leading_axes: int = 0) -> int:
    """Return how many numbers a pytree of arrays, abstract arrays or numbers has, or has for each
    entry of its leading axes.
    """
    return sum(math.prod(np.shape(x)[leading_axes:]) for x in jax.tree.leaves(tree))


def scaled_rows(tree: PyTree, factors: Array) -> PyTree:
    """Multiply the rows of each leaf by factors, shape (b,), in the dtypes of the leaves."""
    return jax.tree.map(
        lambda x: x * factors.reshape(-1, *[1] * (x.ndim - 1)).astype(x.dtype), tree
    )


def digest(tree: PyTree) -> str:
    """Return a digest of the values of a pytree's arrays, 128 bits in hexadecimal digits."""
    digested = hashlib.blake2b(digest_size=16)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        digested.update(f"{jax.tree_util.keystr(path)} {array.dtype.name} {array.shape}".encode())
        # Bytes, whatever the dtype.
        digested.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digested.hexdigest()
