"""Stein functions of polynomials, at draws of mean 0 and covariance I."""

from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.base import limits


class White(NamedTuple):
    """Draws of mean 0 and covariance I, and the gradients there.

    Attributes:
        u: the draws, shape (draws, d).
        first, second: their gradients h on one minibatch and on another, shape (draws, d); the same
            array if there is no noise.
    """

    u: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The gradients on both minibatches together, shape (draws, d)."""
        return self.first if self.first is self.second else (self.first + self.second) / 2


def most_functions(count: int, d: int) -> int:
    """Return how many Stein functions are used for draws at most, a constant included.

    Args:
        count: the number of draws.
        d: the number of parameters.
    """
    square = 1 + d + d * (d + 1) // 2
    most = min(count // settings.DRAWS_PER_FUNCTION, limits.MAX_DENSE_DIMENSION)
    return square if square <= most else 1 + d


def linear(u: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Return −h, shape (draws, d), of gradients h at draws u, both (draws, d)."""
    return -h


def quadratic(u: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Return −h, and Δφ − h·∇φ of each product φ of two numbers of u, shape (draws, functions)."""
    i, j = np.triu_indices(u.shape[1])
    products = 2.0 * (i == j) - h[:, i] * u[:, j] - h[:, j] * u[:, i]
    return np.concatenate([-h, products], axis=1)
