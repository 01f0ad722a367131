"""The stationary distribution of z' = A z + noise: its covariance, its autocorrelations, and z
together with z of some steps ago.

Matrices may be stacks, shape (…, m, m), with a stationary distribution for each.
"""

from collections.abc import Sequence

import numpy as np

from ewsg_jax.base import limits


def stationary(matrix: np.ndarray, noise: np.ndarray) -> np.ndarray | None:
    """Return P = A P Aᵀ + Q, all of shape (m, m); None if the chain does not forget its start."""
    covariance, is_stationary = stationary_each(matrix, noise)
    return covariance if is_stationary else None


def stationary_each(matrix: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return P = A P Aᵀ + Q, shape (…, m, m), by doubling, and whether it is stationary, shape (…):
    whether powers of A vanish.
    """
    power, total, size = matrix, noise, np.abs(matrix).max((-1, -2))
    with np.errstate(all="ignore"):
        # By doubling: 2^k steps after k turns, so that slow maps cost few products.
        # A chain that remembers its start after 2⁶⁰ steps never forgets.
        for _ in range(60):
            total = total + power @ total @ power.swapaxes(-1, -2)
            power = power @ power
            size = np.abs(power).max((-1, -2))
            # A stack is finished when each chain of it has forgotten its start, or never will.
            if np.all((size < limits.FLOAT64_ROUNDING) | ~np.isfinite(size)):
                break
        return (total + total.swapaxes(-1, -2)) / 2, np.asarray(size < limits.FLOAT64_ROUNDING)


def autocorrelation_times(matrix: np.ndarray, covariance: np.ndarray, count: int) -> np.ndarray:
    """Return 1 + 2 Σ ρ(lag) over all lags, of the first `count` coordinates, shape (…, count)."""
    sums = np.linalg.solve(np.eye(matrix.shape[-1]) - matrix, matrix @ covariance)
    of_sums, of_covariance = (
        np.diagonal(stack, axis1=-2, axis2=-1)[..., :count] for stack in (sums, covariance)
    )
    return 1 + 2 * of_sums / of_covariance


def counted_time(matrix: np.ndarray, covariance: np.ndarray) -> float:
    """Return 1 + 2 Σ ρ(lag) of the first coordinate as an effective sample size counts it, for m at
    most 2.

    The sum ends before the first two lags that are negative together (Geyer 1992). For chains that
    overshoot it is larger than the sum over all lags.
    """
    total = float(autocorrelation_times(matrix, covariance, 1)[0])
    value = np.linalg.eigvals(matrix)[0]
    size, angle = np.abs(value), np.abs(np.angle(value))
    # At smaller angles the formula of a damped oscillation divides by 0.
    if len(matrix) == 1 or np.sin(angle) < 1e-6:
        return total
    # ρ(k) = rᵏ (cos kφ + β sin kφ): a sum of a damped oscillation is largest where it first turns.
    first = float((matrix @ covariance)[0, 0] / covariance[0, 0])
    turns = (np.arctan((first / size - np.cos(angle)) / np.sin(angle)) + np.pi / 2) / angle
    sums, eye = [], np.eye(2)
    # Around that turn, at even counts, as Geyer's sum is cut.
    for count in 2 * int(turns / 2) + np.array([0, 2, 4]):
        partial = np.linalg.solve(eye - matrix, eye - np.linalg.matrix_power(matrix, count))
        sums.append(2 * float((partial @ covariance)[0, 0] / covariance[0, 0]) - 1)
    return max(total, *sums)


def kronecker_square(matrix: np.ndarray) -> np.ndarray:
    """Return A ⊗ A: squares of normal variables have the squared autocorrelations."""
    size = matrix.shape[-1] ** 2
    return np.einsum("...ij,...kl->...ikjl", matrix, matrix).reshape(*matrix.shape[:-2], size, size)


def pairs(
    matrix: np.ndarray, covariance: np.ndarray, lags: Sequence[int] | np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of z now and `lag` steps ago, both (count', m), equally many for each lag."""
    size = len(matrix)
    per_lag = max(2, -(-count // len(lags)))
    now, then = [], []
    for number, lag in enumerate(lags):
        power = np.linalg.matrix_power(matrix, int(lag))
        both = normal(number, per_lag, 2 * size)
        # Two independent normals: the state then, and what noise has added since.
        before = both[:, :size] @ root(covariance)
        since = both[:, size:] @ root(covariance - power @ covariance @ power.T)
        then.append(before)
        now.append(before @ power.T + since)
    return np.concatenate(now), np.concatenate(then)


def covariance_at_uniform_age(matrix: np.ndarray, covariance: np.ndarray, count: int) -> np.ndarray:
    """Return E[z wᵀ] for a w that is 0 … count − 1 steps older than z, all equally probable."""
    eye = np.eye(len(matrix))
    ages = np.linalg.solve(eye - matrix, eye - np.linalg.matrix_power(matrix, count)) / count
    return ages @ covariance


def covariance_at_geometric_age(
    matrix: np.ndarray, covariance: np.ndarray, rate: float
) -> np.ndarray:
    """Return E[z wᵀ] for a w whose age is geometric: Σ rate (1 − rate)^(lag − 1) A^lag P."""
    return rate * matrix @ np.linalg.solve(np.eye(len(matrix)) - (1 - rate) * matrix, covariance)


def covariance_of_own_anchors(
    matrix: np.ndarray, covariance: np.ndarray, rate: float
) -> np.ndarray:
    """Return the covariance of anchors of geometric ages, one for each row, around their mean.

    Rows with separate anchors differ less from their mean than from a common anchor.
    """
    across = covariance_at_geometric_age(matrix, covariance, rate)
    with_mean = rate**2 * covariance + rate * (1 - rate) * (across + across.T)
    mean = with_mean / (1 - (1 - rate) ** 2)
    return covariance - mean


def root(covariance: np.ndarray) -> np.ndarray:
    """Return the symmetric square root; eigenvalues that rounding made negative are set to 0."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def normal(seed: int, count: int, size: int) -> np.ndarray:
    """Return N(0, I) draws in pairs ±, shape (count, size); many have the sample covariance I."""
    half = np.random.default_rng(seed).normal(size=(-(-count // 2), size))
    # Pairs ± have mean 0; many draws are also made to have covariance I.
    draws = np.concatenate([half, -half])[:count]
    if count >= 2 * size + 2:
        draws -= draws.mean(0)
        factor = np.linalg.cholesky(draws.T @ draws / len(draws))
        draws = np.linalg.solve(factor, draws.T).T
    return draws
