"""R-hat and effective numbers of draws, of many coordinates at once.

By the definitions of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), to the last digits
what arviz-stats computes of one coordinate at a time; it takes longer to import than most checks.

Arguments are draws of shape (chain, draw, k), results have the shape (k,): NaN if a draw is not
finite, or if chains have fewer than 4.
"""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ewsg_jax.base.optional import fourier
from ewsg_jax.draws.ranks import rank_scores, ranks

CONVERGED = 1.1
"""R-hat above which chains are taken to have different distributions: the customary bound of
Gelman and Rubin, as Vehtari et al. (2021) recommend 1.01 for chains that are to be reported.
"""
FEWEST_CHAIN_DRAWS = 4
"""Draws of a chain: with fewer, halves have one draw and no variance, and the result is NaN."""
COORDINATES_PER_BLOCK = 16
"""Coordinates that are taken out of the draws together, two lines of a cache; time and memory."""
NUMBERS_IN_CACHE = 2**18
"""Numbers of coordinates that are worked on together, 2 MiB; memory."""
NUMBERS_PER_THREAD = 2**22
"""Numbers in all draws for each thread that works on them, up to as many as there are processors;
time.
"""
SHORT_LAGS = 64
"""Lags whose autocovariances come from products of matrices, some five times as fast as by Fourier
transforms, which are made if the sequence of pairs has not ended by then; time.
"""
TAIL_QUANTILES = (0.05, 0.95)
"""Quantiles of the tail effective sample size, as Vehtari et al. (2021) define it."""
MOST_RHAT_SHOWN = 1000.0
"""R-hat above which chains do not move, each at a point of its own: its digits are rounding."""


class Convergence(NamedTuple):
    """What is known of draws of each coordinate, shape (k,).

    Attributes:
        rhat: what `rhat` returns.
        ess_bulk: what `ess_bulk` returns.
        ess_tail: what `ess_tail` returns.
        mcse: what `mcse` returns.
    """

    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    mcse: np.ndarray


def of_draws(draws: np.ndarray) -> Convergence:
    """Return all four, whose ranks are found once."""
    all_four = functools.partial(_all_four, table=_table(draws))
    return Convergence(*_of_coordinates(all_four, draws, len(Convergence._fields)))


def rhat(draws: np.ndarray) -> np.ndarray:
    """Return rank-normalised split R-hat: the larger one of the draws and of their distances from
    the median.
    """
    table = _table(draws)
    return _of_coordinates(lambda chains: _ranked(_halves(chains), table)[0][None], draws)[0]


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
    return _of_coordinates(lambda chains: _ess(_halves(chains))[None], draws)[0]


def ess_bulk(draws: np.ndarray) -> np.ndarray:
    """Return how many independent draws estimate the bulk as precisely: the mean of the ranks."""
    table = _table(draws)
    return _of_coordinates(lambda chains: _ess(_ranked(_halves(chains), table)[1])[None], draws)[0]


def ess_tail(draws: np.ndarray) -> np.ndarray:
    """Return how many independent draws estimate the 5 and 95 % quantiles as precisely."""

    def of(chains: np.ndarray) -> np.ndarray:
        quantiles = np.quantile(chains, TAIL_QUANTILES, axis=(1, 2))
        return _ess_of_tails(_halves(chains), quantiles)[None]

    return _of_coordinates(of, draws)[0]


def mcse(draws: np.ndarray) -> np.ndarray:
    """Return the Monte Carlo standard error of the mean."""
    return _of_coordinates(lambda chains: _mcse(chains, _halves(chains))[None], draws)[0]


def rhat_in_words(value: float, digits: int) -> str:
    """Return an R-hat, with digits behind the point where these say anything."""
    return f"{value:.{digits}f}" if not value > MOST_RHAT_SHOWN else f"> {MOST_RHAT_SHOWN:.0f}"


