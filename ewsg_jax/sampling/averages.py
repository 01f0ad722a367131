"""Means and standard deviations of draws, added up in float64."""

import jax
import numpy as np

from ewsg_jax._types import PyTree


def mean_and_sd(draws: PyTree, chains: np.ndarray) -> tuple[PyTree, PyTree]:
    """Return the mean and the standard deviation over chains and draws, trees like one draw, in float64.

    Float32 has 24 bits: of some thousand draws whose mean is a thousand times their spread, NumPy's own sums, in
    their precision, have lost the spread.

    Args:
        draws: a tree of arrays with leading axes (chain, draw).
        chains: numbers of those that count; NaN where there are none.
    """

    def mean(leaf: np.ndarray) -> np.ndarray:
        if not len(chains):
            return np.full(leaf.shape[2:], np.nan)
        return np.mean([leaf[c].mean(0, dtype=np.float64) for c in chains], axis=0)

    def sd(leaf: np.ndarray, center: np.ndarray) -> np.ndarray:
        if not len(chains):
            return center
        return np.sqrt(np.mean([np.square(leaf[c] - center).mean(0) for c in chains], axis=0))

    # One chain at a time: float64 takes twice the room.
    known = jax.tree.map(np.asarray, draws)
    means = jax.tree.map(mean, known)
    return means, jax.tree.map(sd, known, means)
