"""The metric of a posterior, from draws and the gradients ∇V there.

Of all normal laws N(c, Σ) the one whose gradients Σ⁻¹(θ − c) are nearest to ∇V at the draws, in the
metric Σ (of least Fisher divergence), has Σ B Σ = A: A is the covariance of the draws, B that of
their gradients, and Σ the geometric mean of A and B⁻¹ (as in nutpie, Seyboldt, Carlson & Carpenter
2026). Of a normal posterior it is right with d + 1 draws from anywhere: what A and B⁻¹ are off by,
of chains that have not arrived or that noise makes wide, cancels.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.base.factors import LowRank, variances

DENSE = 1_000
"""Dimension up to which the metric is a matrix."""
RANK = 32
"""Directions above that, in which the metric is not a diagonal."""
SHRUNK = 0.3
"""The part of I that is mixed in where there are as many numbers as draws, less with more draws."""
LEAST = 1e-12
"""Of a variance, relatively to the largest, what is rounding."""


class Metric(NamedTuple):
    """What draws and gradients say of a posterior.

    Attributes:
        covariance: Σ, shape (d, d), or of low rank above 1,000 numbers.
        center: the draws' mean, shape (d,).
        ratio: the largest factor by which a variance differs from the metric before, either way: in
            any direction, or of a coordinate where the metric is of low rank.
    """

    covariance: np.ndarray | LowRank
    center: np.ndarray
    ratio: float


def metric_of(
    draws: np.ndarray, first: np.ndarray, second: np.ndarray, before: np.ndarray | LowRank
) -> Metric:
    """Return the metric of least Fisher divergence.

    Args:
        draws: shape (draws, d), float64.
        first: ∇V there on a batch, of the same shape.
        second: the same on another; the same array where there is no noise.
        before: the metric in whose units a few draws are shrunk to I.
    """
    center = draws.mean(0)
    moved, gradients = draws - center, (first - first.mean(0), second - second.mean(0))
    if isinstance(before, LowRank):
        covariance, ratio = _low_rank(moved, *gradients, before)
    else:
        covariance, ratio = _dense(moved, *gradients, before)
    return Metric(covariance, center, ratio)


def covariance_of(draws: np.ndarray, ess: float, before: np.ndarray) -> np.ndarray:
    """Return the covariance of draws alone, with a share of the metric before where they are few.

    On one side of a wall gradients say more of the wall than of how wide the posterior is.

    Args:
        draws: shape (draws, d), float64.
        ess: how many independent ones they are worth.
        before: shape (d, d).
    """
    share = SHRUNK * draws.shape[1] / (draws.shape[1] + ess)
    return (1 - share) * np.cov(draws.T).reshape(before.shape) + share * before


def start_of(gradients: np.ndarray) -> np.ndarray | LowRank:
    """Return a metric to begin with: variances of 1 over the size of gradients (draws, d), as in
    nutpie.
    """
    width = 1 / max(float(np.sqrt(np.mean(gradients**2))), np.finfo(np.float32).tiny)
    size = gradients.shape[1]
    if size <= DENSE:
        return width * np.eye(size)
    return LowRank(np.full(size, width), np.eye(size, RANK), np.ones(RANK))  # pyright: ignore[reportArgumentType]


def _dense(
    moved: np.ndarray, first: np.ndarray, second: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, float]:
    root = np.linalg.cholesky(before)
    of_draws = np.linalg.solve(root, moved.T).T
    found = _mean(of_draws, first @ root, second @ root)
    values = np.linalg.eigvalsh(found)
    turned = root @ found @ root.T
    return (turned + turned.T) / 2, float(max(values[-1], 1 / values[0]))


def _low_rank(
    moved: np.ndarray, first: np.ndarray, second: np.ndarray, before: LowRank
) -> tuple[LowRank, float]:
    of_gradients = np.mean(first * second, axis=0)
    of_gradients = np.maximum(of_gradients, 1e-3 * np.mean((first - second) ** 2, axis=0))
    of_gradients = np.maximum(of_gradients, LEAST * of_gradients.max())
    diagonal = np.sqrt(np.maximum(moved.var(0), np.finfo(float).tiny) / of_gradients)
    unit = np.sqrt(diagonal)
    scaled, (a, b) = moved / unit, (first * unit, second * unit)
    # The directions in which draws are widest, and those in which gradients are.
    ways = np.concatenate([_widest(scaled), _widest((a + b) / 2)], axis=1)
    basis, _ = np.linalg.qr(ways)
    values, vectors = np.linalg.eigh(_mean(scaled @ basis, a @ basis, b @ basis))
    kept = np.argsort(-np.abs(np.log(values)))[: min(RANK, len(values))]
    made = LowRank(diagonal, basis @ vectors[:, kept], values[kept])  # pyright: ignore[reportArgumentType]
    change = variances(made) / variances(before)
    return made, float(max(change.max(), 1 / change.min()))


def _widest(values: np.ndarray) -> np.ndarray:
    """Return orthonormal directions in which values (draws, d) are widest, shape (d, RANK or
    fewer).
    """
    return np.linalg.svd(values, full_matrices=False)[2][:RANK].T


def _mean(draws: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the geometric mean of draws' covariance and the inverse of gradients', both shrunk
    alike.
    """
    count, size = draws.shape
    share = SHRUNK * size / (size + count)
    product = first.T @ second / count
    wide, steep = (
        _shrunk(each, share) for each in (draws.T @ draws / count, (product + product.T) / 2)
    )
    values, vectors = np.linalg.eigh(steep)
    # Two batches leave no noise on average; what chance makes negative is as little as is mixed in.
    root = np.sqrt(np.maximum(values, share * max(np.median(values), LEAST * values[-1])))
    inner, axes = np.linalg.eigh((vectors * root).T @ wide @ (vectors * root))
    half = (vectors / root) @ axes
    return (half * np.sqrt(np.maximum(inner, LEAST * inner[-1]))) @ half.T


def _shrunk(matrix: np.ndarray, share: float) -> np.ndarray:
    """Return a matrix with a share of I in it, as large as its diagonal mostly is."""
    middle = max(float(np.median(np.diag(matrix))), np.finfo(float).tiny)
    return (1 - share) * matrix + share * middle * np.eye(len(matrix))
