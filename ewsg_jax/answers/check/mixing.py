"""R-hat and effective draws of the coordinates in which chains mix worst."""

import numpy as np

from ewsg_jax.answers.check.crossfit import TINY
from ewsg_jax.draws.convergence import ess, rhat
from ewsg_jax.vectors.row_subsets import evenly

MOST_RHATS, RHATS = 256, 8
"""Evenly spaced coordinates of which R-hat may be the largest; how many are taken, twice."""
MOST_ESS, SLOWEST, PIECES = 128, 32, 64
"""Directions whose effective draws may be fewest: at most `MOST_ESS`. Of them the `SLOWEST` are
those whose means differ most between `PIECES` pieces of the draws, and as many those whose
variances do; the others are evenly spaced.
"""
FEW, MOST_OFF = 512, 4.0
"""Draws from which medians are taken; how many median distances away all draws are alike."""


def worst_rhat(values: np.ndarray) -> tuple[float, int]:
    """Return the largest split R-hat of draws (chain, draw, d), and where; NaN for one chain."""
    if len(values) < 2:
        return float("nan"), 0
    places = evenly(values.shape[2], MOST_RHATS)
    places = places[_apart(values[..., places])]
    known = np.nan_to_num(rhat(values[..., places]), nan=0.0, posinf=np.inf)
    worst = int(np.argmax(known))
    return float(known[worst]), int(places[worst])


def _apart(values: np.ndarray) -> np.ndarray:
    """Return the numbers of the coordinates in which means over halves of chains differ most.

    Means of where draws are and of how far off, bounded as ranks are: no outlier hides the others.
    """
    if values.shape[2] <= 2 * RHATS:
        return np.arange(values.shape[2])
    some = values[:, :: max(1, values.shape[0] * values.shape[1] // FEW)]
    middle = np.median(some, axis=(0, 1))
    off = (values - middle) / np.maximum(np.median(np.abs(some - middle), axis=(0, 1)), TINY)
    np.clip(off, -MOST_OFF, MOST_OFF, out=off)
    half, chosen = values.shape[1] // 2, set()
    # The root of a normal law's distance from its median is nearly normal, as ranks of it are made.
    for each in (off, np.sqrt(np.abs(off))):
        means = np.concatenate([each[:, :half].mean(1), each[:, -half:].mean(1)])
        ratio = means.var(0) / np.maximum(each.var((0, 1)), TINY)
        chosen |= set(np.argsort(-ratio)[:RHATS].tolist())
    return np.array(sorted(chosen))


def least_ess(draws: np.ndarray, shared: bool = False) -> tuple[float, float]:
    """Return the least effective number of draws (chain, draw, d) of a direction; 0 if unknown.

    Of chains that share their batches: how many independent draws have a mean as sure as theirs,
    and how many independent times there are: the mean over chains forgets as fast as each of them.
    Of others the two are one.
    """
    draws = draws[..., _slow(draws)]
    both = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=2)
    known = np.minimum(np.nan_to_num(ess(both), nan=0.0), draws.shape[0] * draws.shape[1])
    if not shared:
        return float(known.min()), float(known.min())
    times = known / len(draws)
    sure = times * both.var((0, 1)) / np.maximum(both.mean(0).var(0), np.finfo(float).tiny)
    return float(np.minimum(sure, known).min()), float(times.min())


def _slow(values: np.ndarray) -> np.ndarray:
    """Return the numbers of directions among which the slowest are: all, where these are few.

    The mean of a piece of a chain varies the more from piece to piece, the slower the direction
    is. In a hierarchy these are one or two scales of many parameters, which spacing would miss.
    """
    chains, count, size = values.shape
    if size <= MOST_ESS:
        return np.arange(size)
    most = max(1, min(PIECES // chains, count // 2))
    ends = np.linspace(0, count, most + 1).astype(int)[:-1]
    lengths = np.diff([*ends, count])[:, None]
    off = values - values.mean((0, 1))
    chosen = set(evenly(size, MOST_ESS - 2 * SLOWEST).tolist())
    for each in (off, off**2):
        means = np.add.reduceat(each, ends, axis=1) / lengths
        ratio = means.var((0, 1)) / np.maximum(each.var((0, 1)), TINY)
        chosen |= set(np.argsort(-ratio)[:SLOWEST].tolist())
    return np.array(sorted(chosen))
