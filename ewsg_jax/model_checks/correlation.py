"""Coordinates of which the data know only a combination: their posterior correlation is near 1."""

import numpy as np

from ewsg_jax.base import limits
from ewsg_jax.model_checks.finding import Finding

HIGH_CORRELATION = 0.99
"""Absolute correlation from which on two coordinates are named: their sum is then known 14 times
better than their difference, or the reverse."""


def high_correlations(covariance: np.ndarray, names: tuple[str, ...]) -> list[Finding]:
    """Return one finding that names the pairs of coordinates that are nearly one, or none.

    Args:
        covariance: that of the posterior, shape (d, d).
        names: a name for each coordinate.
    """
    sd = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    correlation = np.clip(covariance / sd / sd[:, None], -1.0, 1.0)
    first, second = np.nonzero(np.triu(np.abs(correlation) > HIGH_CORRELATION, 1))
    if not len(first):
        return []
    values = correlation[first, second]
    most = limits.NAMES_SHOWN
    order = np.argsort(-np.abs(values), kind="stable")[:most]
    pairs = ", ".join(f"{names[first[k]]} and {names[second[k]]} ({values[k]:+.3f})" for k in order)
    more = f" and {len(first) - most} more" if len(first) > most else ""
    text = (
        f"correlated above {HIGH_CORRELATION}: {pairs}{more}; a combination of them is known far "
        "better than each alone"
    )
    return [Finding("correlation", "note", text, "centre columns, or leave one out")]
