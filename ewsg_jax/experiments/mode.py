"""The mode of a logistic regression and its curvature there, by Newton's method in float64."""

from typing import NamedTuple

import numpy as np

CHUNK_SIZE = 65_536
"""Rows taken at once in float64."""
MOST_STEPS = 100
DECREMENT = 1e-6
"""Newton's method ends where another step would lower the potential by less than this."""


class Mode(NamedTuple):
    """Where the posterior is highest.

    Attributes:
        weights: the mode, shape (d,).
        hessian: ∇²V there, shape (d, d).
        num_steps: Newton steps made.
        data_passes: passes over the data that they cost: gradients with curvature, and potentials.
    """

    weights: np.ndarray
    hessian: np.ndarray
    num_steps: int
    data_passes: int


def find_mode(rows: dict[str, np.ndarray], prior_scale: float) -> Mode:
    """Minimise V of `models.logistic_regression(prior_scale=…)` by damped Newton steps from zero.

    Args:
        rows: {"x": (n, d), "y": (n,) of 0 and 1}.
        prior_scale: standard deviation of the prior.

    Raises:
        ValueError: the curvature is not positive definite: a flat prior on features that depend on each other.
    """
    precision = 0.0 if np.isinf(prior_scale) else prior_scale**-2
    weights = np.zeros(rows["x"].shape[1])
    passes = 0
    for num_steps in range(MOST_STEPS):
        value, gradient, hessian = _derivatives(rows, weights, precision)
        passes += 1
        try:
            np.linalg.cholesky(hessian)
        except np.linalg.LinAlgError:
            raise ValueError(
                "the posterior's curvature at its mode is not positive definite: features depend on each other and "
                "the prior is too flat; take a smaller prior_scale"
            ) from None
        step = np.linalg.solve(hessian, gradient)
        decrement = float(gradient @ step)
        if decrement < DECREMENT:
            return Mode(weights, hessian, num_steps, passes)
        length = 1.0
        while True:
            passes += 1
            if _potential(rows, weights - length * step, precision) <= value - 1e-4 * length * decrement:
                break
            length /= 2
            if length < 1e-9:
                return Mode(weights, hessian, num_steps, passes)
        weights = weights - length * step
    raise ValueError(f"Newton's method found no mode in {MOST_STEPS} steps; take a smaller prior_scale")


def _chunks(rows: dict[str, np.ndarray]) -> list[slice]:
    return [slice(start, start + CHUNK_SIZE) for start in range(0, len(rows["y"]), CHUNK_SIZE)]


def _potential(rows: dict[str, np.ndarray], weights: np.ndarray, precision: float) -> float:
    total = 0.5 * precision * weights @ weights
    for part in _chunks(rows):
        logits = rows["x"][part] @ weights
        total += np.sum(np.logaddexp(0, logits) - rows["y"][part] * logits)
    return float(total)


def _derivatives(
    rows: dict[str, np.ndarray], weights: np.ndarray, precision: float
) -> tuple[float, np.ndarray, np.ndarray]:
    value = 0.5 * precision * weights @ weights
    gradient, hessian = precision * weights, precision * np.eye(len(weights))
    for part in _chunks(rows):
        x, y = rows["x"][part].astype(np.float64), rows["y"][part]
        logits = x @ weights
        # 1 / (1 + exp(−s)) without overflow.
        p = np.exp(-np.logaddexp(0, -logits))
        value += np.sum(np.logaddexp(0, logits) - y * logits)
        gradient += x.T @ (p - y)
        hessian += (x * (p * (1 - p))[:, None]).T @ x
    return float(value), gradient, hessian
