"""Tables that draw from any probabilities at the cost of a uniform row and a coin (Walker 1977; Vose 1991).

The coin is between that row and another one, its alias.
"""

import numpy as np

WORD = 2**32


def certain_rows(p: np.ndarray, batch_size: int) -> np.ndarray:
    """Return which rows are in every batch: those of b pᵢ ≥ 1, and of the others as often as there are any."""
    certain = np.zeros(len(p), bool)
    while True:
        left, mass = batch_size - certain.sum(), p[~certain].sum()
        more = ~certain & (p > 0) & (left * p >= mass * (1 - 1e-12))
        if not left or not more.any():
            return certain
        certain |= more


def alias_table(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return thresholds of 2³², aliases as places, and the probabilities that they make, exactly."""
    k = len(p)
    scaled, alias = p * k, np.arange(k)
    small, large = list(np.flatnonzero(scaled < 1)), list(np.flatnonzero(scaled >= 1))
    stays = np.ones(k)
    while small and large:
        low, high = small.pop(), large[-1]
        stays[low], alias[low] = scaled[low], high
        scaled[high] -= 1 - scaled[low]
        if scaled[high] < 1:
            small.append(large.pop())
    # 2³² − 1 at the most: a place without an alias goes to itself either way.
    threshold = np.minimum(np.round(stays * WORD), WORD - 1)
    kept = np.where(alias == np.arange(k), WORD, threshold)
    realised = kept + np.bincount(alias, WORD - kept, minlength=k)
    return threshold, alias, realised / (WORD * k)
