"""Stein functions of polynomials, at draws of mean 0 and covariance I."""

from typing import NamedTuple

import numpy as np

DRAWS_OF_FUNCTION = 4
"""Draws for each Stein function, at least."""
MOST_FUNCTIONS = 1000
"""Functions of degree two, above which linear ones are taken alone."""


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


def most_functions(count: int, d: int) -> int:
    """Return how many functions `count` draws in d dimensions have at most, a constant included."""
    square = 1 + d + d * (d + 1) // 2
    return square if square <= min(count // DRAWS_OF_FUNCTION, MOST_FUNCTIONS) else 1 + d


def linear(u: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Return −h, shape (draws, d), of gradients h at draws u, both (draws, d)."""
    return -h


def quadratic(u: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Return −h, and Δφ − h·∇φ of each product φ of two numbers of u, shape (draws, functions)."""
    i, j = np.triu_indices(u.shape[1])
    products = 2.0 * (i == j) - h[:, i] * u[:, j] - h[:, j] * u[:, i]
    return np.concatenate([-h, products], axis=1)
