"""Means and standard deviations of draws, in float64."""

import jax
import numpy as np

from ewsg_jax.base.typing import PyTree


def mean_of(draws: PyTree, chains: np.ndarray) -> PyTree:
    """Return the mean over chains and draws, a pytree like one draw, in float64.

    Float32 has 24 bits: if the mean of some thousand draws is a thousand times their standard
    deviation, sums in float32 have lost it.

    Args:
        draws: a pytree of arrays with leading axes (chain, draw).
        chains: numbers of the chains that count; the mean is NaN if there are none.
    """

    def mean(leaf: np.ndarray) -> np.ndarray:
        if not len(chains):
            return np.full(leaf.shape[2:], np.nan)
        # One chain at a time: float64 takes twice the room.
        return np.mean([leaf[c].mean(0, dtype=np.float64) for c in chains], axis=0)

    return jax.tree.map(lambda leaf: mean(np.asarray(leaf)), draws)


def sd_of(draws: PyTree, chains: np.ndarray, means: PyTree) -> PyTree:
    """Return the standard deviation about these means, over the draws that `mean_of` takes."""

    def sd(leaf: np.ndarray, center: np.ndarray) -> np.ndarray:
        if not len(chains):
            return center
        return np.sqrt(np.mean([np.square(leaf[c] - center).mean(0) for c in chains], axis=0))

    return jax.tree.map(lambda leaf, center: sd(np.asarray(leaf), center), draws, means)
