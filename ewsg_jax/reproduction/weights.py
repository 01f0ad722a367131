"""Laws of one row under exponential weights, by enumeration: what they do to the mean and the noise of a gradient.

All gradients gᵢ = n ∇Vᵢ(θ) of n rows are listed. With batches of one row the weight of row i is
wᵢ = exp(h ‖γ r + gᵢ‖²/2σ²), σ² = 2γT and T = 1.
"""

from typing import NamedTuple

import numpy as np

UNIFORM, ONE, EXACT = "uniform rows", "M = 1", "M = ∞"


class Change(NamedTuple):
    """What a law of rows makes of the gradient, and of the square of the momentum after a step of Euler's scheme.

    Attributes:
        drift: the mean estimate less the gradient, shape (…, d).
        trace: the trace of the estimate's covariance, shape (…).
    """

    drift: np.ndarray
    trace: np.ndarray


def log_weights(gradients: np.ndarray, momentum: np.ndarray, h: float, friction: float) -> np.ndarray:
    """Return log wᵢ of rows, shape (…, n), of gradients (…, n, d) at momenta (…, d)."""
    return h / (4 * friction) * np.sum((friction * momentum[..., None, :] + gradients) ** 2, -1)


def law_of(name: str, logs: np.ndarray) -> np.ndarray:
    """Return the probability of each row, shape (…, n), by a name: uniform, after one proposal, or in the limit."""
    n = logs.shape[-1]
    if name == UNIFORM:
        return np.full(logs.shape, 1 / n)
    if name == EXACT:
        weights = np.exp(logs - logs.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)
    # From a uniform row to another one, proposed uniformly.
    taken = np.exp(np.minimum(logs[..., None, :] - logs[..., :, None], 0))
    return (taken.sum(-2) + (1 - taken).sum(-1)) / n**2


def change(gradients: np.ndarray, law: np.ndarray) -> Change:
    """Return what a law (…, n) of rows makes of their gradients (…, n, d)."""
    mean = np.einsum("...n,...nd->...d", law, gradients)
    off = gradients - mean[..., None, :]
    return Change(mean - gradients.mean(-2), np.einsum("...n,...nd,...nd->...", law, off, off))


def first_order(gradients: np.ndarray, momentum: np.ndarray, h: float, friction: float) -> tuple[np.ndarray, ...]:
    """Return the drift to first order in h, in three parts: of the momentum, of the force, of the skewness.

    (h/σ²) [S γ r + S ∇V + ½ E ‖δ‖² δ], δ = g − ∇V and S its covariance under uniform rows.
    """
    mean = gradients.mean(-2)
    off = gradients - mean[..., None, :]
    spread = np.einsum("...ni,...nj->...ij", off, off) / gradients.shape[-2]
    skew = (np.sum(off**2, -1, keepdims=True) * off).mean(-2) / 2
    scale = h / (2 * friction)
    return (
        scale * np.einsum("...ij,...j->...i", spread, friction * momentum),
        scale * np.einsum("...ij,...j->...i", spread, mean),
        scale * skew,
    )


def variance_change(gradients: np.ndarray, momentum: np.ndarray, h: float, friction: float) -> np.ndarray:
    """Return Theorem 4.2's Δ: the trace of the covariance under weights less that of uniform rows."""
    logs = log_weights(gradients, momentum, h, friction)
    return change(gradients, law_of(EXACT, logs)).trace - change(gradients, law_of(UNIFORM, logs)).trace


def first_variance_change(gradients: np.ndarray, momentum: np.ndarray, h: float, friction: float) -> np.ndarray:
    """Return Δ to first order in h: (h/2σ²) Cov(‖γr + g‖², ‖δ‖²)."""
    sizes = np.sum((friction * momentum[..., None, :] + gradients) ** 2, -1)
    squares = np.sum((gradients - gradients.mean(-2, keepdims=True)) ** 2, -1)
    both = ((sizes - sizes.mean(-1, keepdims=True)) * squares).mean(-1)
    return h / (4 * friction) * both
