"""The metric of a posterior, estimated from draws and the gradients ∇V there.

The normal distribution N(c, Σ) whose gradients Σ⁻¹(θ − c) are nearest to ∇V at the draws, in the
metric Σ (the one of least Fisher divergence), solves Σ B Σ = A. A is the covariance of the draws, B
that of their gradients, so Σ is the geometric mean of A and B⁻¹ (as in nutpie: Seyboldt, Carlson &
Carpenter 2026). For a normal posterior it is exact with d + 1 draws from anywhere: errors of A and
B⁻¹ cancel, whether chains have not arrived or minibatch noise makes them over-dispersed.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.plan import settings
from ewsg_jax.base import limits
from ewsg_jax.base.factors import LowRank, variances


class ChainMetric(NamedTuple):
    """A metric from draws and gradients.

    Attributes:
        covariance: Σ, shape (d, d); of low rank in more than 1,000 dimensions.
        center: the mean of the draws, shape (d,).
        variance_ratio: the largest factor, at least 1, between a variance of this metric and of the
            previous one: in any direction, or of a coordinate if the metric is of low rank.
    """

    covariance: np.ndarray | LowRank
    center: np.ndarray
    variance_ratio: float


def least_fisher_metric(
    draws: np.ndarray, first: np.ndarray, second: np.ndarray, previous: np.ndarray | LowRank
) -> ChainMetric:
    """Return the metric of least Fisher divergence.

    Args:
        draws: positions, shape (draws, d), float64.
        first: ∇V there on one batch, the same shape.
        second: ∇V on an independent batch; the same array if all rows are taken.
        previous: the covariance in whose units few draws are shrunk to the identity.
    """
    center = draws.mean(0)
    centered, gradients = draws - center, (first - first.mean(0), second - second.mean(0))
    if isinstance(previous, LowRank):
        covariance, ratio = _low_rank(centered, *gradients, previous)
    else:
        covariance, ratio = _dense(centered, *gradients, previous)
    return ChainMetric(covariance, center, ratio)


def shrunk_covariance(draws: np.ndarray, ess: float, previous: np.ndarray) -> np.ndarray:
    """Return the covariance of draws alone, with a share of the previous one if they are few.

    It is for draws at a steep edge, whose gradients depend on the edge more than on the posterior's
    width.

    Args:
        draws: positions, shape (draws, d), float64.
        ess: how many independent draws they are worth.
        previous: a covariance, shape (d, d).
    """
    share = settings.METRIC_SHRINKAGE * draws.shape[1] / (draws.shape[1] + ess)
    return (1 - share) * np.cov(draws.T).reshape(previous.shape) + share * previous


def metric_of_gradients(gradients: np.ndarray) -> np.ndarray | LowRank:
    """Return a first metric: all variances are 1 over the size of the gradients (draws, d), as in
    nutpie.
    """
    variance = 1 / max(float(np.sqrt(np.mean(gradients**2))), np.finfo(np.float32).tiny)
    size, rank = gradients.shape[1], settings.METRIC_RANK
    if size <= limits.MAX_DENSE_DIMENSION:
        return variance * np.eye(size)
    return LowRank(np.full(size, variance), np.eye(size, rank), np.ones(rank))  # pyright: ignore[reportArgumentType]


def _dense(
    centered: np.ndarray, first: np.ndarray, second: np.ndarray, previous: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the covariance as a matrix, and the largest factor by which a variance changed."""
    root = np.linalg.cholesky(previous)
    whitened = np.linalg.solve(root, centered.T).T
    mean = _geometric_mean(whitened, first @ root, second @ root)
    values = np.linalg.eigvalsh(mean)
    covariance = root @ mean @ root.T
    return (covariance + covariance.T) / 2, float(max(values[-1], 1 / values[0]))


def _low_rank(
    centered: np.ndarray, first: np.ndarray, second: np.ndarray, previous: LowRank
) -> tuple[LowRank, float]:
    """Return the covariance as a diagonal and some directions, and the largest factor by which a
    variance of a coordinate changed.
    """
    rank = settings.METRIC_RANK
    # Two batches leave no noise in the mean, which may be negative: bounded below.
    gradient_variances = np.mean(first * second, axis=0)
    noise = np.mean((first - second) ** 2, axis=0)
    gradient_variances = np.maximum(gradient_variances, settings.NOISE_FLOOR * noise)
    gradient_variances = np.maximum(
        gradient_variances, limits.FLOAT64_ROUNDING * gradient_variances.max()
    )
    draw_variances = np.maximum(centered.var(0), np.finfo(float).tiny)
    diagonal = np.sqrt(draw_variances / gradient_variances)
    sd = np.sqrt(diagonal)
    scaled, (a, b) = centered / sd, (first * sd, second * sd)
    # The directions with the largest variance of draws, and of gradients.
    directions = np.concatenate([_widest(scaled), _widest((a + b) / 2)], axis=1)
    basis, _ = np.linalg.qr(directions)
    values, vectors = np.linalg.eigh(_geometric_mean(scaled @ basis, a @ basis, b @ basis))
    kept = np.argsort(-np.abs(np.log(values)))[: min(rank, len(values))]
    metric = LowRank(diagonal, basis @ vectors[:, kept], values[kept])  # pyright: ignore[reportArgumentType]
    change = variances(metric) / variances(previous)
    return metric, float(max(change.max(), 1 / change.min()))


def _widest(values: np.ndarray) -> np.ndarray:
    """Return orthonormal directions with the largest variance of values (draws, d), shape (d, rank
    of the metric or fewer).
    """
    return np.linalg.svd(values, full_matrices=False)[2][: settings.METRIC_RANK].T


def _geometric_mean(draws: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the geometric mean of the draws' covariance and the inverse of the gradients', both
    shrunk by the same share.
    """
    count, size = draws.shape
    share = settings.METRIC_SHRINKAGE * size / (size + count)
    product = first.T @ second / count
    of_draws = _shrunk(draws.T @ draws / count, share)
    of_gradients = _shrunk((product + product.T) / 2, share)
    values, vectors = np.linalg.eigh(of_gradients)
    # Two batches leave no noise on average, but an eigenvalue may be negative by Monte Carlo error:
    # it is then as small as the share that is mixed in.
    rounding = limits.FLOAT64_ROUNDING
    root = np.sqrt(np.maximum(values, share * max(np.median(values), rounding * values[-1])))
    inner, axes = np.linalg.eigh((vectors * root).T @ of_draws @ (vectors * root))
    half = (vectors / root) @ axes
    return (half * np.sqrt(np.maximum(inner, rounding * inner[-1]))) @ half.T


def _shrunk(matrix: np.ndarray, share: float) -> np.ndarray:
    """Return a matrix with a share of the identity times the median of its diagonal."""
    median = max(float(np.median(np.diag(matrix))), np.finfo(float).tiny)
    return (1 - share) * matrix + share * median * np.eye(len(matrix))
