"""Whether events predicted with probability p happen with frequency p."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ewsg_jax import _check

TOLERANCE = 1e-3
"""How far rounding may bring a probability out of [0, 1], or a row's sum from one."""


class Calibration(NamedTuple):
    """Predicted against observed frequencies, in bins of equal width over [0, 1].

    Attributes:
        expected_calibration_error: Σ over bins of counts/n · |confidence − frequency|, from 0 to 1.
        confidence: mean predicted probability in each bin, shape (bins,), float64; NaN in an empty
            bin.
        frequency: share of the bin's rows in which the predicted event happened; the same shape.
        counts: rows in each bin, shape (bins,), int64.
    """

    expected_calibration_error: float
    confidence: np.ndarray
    frequency: np.ndarray
    counts: np.ndarray


def calibration(probabilities: ArrayLike, labels: ArrayLike, *, num_bins: int = 10) -> Calibration:
    """Compare predicted probabilities with what happened.

    With probabilities of shape (n,), the event is class 1 and its probability is the one given (a
    reliability diagram, Naeini, Cooper and Hauskrecht 2015). With shape (n, k), the event is that
    the most probable class, the first of equals, is the row's own, and its probability is the
    largest of the k (Guo et al. 2017, eqs. 2 to 5). So two classes give different numbers in the
    two forms. Bin j of B is (j/B, (j+1)/B], the first with 0.

    Args:
        probabilities: of class 1, shape (n,), or of each of k ≥ 2 classes, shape (n, k).
        labels: classes, shape (n,): 0 and 1, or 0 … k−1; any number type.
        num_bins: number B of bins.

    Raises:
        TypeError, ValueError: an argument is not such an array; a value is no probability, a row
            does not sum to one, or a label is no class.

    Example:
        >>> import ewsg_jax as ewsg
        >>> result = ewsg.diagnostics.calibration([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], num_bins=2)
        >>> (
        ...     round(result.expected_calibration_error, 6),
        ...     result.frequency.tolist(),
        ...     result.counts.tolist(),
        ... )
        (0.25, [0.0, 0.5], [2, 2])
    """
    takes = "probabilities must be an array (n,) of class 1 or (n, k) of k ≥ 2 classes, n ≥ 1"
    p, dtype = _numbers("probabilities", probabilities, takes)
    tolerance = max(TOLERANCE, float(jnp.finfo(dtype).eps))
    if p.ndim not in (1, 2) or p.shape[0] == 0 or (p.ndim == 2 and p.shape[1] < 2):
        raise ValueError(f"{takes}; got {_check.describe(p)}")
    if not ((p >= -tolerance) & (p <= 1 + tolerance)).all():
        raise ValueError(
            f"probabilities must lie between 0 and 1; they range from {p.min()} to {p.max()}"
        )
    if p.ndim == 2 and (distance := np.abs(p.sum(1, dtype=np.float64) - 1).max()) > tolerance:
        raise ValueError(
            f"probabilities must sum to one in each row; a sum is off by {distance:.3g}"
        )
    classes = 2 if p.ndim == 1 else p.shape[1]
    y, _ = _numbers("labels", labels, f"labels must be classes, an array of shape ({p.shape[0]},)")
    if y.shape != p.shape[:1] or not ((y >= 0) & (y < classes) & (y == np.floor(y))).all():
        raise ValueError(
            f"labels must be classes from 0 to {classes - 1}, an array of shape ({p.shape[0]},); "
            f"got {_check.describe(y)}"
        )
    _check.integer("num_bins", num_bins)

    happened = y == (1 if p.ndim == 1 else p.argmax(1))
    confidence = np.clip(p if p.ndim == 1 else p.max(1), 0, 1)
    # Edges are compared in the dtype of the probabilities: a float32 0.7 lies on the edge 0.7.
    edges = (np.arange(1, num_bins) / num_bins).astype(dtype).astype(confidence.dtype)
    bins = np.searchsorted(edges, confidence, side="left")
    count = np.bincount(bins, minlength=num_bins)
    filled = np.where(count, count, np.nan)
    mean = np.bincount(bins, confidence.astype(np.float64), num_bins) / filled
    frequency = np.bincount(bins, happened, num_bins) / filled
    gaps = np.where(count, np.abs(mean - frequency), 0.0)
    return Calibration(float(count @ gaps / count.sum()), mean, frequency, count)


def _numbers(name: str, value: ArrayLike, takes: str) -> tuple[np.ndarray, np.dtype]:
    """The value as real numbers, at least float32, and the floating-point dtype it came in."""
    array = np.asarray(value)
    if jnp.issubdtype(array.dtype, np.floating):
        return array.astype(np.promote_types(array.dtype, np.float32)), array.dtype
    if array.dtype.kind not in "biu":
        raise TypeError(f"{takes}; got {_check.describe(value)}")
    return array.astype(np.float64), np.dtype(np.float64)
