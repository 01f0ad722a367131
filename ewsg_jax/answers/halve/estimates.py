"""What pairs of chains say: laws at h, h/2 and 0 with errors, and whether h is right.

Moments of pairs are one array of shape (4, pair, d), float64: the mean at h/2, what the mean at h
is more, the variance at h, and the variance at h/2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.crossfit import TINY, jackknife
from ewsg_jax.answers.check.verdict import Verdict, worst_of
from ewsg_jax.base.optional import student_quantile
from ewsg_jax.base.typing import PyTree
from ewsg_jax.run.moments import Moments, moments

DRIFT = 1e-3
"""How often runs that have settled are said to drift."""


def both_and_difference(position: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree, PyTree]:
    """Return a pair's positions and their difference: a small number with digits of its own."""
    return *position, jax.tree.map(jnp.subtract, *position)


PLAN = moments(both_and_difference)


class Law(NamedTuple):
    """Means, then standard deviations; of a bias, shifts in right sds and ratios: shape (2, d).

    Attributes:
        value: these.
        chance: their standard errors.
        beyond: what orders beyond the leading one may have left in them.
    """

    value: np.ndarray
    chance: np.ndarray
    beyond: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Both errors together."""
        return np.hypot(self.chance, self.beyond)


def pairs_of(found: Moments | None, chosen: np.ndarray) -> np.ndarray:
    """Return the moments of some pairs, of a run with `PLAN`."""

    def flat(tree: PyTree) -> np.ndarray:
        leaves = [np.asarray(leaf, np.float64)[chosen] for leaf in jax.tree.leaves(tree)]
        return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)

    assert found is not None
    assert found.variance is not None
    (_, half, difference), (whole_variance, half_variance, _) = found.mean, found.variance
    return np.stack([flat(each) for each in (half, difference, whole_variance, half_variance)])


@np.errstate(all="ignore")
def laws_of(pairs: np.ndarray, order: int, share: float = 0.0) -> dict[str, Law]:
    """Return the laws that `Halved` has, by name; at 0 (2^p m_{h/2} − m_h)/(2^p − 1) of means and
    variances.

    Errors of chance are the jackknife's, by leaving out one pair after the other. Two step sizes do
    not show of which order a bias is. What is left is taken to be at most a share of the difference
    of the two laws, and of variances 2 D²/v beside it: for v = 1/(1 − h/2), that of Langevin
    dynamics on a normal posterior, it tends to that as h goes to 0, and is less above.

    Args:
        pairs: moments of pairs.
        order: p.
        share: of the difference, as `order.share_beyond` says.
    """
    weight = 1 / (2**order - 1)
    mean, apart, whole, half = _all_and_without_each(pairs)
    right = half - weight * (whole - half)
    sd, sd_whole, sd_half = (np.sqrt(np.where(v > 0, v, np.nan)) for v in (right, whole, half))
    relative = share + 2 * np.abs(whole - half) / np.minimum(whole, half)
    left_mean, left_sd = relative * np.abs(apart), relative * np.abs(whole - half) / (2 * sd)

    def law(mean: np.ndarray, sd: np.ndarray, *left: np.ndarray) -> Law:
        values = np.stack([mean, sd], axis=1)
        beyond = np.stack([each[0] for each in left]) if left else np.zeros_like(values[0])
        # Not known at all where a variance is negative without one of the pairs.
        return Law(values[0], np.nan_to_num(jackknife(values[1:]), nan=np.inf), beyond)

    def bias(shift: np.ndarray, ratio: np.ndarray) -> Law:
        return law(shift / sd, ratio, left_mean / sd, ratio * left_sd / sd)

    return {
        "whole": law(mean + apart, sd_whole),
        "half": law(mean, sd_half),
        "difference": law(apart, sd_whole - sd_half),
        "extrapolated": law(mean - weight * apart, sd, left_mean, left_sd),
        "bias": bias((1 + weight) * apart, sd_whole / sd),
        "half_bias": bias(weight * apart, sd_half / sd),
    }


def _all_and_without_each(pairs: np.ndarray) -> np.ndarray:
    """Return the moments over all pairs, then without each of them, shape (4, 1 + pair, d)."""
    mean, apart, whole, half = pairs
    count = len(mean)

    def spread(within: np.ndarray, means: np.ndarray) -> np.ndarray:
        # What a pair brings to the variance of all, around a mean that is an estimate itself.
        return within + (means - means.mean(0)) ** 2 * count / (count - 1)

    each = np.stack([mean, apart, spread(whole, mean + apart), spread(half, mean)])
    every = each.mean(axis=1, keepdims=True)
    return np.concatenate([every, every + (every - each) / (count - 1)], axis=1)


def gain_of(found: dict[str, Law]) -> float:
    """Return how many times the variance of differences is larger for independent chains.

    The median over coordinates, of means or of standard deviations, whichever is less.
    """
    whole, half, apart = (found[name].chance ** 2 for name in ("whole", "half", "difference"))
    with np.errstate(all="ignore"):
        return float(np.median((whole + half) / apart, axis=1).min())


def drifts(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether moments or differences change from first to second steps beyond chance."""
    mean, apart, whole, half = second - first
    changes = np.concatenate([mean, apart, half, whole - half], axis=1)
    error = changes.std(0, ddof=1) / np.sqrt(len(changes))
    bound = -student_quantile(len(changes) - 1, DRIFT / 2 / changes.shape[1])
    return bool(np.any(np.abs(changes.mean(0)) > bound * error))


