"""Coordinates that the data hardly know apart: so nearly correlated that only a combination is."""

import numpy as np

ALIKE, MOST_NAMED = 0.99, 3
"""Correlation from which on two coordinates are named, and how many pairs are."""


def correlated(covariance: np.ndarray, names: tuple[str, ...]) -> str:
    """Return which coordinates are nearly one, in words; nothing where none are.

    Args:
        covariance: of the posterior, shape (d, d).
        names: of the coordinates.
    """
    sd = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    correlation = np.clip(covariance / sd / sd[:, None], -1.0, 1.0)
    first, second = np.nonzero(np.triu(np.abs(correlation) > ALIKE, 1))
    if not len(first):
        return ""
    values = correlation[first, second]
    order = np.argsort(-np.abs(values), kind="stable")[:MOST_NAMED]
    pairs = ", ".join(f"{names[first[k]]} and {names[second[k]]} ({values[k]:+.3f})" for k in order)
    more = f" and {len(first) - MOST_NAMED} more" if len(first) > MOST_NAMED else ""
    return (
        f"correlated above {ALIKE}: {pairs}{more}; a combination of them is known far better than "
        "each alone: centre columns, or leave one out"
    )
