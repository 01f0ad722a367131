"""The affine map that takes draws to a mean and a covariance."""

from typing import NamedTuple

import numpy as np


class Affine(NamedTuple):
    """θ' = target + M (θ − center).

    Attributes:
        center: shape (d,).
        matrix: M, shape (d, d), or its diagonal (d,).
        target: shape (d,).
    """

    center: np.ndarray
    matrix: np.ndarray
    target: np.ndarray

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return draws (…, d), moved."""
        off = values - self.center
        return self.target + (off * self.matrix if self.matrix.ndim == 1 else off @ self.matrix.T)


def between(flat: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> Affine:
    """Return the map of draws (draws, d) to a mean and a covariance (d, d), or variances (d,).

    Of all maps M S Mᵀ = C that which turns least, in coordinates in which the draws have the
    covariance I.
    """
    center = flat.mean(0)
    off = flat - center
    if covariance.ndim == 1:
        return Affine(
            center, np.sqrt(covariance) / np.maximum(flat.std(0), np.finfo(float).tiny), mean
        )
    here = root_of(off.T @ off / len(off))
    values, vectors = np.linalg.eigh(np.linalg.solve(here, np.linalg.solve(here, covariance).T))
    inner = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return Affine(center, here @ inner @ np.linalg.inv(here), mean)


def root_of(covariance: np.ndarray, symmetric: bool = False) -> np.ndarray:
    """Return L with L Lᵀ the covariance, or nearly so where that is singular.

    Args:
        covariance: shape (d, d).
        symmetric: the one nearest to a diagonal in units of the coordinates, D R^½ of D R D.
    """
    scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(covariance / scale / scale[:, None])
    root = vectors * np.sqrt(np.maximum(values, 1e-8 * values[-1]))
    return scale[:, None] * (root @ vectors.T if symmetric else root)
