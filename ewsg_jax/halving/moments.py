"""Means and variances of pairs of chains, and of the law they lead to as the step goes to 0."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import PyTree
from ewsg_jax.optional import student_quantile
from ewsg_jax.sampling import Moments, moments

DRIFT = 1e-3
"""How often runs that have settled are said to drift."""


def both_and_difference(position: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree, PyTree]:
    """Return a pair's positions and their difference: a small number with digits of its own."""
    return *position, jax.tree.map(jnp.subtract, *position)


PLAN = moments(both_and_difference)


class Pairs(NamedTuple):
    """Moments of each pair of chains over some steps, in float64, shape (pair, d).

    Attributes:
        mean: at h/2.
        difference: of the mean at h from that.
        whole, half: the variances at h and at h/2.
    """

    mean: np.ndarray
    difference: np.ndarray
    whole: np.ndarray
    half: np.ndarray


class Known(NamedTuple):
    """Numbers of all coordinates, shape (d,); their standard errors; what higher orders may be."""

    value: np.ndarray
    chance: np.ndarray
    beyond: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Both errors together."""
        return np.hypot(self.chance, self.beyond)


class Law(NamedTuple):
    """Means and standard deviations; of a bias, in right sds and as a ratio to them."""

    mean: Known
    sd: Known


class Extrapolation(NamedTuple):
    """What pairs of chains say, as `Halved` has it."""

    whole: Law
    half: Law
    difference: Law
    extrapolated: Law
    bias: Law
    half_bias: Law


def pairs_of(found: Moments | None, chosen: np.ndarray) -> Pairs:
    """Return those of some pairs, of a run with `PLAN`."""

    def flat(tree: PyTree) -> np.ndarray:
        leaves = [np.asarray(leaf, np.float64)[chosen] for leaf in jax.tree.leaves(tree)]
        return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)

    assert found is not None
    assert found.variance is not None
    (_, half, difference), (whole_variance, half_variance, _) = found.mean, found.variance
    return Pairs(flat(half), flat(difference), flat(whole_variance), flat(half_variance))


@np.errstate(all="ignore")
def extrapolated(pairs: Pairs, order: int, share: float = 0.0) -> Extrapolation:
    """Return moments at h, h/2 and 0: (2^p m_{h/2} − m_h)/(2^p − 1) of means and variances.

    Errors of chance are the jackknife's, by leaving out one pair after the other. Two step sizes do
    not show of which order a bias is. What is left is taken to be at most a share of the difference
    of the two laws, and of variances 2 D²/v beside it: for v = 1/(1 − h/2), that of Langevin
    dynamics on a normal posterior, it tends to that as h goes to 0, and is less above.

    Args:
        pairs: moments of pairs.
        order: p.
        share: of the difference, as `order.share_beyond` says.
    """
    weight, count = 1 / (2**order - 1), len(pairs.mean)
    mean, apart, whole, half = _all_and_without_each(pairs)
    right = half - weight * (whole - half)
    sd, sd_whole, sd_half = (np.sqrt(np.where(v > 0, v, np.nan)) for v in (right, whole, half))

    relative = share + 2 * np.abs(whole - half) / np.minimum(whole, half)
    left_mean, left_sd = relative * np.abs(apart), relative * np.abs(whole - half) / (2 * sd)
    nothing = np.zeros_like(mean)

    def known(values: np.ndarray, beyond: np.ndarray = nothing) -> Known:
        chance = np.sqrt((count - 1) * values[1:].var(0))
        # Not known at all where a variance is negative without one of the pairs.
        return Known(values[0], np.nan_to_num(chance, nan=np.inf), beyond[0])

    def bias(mean: np.ndarray, ratio: np.ndarray) -> Law:
        return Law(known(mean / sd, left_mean / sd), known(ratio, ratio * left_sd / sd))

    return Extrapolation(
        whole=Law(known(mean + apart), known(sd_whole)),
        half=Law(known(mean), known(sd_half)),
        difference=Law(known(apart), known(sd_whole - sd_half)),
        extrapolated=Law(known(mean - weight * apart, left_mean), known(sd, left_sd)),
        bias=bias((1 + weight) * apart, sd_whole / sd),
        half_bias=bias(weight * apart, sd_half / sd),
    )


def _all_and_without_each(pairs: Pairs) -> np.ndarray:
    """Return the moments over all pairs, then without each of them, shape (4, 1 + pair, d)."""
    count = len(pairs.mean)

    def spread(within: np.ndarray, means: np.ndarray) -> np.ndarray:
        # What a pair brings to the variance of all, around a mean that is an estimate itself.
        return within + (means - means.mean(0)) ** 2 * count / (count - 1)

    whole = spread(pairs.whole, pairs.mean + pairs.difference)
    each = np.stack([pairs.mean, pairs.difference, whole, spread(pairs.half, pairs.mean)])
    every = each.mean(axis=1, keepdims=True)
    return np.concatenate([every, every + (every - each) / (count - 1)], axis=1)


def gain_of(found: Extrapolation) -> float:
    """Return how many times the variance of differences is larger for independent chains.

    The median over coordinates, of means or of standard deviations, whichever is less.
    """
    with np.errstate(all="ignore"):
        gains = [
            np.median((whole.chance**2 + half.chance**2) / apart.chance**2)
            for whole, half, apart in zip(*found[:3], strict=True)
        ]
    return float(min(gains))


def drifts(first: Pairs, second: Pairs) -> bool:
    """Return whether moments or differences change from first to second steps beyond chance."""

    def seen(pairs: Pairs) -> np.ndarray:
        own = pairs.mean, pairs.difference, pairs.half, pairs.whole - pairs.half
        return np.concatenate(own, axis=1)

    changes = seen(second) - seen(first)
    error = changes.std(0, ddof=1) / np.sqrt(len(changes))
    bound = -student_quantile(len(changes) - 1, DRIFT / 2 / changes.shape[1])
    return bool(np.any(np.abs(changes.mean(0)) > bound * error))


def rhat(first: Pairs, second: Pairs) -> float:
    """Return the largest split R-hat of the chains at h/2."""
    means = np.concatenate([first.mean, second.mean])
    within = np.concatenate([first.half, second.half]).mean(0)
    return float(
        np.max(np.sqrt(1 + means.var(0, ddof=1) / np.maximum(within, np.finfo(float).tiny)))
    )