def rhat(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest split R-hat of the chains at h/2, from moments: there are no draws."""
    mean, _, _, within = np.concatenate([first, second], axis=1)
    return float(np.sqrt(1 + mean.var(0, ddof=1) / np.maximum(within.mean(0), TINY)).max())


def in_tolerances(bias: Law, tolerance: float) -> Law:
    """Return by how many tolerances means and sds are off; a mean may be off by twice as many."""
    right, unit = np.array([[0.0], [1.0]]), tolerance * np.array([[2.0], [1.0]])
    return Law(np.abs(bias.value - right) / unit, bias.chance / unit, bias.beyond / unit)


def right_step(bias: Law, step_size: float, order: int, tolerance: float) -> float:
    """Return the step at which, to leading order, nothing is off by more than the tolerance."""
    with np.errstate(divide="ignore"):
        return float(step_size / np.max(in_tolerances(bias, tolerance).value) ** (1 / order))


def verdict_of(
    bias: Law,
    names: tuple[str, ...],
    num_pairs: int,
    right: float,
    tolerance: float,
    error_rate: float,
) -> Verdict:
    """Judge a step size by the bias of its law, as known by pairs of chains that have settled.

    It is wrong where something is off beyond chance and, for sure, beyond the tolerance; right
    where everything is known to be within it.
    """
    off, chance, beyond = in_tolerances(bias, tolerance)
    if not np.isfinite(off).all():
        return Verdict(
            "wrong", "h is too large to extrapolate from: a variance would be below 0. Halve it"
        )
    # Over all means and sds together, so that many coordinates do not make a false alarm.
    bound = -float(student_quantile(num_pairs - 1, error_rate / 2 / off.size))
    allowed = check_settings.ERRORS_ALLOWED
    surely = np.where(off > bound * chance, off - allowed * chance - beyond, 0)
    if surely.max() >= 1:
        (shift, ratio), (shift_error, ratio_error) = bias.value, bias.error
        parts = worst_of(surely[1], surely[0], (ratio, ratio_error), (shift, shift_error), names)
        advice = f"Take halved.extrapolated, or a step of {right:.2g}"
        # What is beyond the leading order is about as large as its square.
        if (off.max() * tolerance) ** 2 > tolerance:
            advice = f"So far off more counts than the leading order: halve a step of {right:.2g}"
        return Verdict("wrong", f"wrong at h: {'; '.join(parts)}. {advice}")
    doubt = allowed * chance + beyond
    if (off + doubt).max() <= 1:
        within = f"({100 * tolerance:.3g} % of sds, {2 * tolerance:.3g} sd of means)"
        return Verdict("right", f"right at h within tolerance {within}")
    k = np.unravel_index(np.argmax(off + doubt), off.shape)
    # No number of steps tells orders apart; errors of chance fall with the root of the steps.
    times = max(2.0, np.ceil((allowed * chance[k] / max(1 - off[k], 0.25)) ** 2))
    is_known = times <= check_settings.MAX_TIMES_LONGER
    advice = f"Run {f'some {times:.0f}' if is_known else 'at least ten'} times as long"
    if beyond[k] > max(allowed * chance[k], 1 - off[k]):
        advice = "Halve h: more steps do not decide"
    return Verdict(
        "unsure",
        f"not decided: the {('mean', 'sd')[k[0]]} of {names[k[1]]} is {off[k]:.2g} tolerances off, "
        f"± {chance[k]:.2g} by chance and {beyond[k]:.2g} by what is beyond the leading order. "
        f"{advice}",
    )
