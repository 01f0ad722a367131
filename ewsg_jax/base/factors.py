"""Matrices C = L Lᵀ over the parameters as factors L: number, diagonal, dense, low rank."""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checks, numeric, products, pytrees, rng
from ewsg_jax.base.modules import Part, module
from ewsg_jax.base.typing import Array, Position, PyTree

FACTOR_TAKES = (
    "{} must be a positive number, a pytree of positive numbers like the position, a positive "
    "definite matrix (d, d) over its d numbers, or a LowRank"
)

MOST_ASYMMETRY = 1e-4
"""How far from symmetric a matrix may be, or an eigenvalue below 0, as a share of the largest
number: rounding of a covariance from draws in float32. Set by hand."""


class LowRank(NamedTuple):
    """The inverse mass D^½ (I + U (Λ − I) Uᵀ) D^½ over the d parameters of a position in
    `ravel_pytree` order.

    Attributes:
        diagonal: the diagonal of D, positive, shape (d,).
        basis: U, orthonormal columns, shape (d, r).
        values: the diagonal of Λ, positive, shape (r,).
    """

    diagonal: Array | np.ndarray
    basis: Array | np.ndarray
    values: Array | np.ndarray


def variances(covariance: np.ndarray | LowRank) -> np.ndarray:
    """Return the diagonal of a covariance, shape (d,), float64, on the host."""
    if not isinstance(covariance, LowRank):
        return np.diag(covariance)
    diagonal, basis, values = (np.asarray(part, np.float64) for part in covariance)
    return diagonal * (1 + basis**2 @ (values - 1))


class HostFactor:
    """The factor L of C = L Lᵀ, a matrix (d, d) or a `LowRank`, for many vectors on the host.

    L is the Cholesky factor of a matrix, and diag(D)^½ times the symmetric root of the rest for a
    `LowRank`. On the device each shape would need a program of its own, for work that is done once
    before a run.
    """

    def __init__(self, covariance: Array | np.ndarray | LowRank) -> None:
        parts = covariance if isinstance(covariance, LowRank) else (covariance,)
        self._parts = [np.asarray(part, np.float64) for part in parts]
        self._root = np.linalg.cholesky(self._parts[0]) if len(self._parts) == 1 else None

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """Return L v of each vector, shape (…, d)."""
        if self._root is not None:
            return vectors @ self._root.T
        return np.sqrt(self._parts[0]) * self._stretched(vectors, 0.5)

    def transposed(self, vectors: np.ndarray) -> np.ndarray:
        """Return Lᵀ v of each vector, shape (…, d)."""
        if self._root is not None:
            return vectors @ self._root
        return self._stretched(np.sqrt(self._parts[0]) * vectors, 0.5)

    def solved(self, vectors: np.ndarray) -> np.ndarray:
        """Return L⁻¹ v of each vector, shape (…, d)."""
        if self._root is not None:
            flat = vectors.reshape(-1, vectors.shape[-1])
            return np.linalg.solve(self._root, flat.T).T.reshape(vectors.shape)
        return self._stretched(vectors / np.sqrt(self._parts[0]), -0.5)

    def draws(self, key: Array, count: int) -> np.ndarray:
        """Return `count` draws of N(0, C), shape (count, d), float32."""
        normals = rng.host_normals(key, (count, len(self._parts[0])))
        return self.times(normals).astype(np.float32)

    def _stretched(self, vectors: np.ndarray, power: float) -> np.ndarray:
        """Return Λ^power along the directions U."""
        _, basis, values = self._parts
        return vectors + (vectors @ basis * (values**power - 1)) @ basis.T


@module
class Factor(Part, abc.ABC):
    """L, as a linear map of pytrees shaped like the position."""

    @abc.abstractmethod
    def times(self, vector: Position) -> Position:
        """Return L v."""

    @abc.abstractmethod
    def transposed(self, vector: Position) -> Position:
        """Return Lᵀ v."""

    @abc.abstractmethod
    def solved(self, vector: Position) -> Position:
        """Return L⁻¹ v."""

    @abc.abstractmethod
    def log_det(self, position: Position) -> Array:
        """Return log |det L| over the parameters, a scalar, at least in float32."""

    def check(self, name: str, position: Position) -> None:
        """Raise ValueError if the matrix, called `name` there, does not fit the position."""


