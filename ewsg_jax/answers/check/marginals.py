"""The marginal distribution of a scale, from its mean gradient.

The marginal density p of a coordinate u has the derivative −d log p/du = E[g | u], with g the
gradient of V/T along u and the other coordinates as the target has them at this u. So draws whose
scale is wrong, and whose other coordinates are right given it, show the marginal by integrating
their gradients over u. Beyond the draws gradients are evaluated at some of them, moved along u, and
beyond these the tail is continued with the last gradient: polynomials, by which other moments are
corrected, miss such tails.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.crossfit import TINY, groups, jackknife
from ewsg_jax.vectors.row_subsets import evenly


class Marginal(NamedTuple):
    """Moments of a coordinate in the target.

    Attributes:
        mean: its mean.
        sd: its standard deviation.
        mean_error: the standard error of the mean.
        sd_error: the relative standard error of the standard deviation.
        beyond: its probability beyond all draws; NaN if it is not known.
        distance: the root of ∫ (p − q)²/q of its density p and that of the draws q, among these and
            beyond Monte Carlo error: how far any function may be off, in its sds.
    """

    mean: float
    sd: float
    mean_error: float
    sd_error: float
    beyond: float
    distance: float

    @property
    def share(self) -> float:
        """The probability beyond all draws, as far as one is known."""
        return 0.0 if np.isnan(self.beyond) else self.beyond


UNKNOWN = Marginal(np.nan, np.nan, np.inf, np.inf, np.nan, 0.0)


class _Density(NamedTuple):
    """The density of a coordinate.

    Attributes:
        grid: places, evenly spaced from end to end of what is known.
        masses: the probability at each of them.
        tails: the integrals of 1, x and x² beyond both ends, over that of all.
    """

    grid: np.ndarray
    masses: np.ndarray
    tails: np.ndarray


class Beyond(NamedTuple):
    """Gradients beyond the draws of a coordinate, at some draws that are moved along it.

    Attributes:
        places: the values that the coordinate has there, in order, shape (places,).
        gradients: gradients of V/T along it, of as many draws of each group, shape (places, groups,
            draws).
    """

    places: np.ndarray
    gradients: np.ndarray


class Ends(NamedTuple):
    """The range in which a coordinate is known.

    Attributes:
        low, high: the ends of all bins.
        first_draw, last_draw: the smallest and the largest draw.
    """

    low: float
    high: float
    first_draw: float
    last_draw: float


def places_beyond(u: np.ndarray) -> np.ndarray:
    """Return values below and above all draws of a coordinate at which gradients are evaluated."""
    away = u.std() * np.array(settings.SDS_BEYOND)
    return np.concatenate([(u.min() - away)[::-1], u.max() + away])


def draws_of_groups(count: int, num_groups: int) -> np.ndarray:
    """Return the numbers of the draws that are moved, shape (groups, draws)."""
    return np.stack(
        [
            part.start + evenly(part.stop - part.start, settings.MOVED_DRAWS)
            for part in groups(count, num_groups)
        ]
    )


def has_bins(count: int) -> bool:
    """Return whether `count` draws are enough for a marginal: five bins of 20."""
    return count >= 100


def marginal_of(
    u: np.ndarray, gradients: np.ndarray, num_groups: int, beyond: Beyond | None = None
) -> Marginal:
    """Return the marginal of a coordinate.

    Args:
        u: its draws, shape (draws,).
        gradients: gradients of V/T along it, the same shape.
        num_groups: the number of groups of successive draws, nearly independent of each other.
        beyond: gradients beyond the draws; None: only the last draws say how tails end.
    """
    if not has_bins(len(u)):
        return UNKNOWN
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
    ends, counts = Ends(edges[0], edges[-1], edges[0], edges[-1]), sums[:, 0]
    if beyond is not None:
        places = (beyond.places - center) / scale
        sums, ends = _with_places(sums, ends, places, beyond.gradients * scale)
    total = sums.sum(0)
    density, *others = (_density(part, ends) for part in (total, *(total - sums)))
    of_all = _moments(density, ends)
    without = np.array([_moments(other, ends) for other in others])
    # Twice as wide bins have four times the error of a line between the means of bins.
    wider = _moments(
        _density(np.add.reduceat(total, np.arange(0, total.shape[1], 2), axis=1), ends), ends
    )
    if not all(np.isfinite(moments).all() for moments in (of_all, without, wider)):
        return UNKNOWN
    mean, sd, outside, share = of_all
    # In units of the draws: noise of the gradients may pile the density up at any place.
    most = settings.max_measured_ratio()
    if not 1 / most <= sd <= most or abs(mean) > settings.max_measured_shift():
        return UNKNOWN
    mean_error, sd_error = np.hypot(
        jackknife(np.stack([without[:, 0], np.log(without[:, 1])], axis=1)),
        [(wider[0] - mean) / 3, np.log(wider[1] / sd) / 3],
    )
    # Beyond all draws the other coordinates may be others; without gradients there, a tail may have
    # any length.
    doubt = settings.OUTSIDE_DOUBT * outside * (1 if beyond is None else settings.BEYOND_SHARE)
    return Marginal(
        center + scale * mean,
        scale * sd,
        scale * float(np.hypot(mean_error, doubt * sd)),
        float(np.hypot(sd_error, doubt)),
        share,
        _distance(density, others, counts, edges),
    )


def _with_places(
    sums: np.ndarray, ends: Ends, places: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, Ends]:
    """Return sums with a bin for each place beyond the draws, up to the first gradient that is not
    finite, and the ends of all bins.
    """
    is_low = places < ends.first_draw
    # An overflow ends a tail: so far out the density is 0.
    is_known = np.array([np.isfinite(at_place).all() for at_place in scores])
    low, high = np.flatnonzero(is_low), np.flatnonzero(~is_low)
    low = low[np.cumprod(is_known[low][::-1], dtype=bool)[::-1]]
    high = high[np.cumprod(is_known[high], dtype=bool)]

    def bins(chosen: np.ndarray) -> np.ndarray:
        count = np.full((len(sums), len(chosen)), float(scores.shape[2]))
        return np.stack([count, count * places[chosen], scores[chosen].sum(2).T], axis=1)

    return np.concatenate([bins(low), sums, bins(high)], axis=2), ends._replace(
        low=places[low].min(initial=ends.low), high=places[high].max(initial=ends.high)
    )


def _shares(count: int) -> np.ndarray:
    """Return the shares of the draws at which bins end: finer towards both tails."""
    # Draws of the outermost bins, and their share of all, at least; by hand.
    least = max(20 / count, 0.0025)
    # Each bin has √2 times the draws of the one further out.
    tail = least * 2 ** (np.arange(np.floor(2 * np.log2(0.2 / least)) + 1) / 2)
    middle = np.linspace(tail[-1], 1 - tail[-1], 13)[1:-1]
    return np.concatenate([[0.0], tail, middle, 1 - tail[::-1], [1.0]])


@np.errstate(all="ignore")
def _density(sums: np.ndarray, ends: Ends) -> _Density | None:
    """Return a density whose logarithm has the mean scores of bins; None if it has no known end.

    Args:
        sums: numbers of draws, sums of x and of scores in each bin, shape (3, bins).
        ends: the ends of the bins and of the draws.
    """
    if sums[0].min() < 1:
        return None
    at, score = sums[1:] / sums[0]
    # Between the means of bins the gradient is linear, beyond them constant: an exponential tail.
    grid = np.linspace(ends.low, ends.high, 801)
    scores = np.interp(grid, at, score)
    step = grid[1] - grid[0]
    log_density = -np.concatenate([[0.0], np.cumsum((scores[1:] + scores[:-1]) / 2) * step])
    density = np.exp(log_density - log_density.max())
    density[[0, -1]] *= 0.5
    tails = np.zeros(3)
    for end, top, rate in (
        (grid[0], 2 * density[0], -scores[0]),
        (grid[-1], 2 * density[-1], scores[-1]),
    ):
        # A tail that falls so slowly, over an sd, has no known end; by hand.
        if rate <= 0.1:
            return None
        away = np.sign(end) / rate
        tails += top / rate * np.array([1.0, end + away, end**2 + 2 * end * away + 2 * away**2])
    total = density.sum() * step + tails[0]
    return _Density(grid, density * step / total, tails / total)


def _moments(density: _Density | None, ends: Ends) -> tuple[float, float, float, float]:
    """Return mean and sd of a density, and the parts of its variance and of its probability that
    lie beyond the draws.
    """
    if density is None:
        return np.nan, np.nan, np.nan, np.nan
    grid, masses, tails = density
    mean, square = (float((masses * grid**k).sum() + tails[k]) for k in (1, 2))
    variance = square - mean**2
    # All of it at one place of the grid, or rounding.
    if not variance > 0:
        return np.nan, np.nan, np.nan, np.nan
    is_beyond = (grid < ends.first_draw) | (grid > ends.last_draw)
    beyond = ((grid - mean) ** 2 * masses)[is_beyond].sum()
    beyond += tails[2] - 2 * mean * tails[1] + mean**2 * tails[0]
    share = masses[is_beyond].sum() + tails[0]
    return mean, float(np.sqrt(variance)), float(beyond / variance), float(share)


def _off(density: _Density | None, counts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return (p − q)/√q of each bin of the draws, q its share of them."""
    assert density is not None
    cumulated = np.interp(edges, density.grid, np.cumsum(density.masses))
    share = counts / counts.sum()
    return (np.diff(cumulated) - share) / np.sqrt(share)


def _distance(
    density: _Density | None,
    without: Sequence[_Density | None],
    counts: np.ndarray,
    edges: np.ndarray,
) -> float:
    """Return `Marginal.distance`.

    Args:
        density: the density from all groups of draws.
        without: that without each group.
        counts: the draws of each group in each bin, shape (groups, bins).
        edges: the ends of the bins.
    """
    total = counts.sum(0)
    off = _off(density, total, edges)
    parts = [_off(one, total - count, edges) for one, count in zip(without, counts, strict=True)]
    monte_carlo = jackknife(np.stack(parts)) ** 2
    # Once for what chance adds to the square, and once for that it may be more.
    return float(np.sqrt(max(0.0, np.sum(off**2 - 2 * monte_carlo))))
