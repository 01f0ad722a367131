"""Tables that draw from any probabilities at the cost of a uniform row and a coin (Walker 1977;
Vose 1991).

The coin is between that row and another one, its alias.
"""

import numpy as np

WORD = 2**32
"""How many values a random word has."""


def certain_rows(p: np.ndarray, batch_size: int) -> np.ndarray:
    """Return the rows in every batch: those of b pᵢ ≥ 1, again among the others until none."""
    certain = np.zeros(len(p), bool)
    while True:
        left, mass = batch_size - certain.sum(), p[~certain].sum()
        more = ~certain & (p > 0) & (left * p >= mass * (1 - 1e-12))
        if not left or not more.any():
            return certain
        certain |= more


def alias_table(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return thresholds of 2³², aliases as places, and the probabilities that they make, exactly.

    Places that have too little are filled, in order, by those that have too much, and one of these
    that has given more than it had by the next: what each gives follows from where the cumulative
    sums of both cross (Hübschle-Schneider & Sanders 2019).
    """
    k = len(p)
    scaled, alias, stays = p * k, np.arange(k), np.ones(k)
    small, large = np.flatnonzero(scaled < 1), np.flatnonzero(scaled >= 1)
    lacking, surplus = np.cumsum(1 - scaled[small]), np.cumsum(scaled[large] - 1)
    if len(small) and len(large):
        before = np.concatenate([[0.0], lacking[:-1]])
        giver = np.minimum(np.searchsorted(surplus, before, side="right"), len(large) - 1)
        stays[small], alias[small] = scaled[small], large[giver]
        last = np.searchsorted(before, surplus[:-1], side="left") - 1
        left = np.where(last >= 0, surplus[:-1] - lacking[last], 0.0)
        short = left < 0
        stays[large[:-1][short]], alias[large[:-1][short]] = 1 + left[short], large[1:][short]
    # 2³² − 1 at the most: a place without an alias goes to itself either way.
    threshold = np.clip(np.round(stays * WORD), 0, WORD - 1)
    kept = np.where(alias == np.arange(k), WORD, threshold)
    realised = kept + np.bincount(alias, WORD - kept, minlength=k)
    return threshold, alias, realised / (WORD * k)
