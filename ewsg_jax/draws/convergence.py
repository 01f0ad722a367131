"""R-hat and effective numbers of draws, of many coordinates at once.

By the definitions of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), to the last digits
what arviz-stats computes of one coordinate at a time; it takes longer to import than most checks.

Arguments are draws of shape (chain, draw, k), results have the shape (k,): NaN if a draw is not
finite, or if chains have fewer than 4.
"""

from collections.abc import Callable

import numpy as np

from ewsg_jax.base.optional import normal_quantile

CONVERGED = 1.1
"""R-hat above which chains are taken to have different distributions: the customary bound of
Gelman and Rubin, as Vehtari et al. (2021) recommend 1.01 for chains that are to be reported.
"""
FEWEST_CHAIN_DRAWS = 4
"""Draws of a chain: with fewer, halves have one draw and no variance, and the result is NaN."""
COORDINATES_PER_BLOCK = 32
"""Coordinates whose ranks or autocorrelations are held together; it bounds the memory alone."""
TAIL_QUANTILES = (0.05, 0.95)
"""Quantiles of the tail effective sample size, as Vehtari et al. (2021) define it."""
ROUNDING_RANGE = 1e-15
"""Range of draws, as a part of the largest, up to which they count as one number: a few times
float64's rounding.
"""
MOST_RHAT_SHOWN = 1000.0
"""R-hat above which chains do not move, each at a point of its own: its digits are rounding."""


def rhat(draws: np.ndarray) -> np.ndarray:
    """Return rank-normalised split R-hat: the larger one of the draws and of their distances from
    the median.
    """

    def of(halves: np.ndarray) -> np.ndarray:
        # With only two values all distances are equal: then the first R-hat alone is known.
        folded = np.abs(halves - np.median(halves, axis=(0, 1)))
        return np.fmax(_rhat(_scores(halves)), _rhat(_scores(folded)))

    return _of_halves(of, draws)


def rhat_of_moments(means: np.ndarray, variances: np.ndarray, num_draws: int) -> np.ndarray:
    """Return R-hat from what each chain's draws have in the mean, without ranks.

    Args:
        means: the mean of each chain (or half of one), shape (chain, k).
        variances: the sample variance of each, shape (chain, k).
        num_draws: the number of draws of each.
    """
    between, within = means.var(0, ddof=1), variances.mean(0)
    return np.sqrt(between / within + (num_draws - 1) / num_draws)


def ess(draws: np.ndarray) -> np.ndarray:
    """Return how many independent draws estimate the mean as precisely."""
    return _of_halves(_ess, draws)


def ess_bulk(draws: np.ndarray) -> np.ndarray:
    """Return how many independent draws estimate the bulk as precisely: the mean of the ranks."""
    return _of_halves(lambda halves: _ess(_scores(halves)), draws)


def ess_tail(draws: np.ndarray) -> np.ndarray:
    """Return how many independent draws estimate the 5 and 95 % quantiles as precisely."""
    if draws.shape[1] < FEWEST_CHAIN_DRAWS or not draws.size:
        return np.full(draws.shape[2], np.nan)
    with np.errstate(all="ignore"):
        low, high = np.quantile(draws, TAIL_QUANTILES, axis=(0, 1))
        least = np.minimum(ess(1.0 * (draws <= low)), ess(1.0 * (draws <= high)))
    return np.where(np.isfinite(draws).all((0, 1)), least, np.nan)


def mcse(draws: np.ndarray) -> np.ndarray:
    """Return the Monte Carlo standard error of the mean."""
    known = ess(draws)
    if np.isnan(known).all():
        return known
    with np.errstate(invalid="ignore"):
        return draws.std((0, 1), ddof=1) / np.sqrt(known)


def rhat_in_words(value: float, digits: int) -> str:
    """Return an R-hat, with digits behind the point where these say anything."""
    return f"{value:.{digits}f}" if not value > MOST_RHAT_SHOWN else f"> {MOST_RHAT_SHOWN:.0f}"


