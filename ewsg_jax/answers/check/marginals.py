"""The marginal distribution of a scale, from its mean gradient.

The marginal density p of a coordinate u has the derivative −d log p/du = E[g | u], with g the
gradient of V/T along u and the other coordinates as the target has them at this u. So draws whose
scale is wrong, and whose other coordinates are right given it, show the marginal by integrating
their gradients over u. Tails that draws lack are continued with the gradient at their last draws:
polynomials, by which other moments are corrected, miss them.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.crossfit import TINY, groups, jackknife


class Marginal(NamedTuple):
    """Moments of a coordinate in the target.

    Attributes:
        mean: its mean.
        sd: its standard deviation.
        mean_error: the standard error of the mean.
        sd_error: the relative standard error of the standard deviation.
    """

    mean: float
    sd: float
    mean_error: float
    sd_error: float


UNKNOWN = Marginal(np.nan, np.nan, np.inf, np.inf)


def marginal_of(u: np.ndarray, gradients: np.ndarray, num_groups: int) -> Marginal:
    """Return the marginal of a coordinate.

    Args:
        u: its draws, shape (draws,).
        gradients: gradients of V/T along it, the same shape.
        num_groups: the number of groups of successive draws, nearly independent of each other.
    """
    center, scale = u.mean(), max(u.std(), TINY)
    x, score = (u - center) / scale, gradients * scale
    edges = np.quantile(x, _shares(len(x)))
    bins = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    parts = groups(len(x), num_groups)
    # Sums over the draws of each bin and group: the jackknife leaves out one group each.
    sums = np.stack(
        [
            [np.bincount(bins[part], w[part], len(edges) - 1) for w in (np.ones_like(x), x, score)]
            for part in parts
        ]
    )
    of_all = _moments(sums.sum(0), edges)
    without = np.array([_moments(sums.sum(0) - one, edges) for one in sums])
    # Twice as wide bins have four times the error of a line between the means of bins.
    wider = _moments(np.add.reduceat(sums.sum(0), np.arange(0, len(edges) - 1, 2), axis=1), edges)
    if not all(np.isfinite(moments).all() for moments in (of_all, without, wider)):
        return UNKNOWN
    mean, sd, outside = of_all
    mean_error, sd_error = np.hypot(
        jackknife(np.stack([without[:, 0], np.log(without[:, 1])], axis=1)),
        [(wider[0] - mean) / 3, np.log(wider[1] / sd) / 3],
    )
    # What lies beyond all draws is as far as its tail goes: it may be none, or longer.
    doubt = settings.OUTSIDE_DOUBT * outside
    return Marginal(
        center + scale * mean,
        scale * sd,
        scale * float(np.hypot(mean_error, doubt * sd)),
        float(np.hypot(sd_error, doubt)),
    )


def _shares(count: int) -> np.ndarray:
    """Return the shares of the draws at which bins end: finer towards both tails."""
    least = max(settings.BIN_DRAWS / count, settings.LEAST_BIN)
    # Each bin has √2 times the draws of the one further out.
    tail = least * 2 ** (np.arange(np.floor(2 * np.log2(0.2 / least)) + 1) / 2)
    middle = np.linspace(tail[-1], 1 - tail[-1], settings.MIDDLE_BINS + 1)[1:-1]
    return np.concatenate([[0.0], tail, middle, 1 - tail[::-1], [1.0]])


def _moments(sums: np.ndarray, edges: np.ndarray) -> tuple[float, float, float]:
    """Return mean and sd of a density whose logarithm has the mean scores of bins, and the part of
    its second moment that lies beyond the first and the last edge.

    Args:
        sums: numbers of draws, sums of x and of scores in each bin, shape (3, bins).
        edges: the ends of the bins, shape (bins + 1,).
    """
    if sums[0].min() < 1:
        return np.nan, np.nan, np.nan
    at, score = sums[1:] / sums[0]
    # Between the means of bins the gradient is linear, beyond them constant: an exponential tail.
    grid = np.linspace(edges[0], edges[-1], settings.MARGINAL_POINTS)
    scores = np.interp(grid, at, score)
    step = grid[1] - grid[0]
    log_density = -np.concatenate([[0.0], np.cumsum((scores[1:] + scores[:-1]) / 2) * step])
    density = np.exp(log_density - log_density.max())
    density[[0, -1]] *= 0.5
    powers = np.array([(density * grid**k).sum() * step for k in range(3)])
    tails = np.zeros(3)
    for end, top, rate in (
        (grid[0], 2 * density[0], -scores[0]),
        (grid[-1], 2 * density[-1], scores[-1]),
    ):
        if rate <= settings.LEAST_TAIL_RATE:
            return np.nan, np.nan, np.nan
        away = np.sign(end) / rate
        tails += top / rate * np.array([1.0, end + away, end**2 + 2 * end * away + 2 * away**2])
    total = powers + tails
    mean, square = total[1:] / total[0]
    variance = square - mean**2
    beyond = tails[2] - 2 * mean * tails[1] + mean**2 * tails[0]
    return mean, float(np.sqrt(variance)), float(beyond / total[0] / variance)
