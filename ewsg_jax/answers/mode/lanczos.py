"""Lanczos' method: what products of a symmetric matrix with vectors say of its eigenvalues."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

FINE = 1e-6
"""Share of the largest eigenvalue below which a residual is rounding: no more directions."""


class Spectrum(NamedTuple):
    """What Lanczos' method says of a symmetric matrix.

    Attributes:
        values: eigenvalues that are settled, of a residual below a tenth of the value, the largest
            first.
        directions: their vectors, in columns.
        least: the least eigenvalue of its matrix, settled or not.
        largest: the largest, settled or not.
        mean_inverse: the mean of the inverses of all eigenvalues, as a direction at random has it.
    """

    values: np.ndarray
    directions: np.ndarray
    least: float
    largest: float
    mean_inverse: float


class Recursion:
    """The recursion from one start, fed with products."""

    def __init__(self, start: np.ndarray, rank: int, fine: float = FINE) -> None:
        self.basis, self._fine = np.zeros((len(start), rank + 1)), fine
        self.basis[:, 0] = start / np.linalg.norm(start)
        self._alphas: list[float] = []
        self._betas: list[float] = []
        self.is_over = False

    @property
    def vector(self) -> np.ndarray:
        """The vector whose product comes next, shape (size,)."""
        return self.basis[:, len(self._alphas)]

    def add(self, image: np.ndarray) -> None:
        """Take the matrix times `vector`; nothing once the recursion is over."""
        if self.is_over:
            return
        k = len(self._alphas)
        self._alphas.append(float(self.basis[:, k] @ image))
        # Twice, so that the basis stays orthogonal.
        for _ in range(2):
            image = image - self.basis[:, : k + 1] @ (self.basis[:, : k + 1].T @ image)
        beta = float(np.linalg.norm(image))
        self._betas.append(beta)
        self.is_over = (
            not beta > self._fine * max(map(abs, self._alphas)) or k + 2 == self.basis.shape[1]
        )
        if not self.is_over:
            self.basis[:, k + 1] = image / beta

    def spectrum(self) -> Spectrum:
        """Return what has been found."""
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
    """Return what `rank` products say of a symmetric matrix.

    Args:
        product: the matrix with a vector, shape (size,).
        size: its order.
        rank: how many products.
    """
    found = Recursion(np.random.default_rng(0).normal(size=size), min(rank, size))
    while not found.is_over:
        found.add(product(found.vector))
    return found.spectrum()


def tridiagonal(diagonal: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """Return the matrix of the method, shape (k, k), of k numbers and k − 1 beside them."""
    return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
