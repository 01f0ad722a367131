"""Means and variances of pairs of chains, and of the law they lead to as the step goes to 0."""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax._types import Position, PyTree
from ewsg_jax.lazy_scipy import student_quantile
from ewsg_jax.sampling import Moments

DRIFT = 1e-3
"""How often runs that have settled are said to drift."""
TINY = float(np.finfo(float).tiny)


def position_and_difference(position: Position) -> PyTree:
    """Return a pair's positions and their difference: a small number with digits of its own."""
    return position, jax.tree.map(lambda x: x[0] - x[1], position)


class Pairs(NamedTuple):
    """Moments of each pair of chains over some steps: NumPy arrays in float64.

    Attributes:
        num_steps: how many.
        mean, variance: at h and at h/2, shape (pair, 2, d).
        difference: of the mean at h from that at h/2, shape (pair, d).
    """

    num_steps: int
    mean: np.ndarray
    variance: np.ndarray
    difference: np.ndarray

    @classmethod
    def of(cls, moments: Moments, chosen: np.ndarray) -> "Pairs":
        """Return those of some pairs, of the moments of `position_and_difference`."""

        def flat(tree: object, *shape: int) -> np.ndarray:
            leaves = [np.asarray(leaf)[chosen].astype(np.float64) for leaf in jax.tree.leaves(tree)]
            return np.concatenate([leaf.reshape(len(leaf), *shape, -1) for leaf in leaves], axis=-1)

        # Chains of one run have made as many steps.
        assert moments.variance is not None
        num_steps = int(np.max(moments.weight))
        return cls(
            num_steps, flat(moments.mean[0], 2), flat(moments.variance[0], 2), flat(moments.mean[1])
        )

    def joined(self, later: "Pairs") -> "Pairs":
        """Return the moments over both."""
        share = self.num_steps / (self.num_steps + later.num_steps)

        def mixed(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return share * first + (1 - share) * second

        apart = share * (1 - share) * (self.mean - later.mean) ** 2
        return Pairs(
            self.num_steps + later.num_steps,
            mixed(self.mean, later.mean),
            mixed(self.variance, later.variance) + apart,
            mixed(self.difference, later.difference),
        )


class Known(NamedTuple):
    """Numbers and their standard errors, shape (d,)."""

    value: np.ndarray
    error: np.ndarray


class Law(NamedTuple):
    """Means and standard deviations, or what two laws' differ by."""

    mean: Known
    sd: Known


class Off(NamedTuple):
    """How far off a law is: its sds over the right ones, and its means in right sds."""

    sd_ratio: Known
    mean_shift: Known


class Beyond(NamedTuple):
    """What orders beyond the leading one may have left in the extrapolated law, shape (d,).

    Attributes:
        mean, sd: of the law, in its units.
        sd_ratio, mean_shift: of the bias at h.
        half_ratio, half_shift: of that at h/2.
    """

    mean: np.ndarray | float = 0.0
    sd: np.ndarray | float = 0.0
    sd_ratio: np.ndarray | float = 0.0
    mean_shift: np.ndarray | float = 0.0
    half_ratio: np.ndarray | float = 0.0
    half_shift: np.ndarray | float = 0.0


class Extrapolation(NamedTuple):
    """What pairs of chains say where the bias is of a known order.

    Attributes:
        whole, half: at h and h/2.
        difference: of that at h from that at h/2.
        right: as the step goes to 0.
        bias, half_bias: of the laws at h and h/2.
        gain: how many times the variance of differences is larger without the pairs' common noise.
        beyond: what higher orders may have left; all errors above are of chance.
    """

    whole: Law
    half: Law
    difference: Law
    right: Law
    bias: Off
    half_bias: Off
    gain: float
    beyond: Beyond = Beyond()


def known(of_pairs: np.ndarray) -> Known:
    """Return the mean over pairs, shape (pair, …), and its standard error."""
    return Known(of_pairs.mean(0), of_pairs.std(0, ddof=1) / np.sqrt(len(of_pairs)))


@np.errstate(all="ignore")
def extrapolated(pairs: Pairs, order: int, share: float = 0.0) -> Extrapolation:
    """Return moments at h, h/2 and 0: (2^p m_{h/2} − m_h)/(2^p − 1) of means and variances.

    Two step sizes do not show of which order a bias is. What is left is taken to be at most a share
    of the difference of the two laws, and of variances 2 D²/v beside it: for v = 1/(1 − h/2), that
    of Langevin dynamics on a normal posterior, it tends to that as h goes to 0, and is less above.

    Args:
        pairs: moments of pairs.
        order: p.
        share: of the difference, as `order.share_beyond` says.
    """
    weight, count = 1 / (2**order - 1), len(pairs.mean)
    # What each pair brings to the variance of all; the mean of all is an estimate itself.
    spread = pairs.variance + (pairs.mean - pairs.mean.mean(0)) ** 2 * (count / (count - 1))
    half_mean, apart = pairs.mean[:, 1], pairs.difference
    whole, half = spread[:, 0], spread[:, 1]
    right = half - weight * (whole - half)
    of_whole, of_half = (
        Law(known(m), _root(known(v))) for m, v in ((half_mean + apart, whole), (half_mean, half))
    )
    of_right = Law(known(half_mean - weight * apart), _root(known(right)))
    sd = of_right.sd.value

    def off(variance: np.ndarray, law: Law, share: float) -> Off:
        ratio, shift = law.sd.value / sd, known(apart)
        relative = known(variance / law.sd.value**2 - right / sd**2)
        return Off(
            Known(ratio, ratio / 2 * relative.error), Known(*(share * x / sd for x in shift))
        )

    slopes = whole / (2 * of_whole.sd.value) - half / (2 * of_half.sd.value)
    sds_apart = Known(of_whole.sd.value - of_half.sd.value, known(slopes).error)
    return Extrapolation(
        of_whole,
        of_half,
        Law(known(apart), sds_apart),
        of_right,
        off(whole, of_whole, 1 + weight),
        off(half, of_half, weight),
        min(_gain(pairs.mean[:, 0], half_mean, apart), _gain(whole, half, whole - half)),
        _beyond(of_whole, of_half, of_right, known(apart).value, share),
    )


def _beyond(whole: Law, half: Law, right: Law, apart: np.ndarray, share: float) -> Beyond:
    """Return what higher orders may have left, of laws whose means differ by `apart`."""
    sd = right.sd.value
    variances = whole.sd.value**2, half.sd.value**2
    difference = np.abs(variances[0] - variances[1])
    relative = share + 2 * difference / np.minimum(*variances)
    of_sd, of_mean = relative * difference / (2 * sd), relative * np.abs(apart)

    def of_bias(law: Law) -> tuple[np.ndarray, np.ndarray]:
        # Of the ratio by the sd that it is of; of the shift by the mean, in sds.
        return law.sd.value / sd * of_sd / sd, of_mean / sd

    return Beyond(of_mean, of_sd, *of_bias(whole), *of_bias(half))


def drifts(first: Pairs, second: Pairs) -> bool:
    """Return whether moments or differences change from first to second steps beyond chance."""
    changes = _looked_at(second) - _looked_at(first)
    found = known(changes)
    bound = -student_quantile(len(changes) - 1, DRIFT / 2 / changes.shape[1])
    return bool(np.any(np.abs(found.value) > bound * found.error))


def rhat(first: Pairs, second: Pairs) -> float:
    """Return the largest split R-hat of the chains at h/2."""
    means = np.concatenate([first.mean[:, 1], second.mean[:, 1]])
    within = np.concatenate([first.variance[:, 1], second.variance[:, 1]]).mean(0)
    return float(np.max(np.sqrt(1 + means.var(0, ddof=1) / np.maximum(within, TINY))))


def _looked_at(pairs: Pairs) -> np.ndarray:
    whole, half = pairs.variance[:, 0], pairs.variance[:, 1]
    return np.concatenate([pairs.mean[:, 1], half, pairs.difference, whole - half], axis=1)


def _gain(whole: np.ndarray, half: np.ndarray, apart: np.ndarray) -> float:
    """Return the median over coordinates of independent pairs' variance over this one's."""
    alone = whole.var(0, ddof=1) + half.var(0, ddof=1)
    return float(np.median(alone / apart.var(0, ddof=1)))


def _root(variance: Known) -> Known:
    """Return the standard deviation of a variance; NaN where that is negative."""
    sd = np.sqrt(np.where(variance.value > 0, variance.value, np.nan))
    return Known(sd, variance.error / (2 * sd))
