"""Modes by Newton in float64, in unit curvature: for models with one linear predictor."""

from typing import NamedTuple

import numpy as np


class Mode(NamedTuple):
    """A mode and the Hessian of the potential there."""

    position: np.ndarray
    hessian: np.ndarray

    def away(self, position):
        """How many standard deviations a position is from it."""
        difference = np.asarray(position, np.float64) - self.position
        return float(np.sqrt(difference @ self.hessian @ difference))


def linear(s, y):
    """Half the squared residual with its first two derivatives by the predictor."""
    return (s - y) ** 2 / 2, s - y, np.ones_like(s)


def logistic(s, y):
    """Minus the log probability of a label."""
    p = np.exp(-np.logaddexp(0, -s))
    return np.logaddexp(0, s) - y * s, p - y, p * np.exp(-np.logaddexp(0, s))


def student(s, y):
    """Minus the log density of Student's t with 4 degrees of freedom."""
    r = s - y
    return 2.5 * np.log1p(r**2 / 4), 5 * r / (4 + r**2), 5 * (4 - r**2) / (4 + r**2) ** 2


def mode(loss, x, y, precision, start=None):
    """The mode of Σ loss(xᵢᵀw, yᵢ) + precision |w|²/2; of several, the one below the start."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    w = np.zeros(x.shape[1]) if start is None else np.asarray(start, np.float64)

    def derivatives(w):
        value, slope, curvature = loss(x @ w, y)
        hessian = (x * curvature[:, None]).T @ x + precision * np.eye(len(w))
        return value.sum() + precision * w @ w / 2, slope @ x + precision * w, hessian

    value, gradient, hessian = derivatives(w)
    for _ in range(500):
        scale = np.sqrt(np.abs(np.diag(hessian)))
        values, vectors = np.linalg.eigh(hessian / scale[:, None] / scale)
        step = vectors @ ((vectors.T @ (gradient / scale)) / np.abs(values)) / scale
        fall = gradient @ step
        if values[0] > 0 and fall < 1e-16:
            return Mode(w, hessian)
        length = 1.0
        while length > 1e-10:
            found = derivatives(w - length * step)
            if found[0] <= value - 1e-4 * length * fall + 1e-13 * abs(value):
                break
            length /= 2
        w, (value, gradient, hessian) = w - length * step, found
    raise AssertionError("Newton's method found no mode")
