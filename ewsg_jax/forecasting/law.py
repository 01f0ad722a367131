"""The stationary law of z' = A z + noise: its covariance, and how long its coordinates remember."""

import numpy as np

MOST_DOUBLINGS = 60
"""Steps of 2⁶⁰: a map that has not forgotten by then never does."""
FORGOTTEN = 1e-12


def stationary(matrix: np.ndarray, noise: np.ndarray) -> np.ndarray | None:
    """Return P = A P Aᵀ + Q, by doubling; None where A does not forget.

    Args:
        matrix: A, shape (m, m).
        noise: Q, shape (m, m).
    """
    power, total = matrix, noise
    with np.errstate(all="ignore"):
        for _ in range(MOST_DOUBLINGS):
            total = total + power @ total @ power.T
            power = power @ power
            size = float(np.abs(power).max())
            if not np.isfinite(size):
                return None
            if size < FORGOTTEN:
                return (total + total.T) / 2
    return None


def autocorrelation_times(matrix: np.ndarray, covariance: np.ndarray, count: int) -> np.ndarray:
    """Return 1 + 2 Σ ρ(lag) over all lags, of the first `count` coordinates."""
    sums = np.linalg.solve(np.eye(len(matrix)) - matrix, matrix @ covariance)
    return 1 + 2 * np.diag(sums)[:count] / np.diag(covariance)[:count]


def root(covariance: np.ndarray) -> np.ndarray:
    """Return the symmetric root, of what rounding may have left a little below 0."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def normal(seed: int, count: int, size: int) -> np.ndarray:
    """Return draws of N(0, I), shape (count, size), in pairs ±; of covariance I itself where they are enough."""
    half = np.random.default_rng(seed).normal(size=(-(-count // 2), size))
    draws = np.concatenate([half, -half])[:count]
    if count >= 2 * size + 2:
        draws -= draws.mean(0)
        factor = np.linalg.cholesky(draws.T @ draws / len(draws))
        draws = np.linalg.solve(factor, draws.T).T
    return draws
