"""Lanczos' method: eigenvalues of a symmetric matrix by products with vectors."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Spectrum(NamedTuple):
    """What Lanczos' method shows of a symmetric matrix.

    Attributes:
        values: eigenvalues that have converged, with a residual below a tenth of the value, the
            largest first.
        directions: their eigenvectors, in columns.
        least: the least eigenvalue of the Lanczos matrix, converged or not.
        largest: the largest eigenvalue of it, converged or not.
        mean_inverse: an estimate of the mean of the inverses of all eigenvalues, from a direction
            at random.
    """

    values: np.ndarray
    directions: np.ndarray
    least: float
    largest: float
    mean_inverse: float


class Recursion:
    """The recursion from one start, which is given products one by one.

    Args:
        start: the first vector, shape (size,).
        rank: the number of products.
        end: the residual, over the largest diagonal entry so far, below which it is rounding.
    """

    def __init__(self, start: np.ndarray, rank: int, end: float = 1e-6) -> None:
        self.basis = np.zeros((len(start), rank + 1))
        self._end = end
        self.basis[:, 0] = start / np.linalg.norm(start)
        self._alphas: list[float] = []
        self._betas: list[float] = []
        self.is_over = False

    @property
    def vector(self) -> np.ndarray:
        """The vector whose product comes next, shape (size,)."""
        return self.basis[:, len(self._alphas)]

    def add(self, image: np.ndarray) -> None:
        """Take the matrix times `vector`; once the recursion is over, ignore it."""
        if self.is_over:
            return
        k = len(self._alphas)
        self._alphas.append(float(self.basis[:, k] @ image))
        # What is left of the image is orthogonal to the basis: taken twice, against rounding.
        for _ in range(2):
            image = image - self.basis[:, : k + 1] @ (self.basis[:, : k + 1].T @ image)
        beta = float(np.linalg.norm(image))
        self._betas.append(beta)
        self.is_over = (
            not beta > self._end * max(map(abs, self._alphas)) or k + 2 == self.basis.shape[1]
        )
        if not self.is_over:
            self.basis[:, k + 1] = image / beta

    def spectrum(self) -> Spectrum:
        """Return what the products so far show."""
        count = len(self._alphas)
        values, vectors = np.linalg.eigh(
            tridiagonal(np.array(self._alphas), np.array(self._betas[: count - 1]))
        )
        settled = self._betas[count - 1] * np.abs(vectors[-1]) <= 0.1 * np.abs(values)
        order = np.argsort(-values)
        order = order[settled[order]]
        inverse = float(np.sum(vectors[0] ** 2 / values)) if np.all(values > 0) else np.inf
        directions = self.basis[:, :count] @ vectors[:, order]
        return Spectrum(values[order], directions, float(values[0]), float(values[-1]), inverse)


def lanczos(product: Callable[[np.ndarray], np.ndarray], size: int, rank: int) -> Spectrum:
    """Return what `rank` products show of a symmetric matrix.

    Args:
        product: the matrix times a vector of shape (size,).
        size: its order.
        rank: the number of products.
    """
    recursion = Recursion(np.random.default_rng(0).normal(size=size), min(rank, size))
    while not recursion.is_over:
        recursion.add(product(recursion.vector))
    return recursion.spectrum()


def tridiagonal(diagonal: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix (k, k) with k numbers on its diagonal, k − 1 next to it."""
    return np.diag(diagonal) + np.diag(others, 1) + np.diag(others, -1)
