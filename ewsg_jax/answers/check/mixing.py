"""R-hat and effective draws of the coordinates in which chains mix worst."""

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.crossfit import TINY
from ewsg_jax.draws.convergence import ess, rhat
from ewsg_jax.vectors.row_subsets import evenly


def worst_rhat(values: np.ndarray) -> tuple[float, int]:
    """Return the largest split R-hat of a coordinate, and its number; NaN for one chain.

    Args:
        values: draws, shape (chain, draw, d).
    """
    if len(values) < 2:
        return float("nan"), 0
    places = evenly(values.shape[2], settings.MAX_RHAT_COORDINATES)
    places = places[_most_apart(values[..., places])]
    known = np.nan_to_num(rhat(values[..., places]), nan=0.0, posinf=np.inf)
    worst = int(np.argmax(known))
    return float(known[worst]), int(places[worst])


def _most_apart(values: np.ndarray) -> np.ndarray:
    """Return the numbers of the coordinates in which means over halves of chains differ most.

    The means are of positions and of distances from the median, both clipped, as R-hat of ranks is
    bounded: no outlier hides the others.
    """
    count = 8
    if values.shape[2] <= 2 * count:
        return np.arange(values.shape[2])
    every = max(1, values.shape[0] * values.shape[1] // settings.QUANTILE_DRAWS)
    subset = values[:, ::every]
    middle = np.median(subset, axis=(0, 1))
    off = (values - middle) / np.maximum(np.median(np.abs(subset - middle), axis=(0, 1)), TINY)
    np.clip(off, -settings.MAX_MEDIAN_DISTANCES, settings.MAX_MEDIAN_DISTANCES, out=off)
    half, chosen = values.shape[1] // 2, set()
    # The root of a normal variable's distance from its median is nearly normal, as ranks are made.
    for statistic in (off, np.sqrt(np.abs(off))):
        means = np.concatenate([statistic[:, :half].mean(1), statistic[:, -half:].mean(1)])
        ratio = means.var(0) / np.maximum(statistic.var((0, 1)), TINY)
        chosen |= set(np.argsort(-ratio)[:count].tolist())
    return np.array(sorted(chosen))


def least_ess(draws: np.ndarray, shared: bool = False) -> tuple[float, float]:
    """Return the least effective number of draws of a direction, and of times; 0 if unknown.

    The two differ only for chains that share their minibatches. Then the first is the number of
    independent draws whose mean has the same standard error, and the second the number of
    independent times: the mean over chains has the autocorrelation of each of them.

    Args:
        draws: draws along directions, shape (chain, draw, d).
        shared: whether chains share their minibatches.
    """
    draws = draws[..., _slowest(draws)]
    both = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=2)
    known = np.minimum(np.nan_to_num(ess(both), nan=0.0), draws.shape[0] * draws.shape[1])
    if not shared:
        return float(known.min()), float(known.min())
    times = known / len(draws)
    precise = times * both.var((0, 1)) / np.maximum(both.mean(0).var(0), np.finfo(float).tiny)
    return float(np.minimum(precise, known).min()), float(times.min())


def _slowest(values: np.ndarray) -> np.ndarray:
    """Return the numbers of directions among which the slowest are: all, if these are few.

    The mean of a piece of a chain varies the more from piece to piece, the slower the direction
    is. In a hierarchy these are one or two scales of many parameters, which even spacing misses.
    """
    chains, count, size = values.shape
    if size <= settings.MAX_ESS_DIRECTIONS:
        return np.arange(size)
    most = max(1, min(64 // chains, count // 2))
    ends = np.linspace(0, count, most + 1).astype(int)[:-1]
    lengths = np.diff([*ends, count])[:, None]
    off = values - values.mean((0, 1))
    quarter = settings.MAX_ESS_DIRECTIONS // 4
    chosen = set(evenly(size, 2 * quarter).tolist())
    for statistic in (off, off**2):
        means = np.add.reduceat(statistic, ends, axis=1) / lengths
        ratio = means.var((0, 1)) / np.maximum(statistic.var((0, 1)), TINY)
        chosen |= set(np.argsort(-ratio)[:quarter].tolist())
    return np.array(sorted(chosen))
