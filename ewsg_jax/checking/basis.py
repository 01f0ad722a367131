"""Stein functions of polynomials, at draws of mean 0 and covariance I."""

from typing import NamedTuple

import numpy as np

DRAWS_OF_FUNCTION = 4
"""Draws for each Stein function, at least."""
MOST_PRODUCTS = 16
"""Directions whose products are taken where all are too many."""
WHOLE = "all polynomials of degree two"


class White(NamedTuple):
    """Draws of mean 0 and covariance I, and the gradients there.

    Attributes:
        u: shape (draws, d).
        first, second: h on one batch and on another, shape (draws, d); one and the same where there is no noise.
    """

    u: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Return h on both batches together."""
        return self.first if self.first is self.second else (self.first + self.second) / 2


class Basis(NamedTuple):
    """Linear functions, and the products of some directions.

    Attributes:
        name: which.
        directions: of which products are taken, shape (d, r).
        pairs: which products, two arrays of numbers of directions.
    """

    name: str
    directions: np.ndarray
    pairs: tuple[np.ndarray, np.ndarray]

    @property
    def size(self) -> int:
        """The number of functions, the constant among them."""
        return 1 + len(self.directions) + len(self.pairs[0])

    @property
    def is_whole(self) -> bool:
        """Whether all products are there."""
        return self.name == WHOLE

    def values(self, u: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return a column of ones, −h, and Δφ − h·∇φ of each product, shape (draws, size)."""
        i, j = self.pairs
        a, b = u @ self.directions, h @ self.directions
        products = 2.0 * (i == j) - b[:, i] * a[:, j] - b[:, j] * a[:, i]
        return np.concatenate([np.ones((len(u), 1)), -h, products], axis=1)


def candidates(white: White) -> list[Basis]:
    """Return the bases that the draws are enough for, at least the linear one."""
    count, d = white.u.shape
    axes, numbers, few = np.eye(d), np.arange(d), min(d, MOST_PRODUCTS)

    def are_enough(products: int) -> bool:
        return DRAWS_OF_FUNCTION * (1 + d + products) <= count

    found = [linear(d)]
    if are_enough(d):
        found.append(Basis("linear ones and squares", axes, (numbers, numbers)))
    if few < d and are_enough(few * (few + 1) // 2):
        values, vectors = np.linalg.eigh(spread(white) - axes)
        top = vectors[:, np.argsort(-np.abs(values))[:few]]
        found.append(Basis(f"linear ones and products of {few} directions", top, _pairs(few)))
    if are_enough(d * (d + 1) // 2):
        found.append(whole(d))
    return found


def most_functions(count: int, d: int) -> int:
    """Return the size of the largest basis that so many draws of d numbers may have."""
    return max(1 + d, min(count // DRAWS_OF_FUNCTION, 1 + d + d * (d + 1) // 2))


def linear(d: int) -> Basis:
    """Return the functions −h of d numbers."""
    numbers = np.arange(0)
    return Basis("linear ones", np.eye(d), (numbers, numbers))


def whole(d: int) -> Basis:
    """Return those of all polynomials of degree two."""
    return Basis(WHOLE, np.eye(d), _pairs(d))


def _pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(count)
    return rows, columns


def spread(white: White) -> np.ndarray:
    """Return K = E[h uᵀ], symmetrised."""
    return symmetric((white.first + white.second).T @ white.u / (2 * len(white.u)))


def symmetric(matrix: np.ndarray) -> np.ndarray:
    """Return the symmetric part."""
    return (matrix + matrix.T) / 2