@module
class Number(Factor):
    """√c I."""

    root: Any

    def times(self, vector: Position) -> Position:
        return pytrees.combine((self.root, vector))

    def transposed(self, vector: Position) -> Position:
        return self.times(vector)

    def solved(self, vector: Position) -> Position:
        return pytrees.combine((1 / self.root, vector))

    def log_det(self, position: Position) -> Array:
        return pytrees.size(position) * jnp.log(jnp.asarray(self.root, float))


@module
class Diagonal(Factor):
    """The roots of a diagonal, a pytree like the position."""

    root: PyTree

    def times(self, vector: Position) -> Position:
        return jax.tree.map(lambda root, v: (root * v).astype(v.dtype), self.root, vector)

    def transposed(self, vector: Position) -> Position:
        return self.times(vector)

    def solved(self, vector: Position) -> Position:
        return jax.tree.map(lambda root, v: (v / root).astype(v.dtype), self.root, vector)

    def log_det(self, position: Position) -> Array:
        return _sum_of_logs(pytrees.widened(self.root))

    def check(self, name: str, position: Position) -> None:
        checks.same_tree(FACTOR_TAKES.format(name), name, self.root, position, dtypes=False)


@module
class Dense(Factor):
    """A lower triangular matrix, shape (d, d)."""

    matrix: Array

    def times(self, vector: Position) -> Position:
        return _raveled(lambda v: products.matmul(self.matrix, v), vector)

    def transposed(self, vector: Position) -> Position:
        # Not matrix.T @ v: of one chain that takes twice as long on a CPU.
        return _raveled(lambda v: products.matmul(v, self.matrix), vector)

    def solved(self, vector: Position) -> Position:
        return _raveled(
            lambda v: jax.scipy.linalg.solve_triangular(self.matrix, v, lower=True), vector
        )

    def log_det(self, position: Position) -> Array:
        return _sum_of_logs(jnp.diag(self.matrix))

    def check(self, name: str, position: Position) -> None:
        _check_size(name, self.matrix.shape, position)


@module
class OfLowRank(Factor):
    """D^½ (I + U (Λ^½ − I) Uᵀ)."""

    root: Array
    basis: Array
    gain: Array

    def times(self, vector: Position) -> Position:
        return _raveled(lambda v: self.root * self._stretched(v), vector)

    def transposed(self, vector: Position) -> Position:
        return _raveled(lambda v: self._stretched(self.root * v), vector)

    def solved(self, vector: Position) -> Position:
        return _raveled(
            lambda v: self._stretched(v / self.root, -self.gain / (1 + self.gain)), vector
        )

    def log_det(self, position: Position) -> Array:
        return _sum_of_logs((self.root, 1 + self.gain))

    def check(self, name: str, position: Position) -> None:
        _check_size(name, self.root.shape, position)

    def _stretched(self, flat: Array, gain: Array | None = None) -> Array:
        within = (self.gain if gain is None else gain) * products.matmul(self.basis.T, flat)
        return flat + products.matmul(self.basis, within)


def is_number(value: object) -> bool:
    """Return whether a value is a number, or an array of one."""
    return isinstance(value, int | float | str) or getattr(value, "shape", None) == ()


def factor_of(value: Any, name: str) -> Factor:
    """Check a positive definite matrix and return its factor; values that are not traced are
    factorised in float64.

    Args:
        value: a number, a pytree of numbers like a position, a matrix (d, d) in `ravel_pytree`
            order, or a `LowRank`.
        name: what the matrix is called in errors.
    """
    takes = FACTOR_TAKES.format(name)
    if isinstance(value, LowRank):
        return _of_low_rank(value, takes)
    if is_number(value):
        checks.positive(name, value)
        is_known = isinstance(value, int | float)
        if is_known:
            # Its root is what steps multiply with.
            check_not_tiny(np.asarray(float(value) ** 0.5), takes)
        return Number(root=float(value) ** 0.5 if is_known else jnp.sqrt(value))
    tree = _numbers(numeric.native(value), takes)
    if isinstance(tree, jax.Array) and tree.ndim == 2 and tree.shape[0] == tree.shape[1]:
        return Dense(matrix=_cholesky(tree, takes))
    _positive(tree, takes)
    return Diagonal(root=jax.tree.map(jnp.sqrt, tree))