def _of_halves(function: Callable[[np.ndarray], np.ndarray], draws: np.ndarray) -> np.ndarray:
    """Return a function of the first and the last halves of chains, some coordinates at a time."""
    if draws.shape[1] < FEWEST_CHAIN_DRAWS or not draws.size:
        return np.full(draws.shape[2], np.nan)
    half, parts = draws.shape[1] // 2, []
    for first in range(0, draws.shape[2], COORDINATES_PER_BLOCK):
        block = draws[..., first : first + COORDINATES_PER_BLOCK]
        with np.errstate(all="ignore"):
            parts.append(function(np.concatenate([block[:, :half], block[:, -half:]])))
    return np.where(np.isfinite(draws).all((0, 1)), np.concatenate(parts), np.nan)


def _scores(draws: np.ndarray) -> np.ndarray:
    """Return normal scores of the ranks (Blom 1958), tied draws the score of their mean rank."""
    flat = draws.reshape(-1, draws.shape[2])
    order = np.argsort(flat, axis=0)
    ordered, number = np.take_along_axis(flat, order, 0), np.arange(len(flat))[:, None]
    tied = ordered[1:] == ordered[:-1]
    edge = np.zeros((1, flat.shape[1]), bool)
    # The first and the last place of equal numbers.
    first = np.maximum.accumulate(np.where(np.concatenate([edge, tied]), 0, number))
    last = np.where(np.concatenate([tied, edge]), len(flat), number)
    last = np.minimum.accumulate(last[::-1])[::-1]
    scores = normal_quantile(((first + last) / 2 + 0.625) / (len(flat) + 0.25))
    ranked = np.empty_like(scores)
    np.put_along_axis(ranked, order, scores, 0)
    return ranked.reshape(draws.shape)


def _rhat(chains: np.ndarray) -> np.ndarray:
    """Return the root of the ratio of the variance over all chains to that within chains."""
    return rhat_of_moments(chains.mean(1), chains.var(1, ddof=1), chains.shape[1])


def _ess(chains: np.ndarray) -> np.ndarray:
    """Return the effective number of draws by Geyer's initial monotone sequence (1992).

    Autocorrelations are summed in pairs of lags while a pair is positive, none taken larger than
    the one before; of the pair that ends it the first counts, if that is positive.
    """
    num_draws, count = chains.shape[1], chains.shape[0] * chains.shape[1]
    off = np.moveaxis(chains, 2, 0)
    means = off.mean(2)
    off = off - means[..., None]
    power = np.abs(np.fft.rfft(off, 2 ** int(np.ceil(np.log2(2 * num_draws))), axis=2)) ** 2
    lags = np.fft.irfft(power.mean(1), axis=1)[:, :num_draws] / num_draws
    # Around each chain's own mean, and what the means differ by.
    inside = lags[:, :1] * num_draws / (num_draws - 1)
    total = lags[:, :1] + means.var(1, ddof=1)[:, None]
    related = 1 - (inside - lags) / total
    related[:, 0] = 1

    num_pairs = max(1, (num_draws - 1) // 2)
    even, odd = related[:, : 2 * num_pairs : 2], related[:, 1 : 2 * num_pairs : 2]
    pairs, number = even + odd, np.arange(num_pairs)
    # The first that is not positive, or the last of all.
    end = np.argmax((pairs <= 0) | (number == num_pairs - 1), axis=1)[:, None]
    least = np.minimum.accumulate(pairs, axis=1)
    at_end = np.where((even > 0) | (pairs >= 0), even, 0)
    time = 2 * np.sum(np.where(number < end, least, 0), axis=1) - 1
    time += np.take_along_axis(at_end, end, 1)[:, 0]
    effective = count / np.maximum(time, 1 / np.log10(count))
    least = ROUNDING_RANGE * np.abs(chains).max((0, 1))
    return np.where(np.ptp(chains, axis=(0, 1)) <= least, count, effective)
