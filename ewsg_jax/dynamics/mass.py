"""Inverse masses C = L Lᵀ, as their factors L.

    z = L⁻¹ θ,   ∇_z V = Lᵀ ∇V:   the step is that of the dynamics in z, and θ' = θ + L (z' − z)

So Langevin dynamics is θ' = θ − h C g + √(2hT) L ξ, and underdamped dynamics has p ~ N(0, T C⁻¹), kept as q = Lᵀp ~
N(0, T I), with θ' = θ + h L q'. Exponential weights are those of Lᵀ g. The target is the same. With its covariance
for C all directions are of unit width, and so is the unit of the step size.
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax import _check, _tree, products
from ewsg_jax._module import Part, module
from ewsg_jax._types import Array, Position, PyTree

InverseMass = Any
"""A number, a tree of numbers like a position, a matrix, or a `LowRank`."""
TAKES = (
    "inverse_mass must be a positive number, a tree of positive numbers like the position, a positive definite "
    "matrix (d, d) over its d numbers, or a LowRank"
)


class LowRank(NamedTuple):
    """The inverse mass D^½ (I + U (Λ − I) Uᵀ) D^½ over the d numbers of a position, raveled leaf after leaf.

    Attributes:
        diagonal: of D, positive, shape (d,).
        basis: U, orthonormal columns, shape (d, r).
        values: of Λ, positive, shape (r,).
    """

    diagonal: Array
    basis: Array
    values: Array


@module
class Factor(Part, abc.ABC):
    """L, as what it does to a tree shaped like the position."""

    @abc.abstractmethod
    def times(self, vector: Position) -> Position:
        """Return L v."""

    @abc.abstractmethod
    def transposed(self, vector: Position) -> Position:
        """Return Lᵀ v."""

    def check(self, position: Position) -> None:
        """Raise ValueError where it does not fit the position."""


@module
class Number(Factor):
    """√c I."""

    root: Any

    def times(self, vector: Position) -> Position:
        return _tree.combine((self.root, vector))

    def transposed(self, vector: Position) -> Position:
        return self.times(vector)


@module
class Diagonal(Factor):
    """The roots of a diagonal, a tree like the position."""

    root: PyTree

    def times(self, vector: Position) -> Position:
        return jax.tree.map(lambda root, v: (root * v).astype(v.dtype), self.root, vector)

    def transposed(self, vector: Position) -> Position:
        return self.times(vector)

    def check(self, position: Position) -> None:
        _check.same_tree(TAKES, "inverse_mass", self.root, position, dtypes=False)


@module
class Dense(Factor):
    """A lower triangular matrix, shape (d, d)."""

    matrix: Array

    def times(self, vector: Position) -> Position:
        return _raveled(lambda v: products.matmul(self.matrix, v), vector)

    def transposed(self, vector: Position) -> Position:
        return _raveled(lambda v: products.matmul(self.matrix.T, v), vector)

    def check(self, position: Position) -> None:
        _check_size(self.matrix.shape, position)


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

    def check(self, position: Position) -> None:
        _check_size(self.root.shape, position)

    def _stretched(self, flat: Array) -> Array:
        within = self.gain * products.matmul(self.basis.T, flat)
        return flat + products.matmul(self.basis, within)


@module
class Mass(Part):
    """An inverse mass as it was given, and its factor."""

    given: Any
    factor: Factor


def mass_of(inverse_mass: Any) -> Mass | None:
    """Check an inverse mass and return it with its factor, worked out in float64 where it is known; None for 1.

    Args:
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or a `LowRank`.

    Raises:
        TypeError, ValueError: it is no inverse mass.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.dynamics.mass_of(4.0).factor.root
        2.0
    """
    if isinstance(inverse_mass, int | float) and not isinstance(inverse_mass, bool) and inverse_mass == 1:
        return None
    return Mass(given=inverse_mass, factor=_factor(inverse_mass))


def is_number(inverse_mass: Any) -> bool:
    """Return whether it is a number, or an array of one."""
    return isinstance(inverse_mass, int | float | str) or getattr(inverse_mass, "shape", None) == ()


def _factor(inverse_mass: Any) -> Factor:
    if isinstance(inverse_mass, LowRank):
        return _of_low_rank(inverse_mass)
    if is_number(inverse_mass):
        _check.positive("inverse_mass", inverse_mass)
        is_known = isinstance(inverse_mass, int | float)
        return Number(root=float(inverse_mass) ** 0.5 if is_known else jnp.sqrt(inverse_mass))
    tree = _numbers(inverse_mass)
    if isinstance(tree, jax.Array) and tree.ndim == 2 and tree.shape[0] == tree.shape[1]:
        return Dense(matrix=_cholesky(tree))
    _positive(tree)
    return Diagonal(root=jax.tree.map(jnp.sqrt, tree))


def _numbers(tree: PyTree) -> PyTree:
    """Check that all leaves are arrays of finite real numbers, and return them as jax arrays."""
    leaves = jax.tree.leaves(tree)
    if not leaves or not all(isinstance(x, jax.Array | np.ndarray | np.generic | float | int) for x in leaves):
        raise TypeError(f"{TAKES}; got {_check.describe(tree)}")
    tree = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(float, jnp.asarray(x).dtype)), tree)
    for leaf in jax.tree.leaves(tree):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(f"{TAKES}; got an array of {leaf.dtype}")
        if not _check.is_traced(leaf) and not np.isfinite(leaf).all():
            raise ValueError(f"{TAKES}; got one that is not finite")
    return tree


def _positive(tree: PyTree, takes: str = TAKES) -> None:
    for leaf in jax.tree.leaves(tree):
        if not _check.is_traced(leaf) and leaf.size and not (np.asarray(leaf) > 0).all():
            raise ValueError(f"{takes}; got {np.asarray(leaf).min():.3g} in it")


def _cholesky(matrix: Array) -> Array:
    if _check.is_traced(matrix):
        return jnp.linalg.cholesky(matrix)
    known = np.asarray(matrix, np.float64)
    if not np.allclose(known, known.T, rtol=0, atol=1e-4 * np.abs(known).max()):
        raise ValueError(f"{TAKES}; got a matrix that is not symmetric")
    try:
        found = np.linalg.cholesky(known)
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(known)[0]
        raise ValueError(f"{TAKES}; got a matrix with the eigenvalue {least:.3g}") from None
    return jnp.asarray(found, matrix.dtype)


def _of_low_rank(given: LowRank) -> OfLowRank:
    diagonal, basis, values = (_numbers(x) for x in given)
    shapes = f"{diagonal.shape}, {basis.shape} and {values.shape}"
    d, r = basis.shape if basis.ndim == 2 else (-1, -1)
    if diagonal.shape != (d,) or values.shape != (r,):
        raise ValueError(f"{TAKES}, whose parts have the shapes (d,), (d, r) and (r,); got {shapes}")
    _positive((diagonal, values))
    if not _check.is_traced(basis):
        known = np.asarray(basis, np.float64)
        if np.abs(known.T @ known - np.eye(r)).max() > 1e-3:
            raise ValueError(f"{TAKES}, whose basis has orthonormal columns; got {shapes} with others")
    return OfLowRank(root=jnp.sqrt(diagonal), basis=basis, gain=jnp.sqrt(values) - 1)


def _raveled(function: Any, vector: Position) -> Position:
    flat, unravel = ravel_pytree(vector)
    return unravel(function(flat).astype(flat.dtype))


def _check_size(shape: tuple[int, ...], position: Position) -> None:
    numbers = sum(x.size for x in jax.tree.leaves(position))
    if shape[0] != numbers:
        raise ValueError(
            f"{TAKES}; got one over {shape[0]} numbers for a position of {numbers} (a diagonal for a position that "
            "is one square matrix: put both into a list)"
        )
