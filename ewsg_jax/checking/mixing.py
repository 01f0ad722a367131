"""R-hat and effective draws of the coordinates in which chains mix worst.

ArviZ sorts ranks, or sums autocorrelations, one coordinate at a time. Which coordinates may be the
worst is known from sums over all of them at once; its functions are called for those alone.
"""

from typing import Any

import numpy as np

from ewsg_jax.checking.crossfit import TINY
from ewsg_jax.sampling.coordinates import array_statistics
from ewsg_jax.support import evenly

MOST_RHATS, RHATS = 256, 8
"""Evenly spaced coordinates of which R-hat may be the largest; how many are taken, twice."""
MOST_ESS, SLOWEST = 128, 4
"""Directions, evenly spaced, whose effective draws may be fewest, for their mean or their variance;
and how many of these are counted.
"""
FEW, MOST_OFF = 512, 4.0
"""Draws from which medians are taken; how many median distances away all draws are alike."""


def worst_rhat(values: np.ndarray) -> tuple[float, int]:
    """Return the largest split R-hat of draws (chain, draw, d), and where; NaN for one chain."""
    if len(values) < 2:
        return float("nan"), 0
    places = evenly(values.shape[2], MOST_RHATS)
    places = places[_apart(values[..., places])]
    with np.errstate(all="ignore"):
        found: Any = array_statistics().rhat(values[..., places], chain_axis=0, draw_axis=1)
    known = np.nan_to_num(np.asarray(found, float).ravel(), nan=0.0)
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
    draws = draws[..., evenly(draws.shape[2], MOST_ESS)]
    both = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=2)
    if not shared:
        both = _slow(both)
    with np.errstate(all="ignore"):
        found: Any = array_statistics().ess(both, chain_axis=0, draw_axis=1, method="mean")
        known = np.minimum(
            np.nan_to_num(np.asarray(found, float), nan=0.0), draws.shape[0] * draws.shape[1]
        )
        if not shared:
            return float(known.min()), float(known.min())
        times = known / len(draws)
        sure = times * both.var((0, 1)) / np.maximum(both.mean(0).var(0), np.finfo(float).tiny)
    return float(np.minimum(sure, known).min()), float(times.min())


def _slow(values: np.ndarray) -> np.ndarray:
    """Return functions (chain, draw, k) with the largest sums of autocorrelations, as Geyer cuts.

    Those of halves of chains, of pairs of lags while these are positive, none larger than the one
    before (Geyer 1992; Vehtari et al. 2021): by one Fourier transform for all.
    """
    half = values.shape[1] // 2
    if values.shape[2] <= SLOWEST or half < 2:
        return values
    off = np.moveaxis(np.concatenate([values[:, :half], values[:, -half:]]), 2, 0).copy()
    means = off.mean(2)
    off -= means[..., None]
    power = np.mean(
        np.abs(np.fft.rfft(off, 2 ** int(np.ceil(np.log2(2 * half))), axis=2)) ** 2, axis=1
    )
    lags = np.fft.irfft(power, axis=1)[:, :half] / half
    whole = lags[:, 0] + means.var(1, ddof=1)
    inside = lags[:, 0] * half / (half - 1)
    with np.errstate(all="ignore"):
        related = 1 - (inside[:, None] - lags) / whole[:, None]
    related[:, 0] = 1
    pairs = related[:, : half // 2 * 2].reshape(len(related), -1, 2).sum(2)
    sums = np.minimum.accumulate(np.where(np.cumprod(pairs > 0, axis=1), pairs, 0), axis=1).sum(1)
    return values[..., np.sort(np.argsort(-np.nan_to_num(sums, nan=np.inf))[:SLOWEST])]
