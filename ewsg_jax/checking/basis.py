"""Stein functions of polynomials, at draws of mean 0 and covariance I."""

from typing import NamedTuple

import numpy as np

DRAWS_OF_FUNCTION = 4
"""Draws for each Stein function, at least."""
MOST_FUNCTIONS = 1000
"""Functions of degree two, above which linear ones are taken alone."""
WHOLE = "all polynomials of degree two"


class White(NamedTuple):
    """Draws of mean 0 and covariance I, and the gradients there.

    Attributes:
        u: shape (draws, d).
        first, second: h on one batch and on another, shape (draws, d); one and the same where there
            is no noise.
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

    def values(self, u: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return a column of ones, −h, and Δφ − h·∇φ of each product, shape (draws, size)."""
        i, j = self.pairs
        if not len(i):
            return np.concatenate([np.ones((len(u), 1)), -h], axis=1)
        a, b = u @ self.directions, h @ self.directions
        products = 2.0 * (i == j) - b[:, i] * a[:, j] - b[:, j] * a[:, i]
        return np.concatenate([np.ones((len(u), 1)), -h, products], axis=1)


def most_functions(count: int, d: int) -> int:
    """Return the size of the largest basis that `count` draws in d dimensions have."""
    square = 1 + d + d * (d + 1) // 2
    return square if square <= min(count // DRAWS_OF_FUNCTION, MOST_FUNCTIONS) else 1 + d


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
