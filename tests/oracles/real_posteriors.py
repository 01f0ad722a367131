"""Means and standard deviations of regression posteriors, in NumPy and without Markov chains.

Linear models of unknown σ by quadrature over σ, β being normal given it; logistic and softmax
regression with prior N(0, I) by importance sampling from a t distribution around the mode.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Means and standard deviations, and their standard errors."""

    mean: np.ndarray
    sd: np.ndarray
    error_of_mean: np.ndarray
    error_of_sd: np.ndarray


def linear(
    x: np.ndarray, y: np.ndarray, log_prior: Callable[[np.ndarray], np.ndarray], precision: float
) -> Moments:
    """Return the moments of (β, σ): y ~ N(xβ, σ²), β ~ N(0, I/precision), σ's density; exact."""
    least_squares, *_ = np.linalg.lstsq(x, y)
    sigmas = np.std(y - x @ least_squares) * np.exp(np.linspace(-1.5, 1.8, 4001))
    logs, means, covariances = [], [], []
    for sigma in sigmas:
        matrix = x.T @ x / sigma**2 + precision * np.eye(x.shape[1])
        covariance = np.linalg.inv(matrix)
        mean = covariance @ x.T @ y / sigma**2
        off = y - x @ mean
        exponent = -0.5 * (off @ off / sigma**2 + precision * mean @ mean)
        # The last term: the grid is even in log σ.
        logs.append(
            exponent - 0.5 * np.linalg.slogdet(matrix)[1] - len(y) * np.log(sigma) + np.log(sigma)
        )
        means.append(mean)
        covariances.append(np.diag(covariance))
    logs = np.array(logs) + log_prior(sigmas)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    values = np.column_stack([means, sigmas])
    mean = weights @ values
    variance = weights @ (values - mean) ** 2 + np.append(weights @ np.array(covariances), 0.0)
    return Moments(mean, np.sqrt(variance), np.zeros_like(mean), np.zeros_like(mean))


def softmax(x: np.ndarray, y: np.ndarray, num_draws: int, degrees: float, seed: int = 0) -> Moments:
    """Return the moments of W (p, k), leaf order by rows: P(y = j) ∝ exp(xᵀW_j), prior N(0, I)."""
    size, num_classes = x.shape[1], int(y.max()) + 1
    hot = np.eye(num_classes)[y.astype(int)]

    def log_density(flat: np.ndarray) -> np.ndarray:
        logits = np.einsum("np,...pk->...nk", x, flat.reshape(*flat.shape[:-1], size, num_classes))
        top = logits.max(-1)
        normal = top + np.log(np.exp(logits - top[..., None]).sum(-1))
        return ((logits * hot).sum(-1) - normal).sum(-1) - 0.5 * (flat**2).sum(-1)

    w = np.zeros((size, num_classes))
    for _ in range(50):
        p = np.exp(x @ w)
        p /= p.sum(1, keepdims=True)
        spread = np.einsum("nj,jk->njk", p, np.eye(num_classes)) - np.einsum("nj,nk->njk", p, p)
        hessian = np.einsum("np,nq,njk->pjqk", x, x, spread).reshape(w.size, w.size) + np.eye(
            w.size
        )
        w = w + np.linalg.solve(hessian, (x.T @ (hot - p) - w).ravel()).reshape(w.shape)
    return importance(log_density, w.ravel(), hessian, num_draws, degrees, seed)


def logistic(
    x: np.ndarray, y: np.ndarray, num_draws: int, degrees: float, seed: int = 0
) -> Moments:
    """Return the moments of the weights: P(y = 1) = 1/(1 + exp(−xᵀw)), prior N(0, I)."""

    def log_density(w: np.ndarray) -> np.ndarray:
        logits = w @ x.T
        return (logits * y - np.logaddexp(0, logits)).sum(-1) - 0.5 * (w**2).sum(-1)

    w = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + np.eye(len(w))
        w = w + np.linalg.solve(hessian, x.T @ (y - p) - w)
    return importance(log_density, w, hessian, num_draws, degrees, seed)


def importance(
    log_density: Callable[[np.ndarray], np.ndarray],
    mode: np.ndarray,
    hessian: np.ndarray,
    num_draws: int,
    degrees: float,
    seed: int,
) -> Moments:
    """Return moments by normalised importance sampling from a t, errors by linearisation."""
    generator = np.random.default_rng(seed)
    factor = np.linalg.cholesky(np.linalg.inv(hessian))
    draws, logs = [], []
    for _ in range(max(1, num_draws // 1000)):
        t = generator.standard_normal((1000, len(mode)))
        t /= np.sqrt(generator.chisquare(degrees, (1000, 1)) / degrees)
        draws.append(mode + t @ factor.T)
        proposal = -(degrees + len(mode)) / 2 * np.log1p((t**2).sum(1) / degrees)
        logs.append(log_density(draws[-1]) - proposal)
    values, log_weights = np.concatenate(draws), np.concatenate(logs)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = weights @ values
    squares = (values - mean) ** 2
    variance = weights @ squares
    error_of_variance = np.sqrt(weights**2 @ (squares - variance) ** 2)
    return Moments(
        mean,
        np.sqrt(variance),
        np.sqrt(weights**2 @ squares),
        error_of_variance / (2 * np.sqrt(variance)),
    )