def _of_coordinates(
    function: Callable[[np.ndarray], np.ndarray], draws: np.ndarray, count: int = 1
) -> np.ndarray:
    """Return numbers of each coordinate, shape (count, k), some coordinates at a time.

    Args:
        function: gives numbers, shape (count, k), of draws of shape (k, chain, draw), float64.
        draws: the draws.
        count: how many numbers of a coordinate it gives.
    """
    num_chains, num_draws, size = draws.shape
    if num_draws < FEWEST_CHAIN_DRAWS or not draws.size:
        return np.full((count, size), np.nan)
    workers = max(1, min(os.cpu_count() or 1, draws.size // NUMBERS_PER_THREAD))
    together = min(COORDINATES_PER_BLOCK, -(-size // workers))
    at_once = max(1, NUMBERS_IN_CACHE // (num_chains * num_draws))

    def of_block(first: int) -> np.ndarray:
        # Each coordinate by itself in memory: every step below reads it several times.
        block = np.moveaxis(draws[..., first : first + together], 2, 0)
        block = np.ascontiguousarray(block, np.float64)
        with np.errstate(all="ignore"):
            parts = [function(block[k : k + at_once]) for k in range(0, len(block), at_once)]
        return np.where(np.isfinite(block).all((1, 2)), np.concatenate(parts, axis=1), np.nan)

    places = range(0, size, together)
    if workers == 1:
        return np.concatenate([of_block(first) for first in places], axis=1)
    with ThreadPoolExecutor(workers, "ewsg_jax-convergence") as pool:
        return np.concatenate(list(pool.map(of_block, places)), axis=1)


def _halves(chains: np.ndarray) -> np.ndarray:
    """Return the first and the last halves of chains, shape (k, 2 chain, draw // 2)."""
    size, num_chains, num_draws = chains.shape
    half = num_draws // 2
    if num_draws % 2 == 0:
        return chains.reshape(size, 2 * num_chains, half)
    return np.concatenate([chains[..., :half], chains[..., -half:]], axis=1)


def _table(draws: np.ndarray) -> np.ndarray:
    """Return the scores of the ranks that a coordinate's draws have in halves of chains."""
    return rank_scores(2 * (draws.shape[1] // 2) * draws.shape[0])


def _all_four(chains: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return R-hat, both effective numbers of draws and the Monte Carlo error, shape (4, k)."""
    halves = _halves(chains)
    largest, scores, quantiles = _ranked(halves, table)
    if chains.shape[2] % 2:
        # The halves leave a draw of each chain out.
        quantiles = np.quantile(chains, TAIL_QUANTILES, axis=(1, 2))
    tails = _ess_of_tails(halves, quantiles)
    return np.stack([largest, _ess(scores), tails, _mcse(chains, halves)])


def _ranked(halves: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the larger R-hat of ranks and of those of distances from the median, shape (k,), the
    scores of the ranks, like the halves, and the quantiles of the tails, shape (2, k).
    """
    largest, scores = np.empty(len(halves)), np.empty_like(halves)
    quantiles = np.empty((len(TAIL_QUANTILES), len(halves)))
    for k, one in enumerate(halves):
        ranked = ranks(one.ravel(), table)
        scores[k] = ranked.scores().reshape(one.shape)
        folded = ranked.folded_scores().reshape(one.shape)
        # With only two values all distances are equal: then the first R-hat alone is known.
        largest[k] = np.fmax(_rhat(scores[k]), _rhat(folded))
        quantiles[:, k] = [ranked.quantile(probability) for probability in TAIL_QUANTILES]
    return largest, scores, quantiles


def _rhat(chains: np.ndarray) -> float:
    """Return the root of the ratio of the variance over all chains to that within chains."""
    means, variances = chains.mean(1), chains.var(1, ddof=1)
    return float(rhat_of_moments(means[:, None], variances[:, None], chains.shape[1])[0])


def _ess_of_tails(halves: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Return the smaller effective number of draws of those that are below each quantile."""
    low, high = (_ess(1.0 * (halves <= quantile[:, None, None])) for quantile in quantiles)
    return np.minimum(low, high)


def _mcse(chains: np.ndarray, halves: np.ndarray) -> np.ndarray:
    return chains.std((1, 2), ddof=1) / np.sqrt(_ess(halves))


def _ess(chains: np.ndarray) -> np.ndarray:
    """Return the effective number of draws by Geyer's initial monotone sequence (1992), shape (k,).

    Args:
        chains: draws, shape (k, chain, draw).
    """
    num_draws, total = chains.shape[2], chains.shape[1] * chains.shape[2]
    means = chains.mean(2)
    centred = chains - means[..., None]
    between = means.var(1, ddof=1)
    # Most sequences end after a few lags; for the others all lags are computed.
    time, has_ended = np.full(len(chains), np.nan), np.zeros(len(chains), bool)
    if num_draws > 4 * SHORT_LAGS:
        short = _first_autocovariances(centred)
        time, has_ended = _autocorrelation_time(short, between, num_draws)
    if not has_ended.all():
        rest = ~has_ended
        complete = _all_autocovariances(centred[rest])
        time[rest] = _autocorrelation_time(complete, between[rest], num_draws)[0]
    # At most n log₁₀ n draws, however negative autocorrelations are, as ArviZ bounds it.
    effective = total / np.maximum(time, 1 / np.log10(total))
    # Draws that are constant, to a few times the rounding of float64, count as independent.
    low, high = chains.min((1, 2)), chains.max((1, 2))
    least = 1e-15 * np.maximum(-low, high)
    return np.where(high - low <= least, total, effective)


def _all_autocovariances(centred: np.ndarray) -> np.ndarray:
    """Return autocovariances at all lags, means over chains, shape (k, draw).

    Args:
        centred: draws less the mean of their chain, shape (k, chain, draw).
    """
    fft, num_draws = fourier(), centred.shape[2]
    length = fft.next_fast_len(2 * num_draws, real=True)
    transform = fft.rfft(centred, length, axis=2)
    power = (transform.real**2 + transform.imag**2).mean(1)
    return fft.irfft(power, length, axis=1)[:, :num_draws] / num_draws


def _first_autocovariances(centred: np.ndarray) -> np.ndarray:
    """Return the first `SHORT_LAGS` of `_all_autocovariances`, shape (k, lag)."""
    size, num_chains, num_draws = centred.shape
    lags = np.arange(SHORT_LAGS)
    # Pieces as long as the lags, of zeros at the end of a chain: a product of a draw and a later
    # one is among those of a piece with itself and with the next one.
    num_pieces = -(-num_draws // SHORT_LAGS) + 1
    padded = np.zeros((size, num_chains, num_pieces * SHORT_LAGS))
    padded[..., :num_draws] = centred
    pieces = padded.reshape(size, num_chains * num_pieces, SHORT_LAGS)
    across = pieces.swapaxes(1, 2)
    products = np.concatenate([across @ pieces, across[..., :-1] @ pieces[:, 1:]], axis=2)
    # Entry (i, j) sums the products of draw i of each piece and the draw j − i later: a lag is a
    # diagonal.
    return products[:, lags, lags + lags[:, None]].sum(2) / (num_chains * num_draws)


def _autocorrelation_time(
    autocovariances: np.ndarray, between: np.ndarray, num_draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the integrated autocorrelation time, the steps that one effective draw takes; and
    whether the sequence ends within the lags; shape (k,) both.

    Autocorrelations are summed in pairs of lags while a pair is positive, none taken larger than
    the one before; of the pair that ends it the first counts, if that is positive.

    Args:
        autocovariances: at the first lags, shape (k, lag).
        between: the variance of chains' means, shape (k,).
        num_draws: the number of draws of a chain.
    """
    # Autocovariances are about each chain's own mean; what the means differ by adds to all of them.
    within = autocovariances[:, :1] * num_draws / (num_draws - 1)
    variance = autocovariances[:, :1] + between[:, None]
    autocorrelation = 1 - (within - autocovariances) / variance
    autocorrelation[:, 0] = 1

    most_pairs = max(1, (num_draws - 1) // 2)
    num_pairs = min(most_pairs, autocovariances.shape[1] // 2)
    even = autocorrelation[:, : 2 * num_pairs : 2]
    odd = autocorrelation[:, 1 : 2 * num_pairs : 2]
    pairs, number = even + odd, np.arange(num_pairs)
    # The first that is not positive, or the last of all.
    ends = (pairs <= 0) | (number == most_pairs - 1)
    end = np.argmax(ends, axis=1)[:, None]
    monotone = np.minimum.accumulate(pairs, axis=1)
    at_end = np.where((even > 0) | (pairs >= 0), even, 0)
    time = 2 * np.sum(np.where(number < end, monotone, 0), axis=1) - 1
    time += np.take_along_axis(at_end, end, 1)[:, 0]
    return time, ends.any(1)
