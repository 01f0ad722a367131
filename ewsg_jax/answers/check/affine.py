"""Affine maps of draws: to a mean and a covariance, and into the metric of a mode."""

from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import limits
from ewsg_jax.vectors.layout import vector


class AffineMap(NamedTuple):
    """θ' = target + M (θ − center).

    Attributes:
        center: the position that is mapped to the target, shape (d,).
        matrix: M, shape (d, d), or its diagonal, shape (d,).
        target: the position that the center is mapped to, shape (d,).
    """

    center: np.ndarray
    matrix: np.ndarray
    target: np.ndarray

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the images of positions, shape (…, d)."""
        off = values - self.center
        return self.target + (off * self.matrix if self.matrix.ndim == 1 else off @ self.matrix.T)


class ModeMetric(NamedTuple):
    """A centre and a scale of each direction, in which a posterior is nearly standard normal.

    Attributes:
        center: the centre, shape (d,).
        root: L, with L Lᵀ the covariance, shape (d, d).
    """

    center: np.ndarray
    root: np.ndarray


def between(flat: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> AffineMap:
    """Return the affine map that gives draws a mean and a covariance.

    Among all M with M S Mᵀ = C it is the one that turns least, in coordinates in which the draws
    have the covariance I.

    Args:
        flat: the draws, shape (draws, d).
        mean: the mean that their images have, shape (d,).
        covariance: their covariance, shape (d, d), or variances, shape (d,).
    """
    center = flat.mean(0)
    off = flat - center
    if covariance.ndim == 1:
        scale = np.sqrt(covariance) / np.maximum(flat.std(0), np.finfo(float).tiny)
        return AffineMap(center, scale, mean)
    here = root_of(off.T @ off / len(off))
    values, vectors = np.linalg.eigh(np.linalg.solve(here, np.linalg.solve(here, covariance).T))
    symmetric = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return AffineMap(center, here @ symmetric @ np.linalg.inv(here), mean)


def metric_of(mode: Mode, temperature: float) -> ModeMetric:
    """Return a mode and the symmetric root of its covariance at a temperature.

    Raises:
        ValueError: the mode has no covariance matrix.
    """
    center = vector(mode.position)
    covariance = mode.covariance
    if not isinstance(covariance, np.ndarray):
        raise ValueError(
            f"mode must be of at most {limits.MAX_DENSE_DIMENSION:,} numbers; got one of "
            f"{len(center):,}"
        )
    return ModeMetric(center, root_of(temperature * covariance, symmetric=True))


def root_of(covariance: np.ndarray, symmetric: bool = False) -> np.ndarray:
    """Return L with L Lᵀ the covariance, or nearly so if that is singular.

    Args:
        covariance: a covariance matrix, shape (d, d).
        symmetric: whether to return the root that is nearest to a diagonal matrix in units of the
            coordinates: D R^½, for the covariance D R D.
    """
    scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(covariance / scale / scale[:, None])
    root = vectors * np.sqrt(np.maximum(values, 1e-8 * values[-1]))
    return scale[:, None] * (root @ vectors.T if symmetric else root)