def _numbers(tree: PyTree, takes: str, are_sizes: bool = True) -> PyTree:
    """Check that all leaves are arrays of finite real numbers, and return them as jax arrays.

    Sizes may not be so near 0 that they are taken for it; components of directions may.
    """
    leaves = jax.tree.leaves(tree)
    if not leaves or not all(
        isinstance(x, jax.Array | np.ndarray | np.generic | float | int) for x in leaves
    ):
        raise TypeError(f"{takes}; got {checks.describe(tree)}")
    for leaf in leaves:
        if are_sizes and not checks.is_traced(leaf) and np.isrealobj(leaf):
            known = np.asarray(leaf, np.float64)
            is_square = known.ndim == 2 and len(set(known.shape)) == 1
            sizes = np.abs(np.diagonal(known) if is_square else known)
            check_not_tiny(sizes, takes)
    tree = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.result_type(float, jnp.asarray(x).dtype)), tree
    )
    for leaf in jax.tree.leaves(tree):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(f"{takes}; got an array of {leaf.dtype}")
        if not checks.is_traced(leaf) and not np.isfinite(leaf).all():
            raise ValueError(f"{takes}; got one that is not finite")
    return tree


def check_not_tiny(sizes: np.ndarray, takes: str) -> None:
    """Check that no number is so near 0 that JAX computes with 0.

    Args:
        sizes: numbers that are not negative, on the host.
        takes: the first half of the message.
    """
    dtype = jnp.result_type(float)
    tiny, least = float(jnp.finfo(dtype).tiny), sizes[sizes > 0].min(initial=np.inf)
    if least < tiny:
        raise ValueError(
            f"{takes}, which {dtype} holds from {tiny:.3g} on; got {least:.3g}: give positions and "
            f"data another unit, or switch on 64 bits, {numeric.X64}"
        )


def _positive(tree: PyTree, takes: str) -> None:
    for leaf in jax.tree.leaves(tree):
        if not checks.is_traced(leaf) and leaf.size and not (np.asarray(leaf) > 0).all():
            raise ValueError(f"{takes}; got {np.asarray(leaf).min():.3g} in it")


def _cholesky(matrix: Array, takes: str) -> Array:
    if not matrix.size:
        raise ValueError(f"{takes}; got a matrix of shape {matrix.shape}")
    if checks.is_traced(matrix):
        return jnp.linalg.cholesky(pytrees.widened(matrix)).astype(matrix.dtype)
    known = np.asarray(matrix, np.float64)
    if not np.allclose(known, known.T, rtol=0, atol=MOST_ASYMMETRY * np.abs(known).max()):
        raise ValueError(f"{takes}; got a matrix that is not symmetric")
    try:
        factor = np.linalg.cholesky(known)
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(known)[0]
        raise ValueError(f"{takes}; got a matrix with the eigenvalue {least:.3g}") from None
    return jax.device_put(factor.astype(matrix.dtype))


def _of_low_rank(value: LowRank, takes: str) -> OfLowRank:
    if not all(isinstance(x, jax.Array | np.ndarray) for x in value):
        raise TypeError(f"{takes}, whose parts are arrays; got {checks.describe(value)}")
    diagonal, values = (_numbers(x, takes) for x in (value.diagonal, value.values))
    basis = _numbers(value.basis, takes, are_sizes=False)
    shapes = f"{diagonal.shape}, {basis.shape} and {values.shape}"
    d, r = basis.shape if basis.ndim == 2 else (-1, -1)
    if diagonal.shape != (d,) or values.shape != (r,):
        raise ValueError(
            f"{takes}, whose parts have the shapes (d,), (d, r) and (r,); got {shapes}"
        )
    _positive((diagonal, values), takes)
    if not checks.is_traced(basis):
        known = np.asarray(basis, np.float64)
        # So far from orthonormal a basis in float32 may be, in the numbers of Uᵀ U.
        if np.abs(known.T @ known - np.eye(r)).max(initial=0.0) > 1e-3:
            raise ValueError(
                f"{takes}, whose basis has orthonormal columns; got {shapes} with others"
            )
    return OfLowRank(root=jnp.sqrt(diagonal), basis=basis, gain=jnp.sqrt(values) - 1)


def _raveled(function: Any, vector: Position) -> Position:
    flat, unravel = ravel_pytree(vector)
    return unravel(function(flat).astype(flat.dtype))


def _check_size(name: str, shape: tuple[int, ...], position: Position) -> None:
    numbers = pytrees.size(position)
    if shape[0] != numbers:
        raise ValueError(
            f"{FACTOR_TAKES.format(name)}; got one over {shape[0]} numbers for a position of "
            f"{numbers} (a diagonal for a position that is one square matrix: put both into a list)"
        )


def _sum_of_logs(tree: PyTree) -> Array:
    return sum(
        (jnp.sum(jnp.log(leaf)) for leaf in jax.tree.leaves(pytrees.widened(tree))),
        start=jnp.zeros(()),
    )
