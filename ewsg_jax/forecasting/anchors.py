"""What SVRG and SAGA remember: gradients of rows at points of some steps ago, as the linear law has them.

The noise of an estimate is that of ∇Vᵢ(θ) − ∇Vᵢ(w), with θ and w the points of two steps of the stationary chain.
Of SVRG their distance in time is uniform on 0 … K − 1; of SAGA it differs from row to row, and is geometric.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.forecasting.law import normal, root

NUM_LAGS = 16
"""Distances in time that stand for all."""


class Lags(NamedTuple):
    """The law of the distance in time.

    Attributes:
        values: some of equal probability, whole numbers, shape (NUM_LAGS,) or fewer.
        rate: of SAGA, the probability that a row is seen in a step; None where all rows have one anchor.
    """

    values: np.ndarray
    rate: float | None = None


def uniform_lags(period: int) -> Lags:
    """Return those of SVRG: all of 0 … K − 1, or the middles of equal parts."""
    if period <= NUM_LAGS:
        return Lags(np.arange(period))
    return Lags(np.floor((np.arange(NUM_LAGS) + 0.5) / NUM_LAGS * period).astype(int))


def geometric_lags(rate: float) -> Lags:
    """Return those of SAGA, 1, 2, …, the middles of parts of equal probability."""
    if rate >= 1:
        return Lags(np.ones(1, int), rate)
    middles = (np.arange(NUM_LAGS) + 0.5) / NUM_LAGS
    return Lags(np.ceil(np.log1p(-middles) / np.log1p(-rate)).astype(int), rate)


def pairs(matrix: np.ndarray, covariance: np.ndarray, lags: Lags, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of z now and of z at the anchors' time, each (count', m), count' a multiple of the lags."""
    size = len(matrix)
    each = max(2, -(-count // len(lags.values)))
    now, then = [], []
    for number, lag in enumerate(lags.values):
        power = np.linalg.matrix_power(matrix, int(lag))
        both = normal(number, each, 2 * size)
        before = both[:, :size] @ root(covariance)
        since = both[:, size:] @ root(covariance - power @ covariance @ power.T)
        then.append(before)
        now.append(before @ power.T + since)
    return np.concatenate(now), np.concatenate(then)


def geometrically(matrix: np.ndarray, covariance: np.ndarray, rate: float) -> np.ndarray:
    """Return E[z wᵀ], w as long before z as a renewal of this rate: Σ rate (1 − rate)^(lag − 1) A^lag P."""
    return rate * matrix @ np.linalg.solve(np.eye(len(matrix)) - (1 - rate) * matrix, covariance)


def own_anchors(matrix: np.ndarray, covariance: np.ndarray, rate: float) -> np.ndarray:
    """Return E[(z − w)(z − w)ᵀ] for one anchor of a geometric age, less that for the mean of all such anchors.

    Rows that have anchors of their own differ from their mean less than from any one.
    """
    across = geometrically(matrix, covariance, rate)
    with_mean = rate**2 * covariance + rate * (1 - rate) * (across + across.T)
    mean = with_mean / (1 - (1 - rate) ** 2)
    return covariance - mean
