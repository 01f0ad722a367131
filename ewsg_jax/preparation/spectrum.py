"""The curvature of a potential of many coordinates, by its directions of largest curvature.

Lanczos' method, in coordinates of about equal curvature. The directions that it does not find are taken to be of
one curvature, such that the trace of the inverse is that which the method's quadrature tells.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.factors import LowRank
from ewsg_jax.preparation.potential import Point, Potential
from ewsg_jax.preparation.programs import hessian_product

FINE = 1e-6
"""Share of the largest curvature below which there are no further directions."""


@dataclass(frozen=True, eq=False)
class CurvatureOfMany:
    """∇²V = W⁻¹ (μ I + Y (Θ − μ I) Yᵀ) W⁻¹, W the units of the coordinates, as near as may be.

    Attributes:
        unit: the diagonal of W, shape (d,).
        directions: Y, orthonormal columns, shape (d, r).
        values: the diagonal of Θ, positive, shape (r,).
        others: μ, the harmonic mean of the curvatures of the other directions.
    """

    unit: np.ndarray
    directions: np.ndarray
    values: np.ndarray
    others: float

    def __repr__(self) -> str:
        d, r = self.directions.shape
        return f"CurvatureOfMany(of {d} coordinates, {r} directions)"

    @property
    def covariance(self) -> LowRank:
        """(∇²V)⁻¹."""
        return LowRank(self.unit**2 / self.others, self.directions, self.others / self.values)  # type: ignore[arg-type]


def curvature_of_many(potential: Potential, unit: np.ndarray, point: Point, rank: int) -> CurvatureOfMany | None:
    """Return the curvature by `rank` directions of largest curvature at a point; None where one is negative."""

    def product(v: np.ndarray) -> np.ndarray:
        potential.data_passes += 1
        with potential.of.precision():
            image = hessian_product(potential.of, point.flat, unit * v, potential.data)
            return unit * np.asarray(jax.device_get(image), np.float64)

    found = lanczos(product, len(unit), rank)
    if found.least <= 0:
        return None
    left = len(unit) - len(found.values)
    width = (found.mean_inverse * len(unit) - float(np.sum(1 / found.values))) / left if left else 1.0
    # The quadrature is of one direction at random, which among few directions may tell too little.
    others = 1 / width if width > 0 else float(found.values.min())
    return CurvatureOfMany(unit, found.directions, found.values, others)


class Spectrum(NamedTuple):
    """What Lanczos' method tells of a symmetric matrix.

    Attributes:
        values: eigenvalues that are settled, of a residual below a tenth of the value, the largest first.
        directions: their vectors, in columns.
        least: the least eigenvalue of its matrix, settled or not.
        mean_inverse: the mean of the inverses of all eigenvalues, as a direction at random tells it.
    """

    values: np.ndarray
    directions: np.ndarray
    least: float
    mean_inverse: float


def lanczos(product: Callable[[np.ndarray], np.ndarray], size: int, rank: int) -> Spectrum:
    """Return what `rank` products tell of a symmetric matrix.

    Args:
        product: the matrix with a vector, shape (size,).
        size: its order.
        rank: how many products.
    """
    rank = min(rank, size)
    basis, alphas, betas = np.zeros((size, rank + 1)), [], []
    v = np.random.default_rng(0).normal(size=size)
    basis[:, 0] = v / np.linalg.norm(v)
    for k in range(rank):
        image = product(basis[:, k])
        alphas.append(float(basis[:, k] @ image))
        # Twice, so that the basis stays orthogonal.
        for _ in range(2):
            image = image - basis[:, : k + 1] @ (basis[:, : k + 1].T @ image)
        beta = float(np.linalg.norm(image))
        betas.append(beta)
        if beta <= FINE * max(map(abs, alphas)):
            break
        basis[:, k + 1] = image / beta
    count = len(alphas)
    beside = np.array(betas[: count - 1])
    values, vectors = np.linalg.eigh(np.diag(alphas) + np.diag(beside, 1) + np.diag(beside, -1))
    settled = betas[count - 1] * np.abs(vectors[-1]) <= 0.1 * np.abs(values)
    order = np.argsort(-values)
    order = order[settled[order]]
    inverse = float(np.sum(vectors[0] ** 2 / values)) if np.all(values > 0) else np.inf
    return Spectrum(values[order], basis[:, :count] @ vectors[:, order], float(values[0]), inverse)
