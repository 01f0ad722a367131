"""What pairs of chains estimate: moments at h, h/2 and 0 with errors, and whether h will do.

Moments of pairs are one array of shape (4, pair, d), float64: the mean at h/2, the mean at h less
that, the variance at h, and the variance at h/2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.crossfit import jackknife
from ewsg_jax.answers.check.verdict import Verdict, worst_of
from ewsg_jax.base.optional import student_quantile
from ewsg_jax.base.typing import PyTree
from ewsg_jax.draws.convergence import rhat_of_moments
from ewsg_jax.run.moments import Moments, moments

# The difference of two positions is small, and keeps its digits.
PAIR_MOMENTS = moments(lambda pair: (*pair, jax.tree.map(jnp.subtract, *pair)))
"""What a run of pairs keeps."""


class Estimated(NamedTuple):
    """Means, then standard deviations, shape (2, d); for a bias, shifts in sds, then sd ratios.

    Attributes:
        value: the estimates.
        sampling_error: their Monte Carlo standard errors.
        remainder: a bound on the bias that extrapolation leaves in them.
    """

    value: np.ndarray
    sampling_error: np.ndarray
    remainder: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Both errors together."""
        return np.hypot(self.sampling_error, self.remainder)


def pairs_of(kept: Moments | None, chosen: np.ndarray) -> np.ndarray:
    """Return the moments of the chosen pairs of a run that kept `PAIR_MOMENTS`."""

    def flat(tree: PyTree) -> np.ndarray:
        leaves = [np.asarray(leaf, np.float64)[chosen] for leaf in jax.tree.leaves(tree)]
        return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)

    assert kept is not None
    assert kept.variance is not None
    (_, fine, difference), (coarse_variance, fine_variance, _) = kept.mean, kept.variance
    return np.stack([flat(part) for part in (fine, difference, coarse_variance, fine_variance)])


@np.errstate(all="ignore")
def extrapolated(pairs: np.ndarray, order: int, share: float = 0.0) -> dict[str, Estimated]:
    """Return the estimates of `Halved`, by name.

    Means and variances at step size 0 are (2^p m_{h/2} − m_h)/(2^p − 1) (Richardson). Monte Carlo
    errors are the jackknife's, which leaves out one pair after the other. With D the difference of
    two moments, the remainder is a share of |D|, and 2 D²/v more for variances v: that is the
    remainder for v = 1/(1 − h/2), of Langevin dynamics on a normal posterior, as h goes to 0, and
    more than it for larger h.

    If the variance of a coordinate at step size 0 is negative, its sd and the bias are NaN.

    Args:
        pairs: moments of pairs, shape (4, pair, d).
        order: p.
        share: the share of the difference, as `order.remainder_share` returns it.
    """
    weight = 1 / (2**order - 1)
    # Each is over all pairs, then without each of them, shape (1 + pair, d).
    mean, difference, coarse, fine = _with_and_without_each(pairs)
    limit = fine - weight * (coarse - fine)
    sd, coarse_sd, fine_sd = (np.sqrt(np.where(v > 0, v, np.nan)) for v in (limit, coarse, fine))

    # What extrapolation may leave in means and sds: an error e of a variance is e/(2 sd) of the sd.
    relative = share + 2 * np.abs(coarse - fine) / np.minimum(coarse, fine)
    changes = np.abs(difference), np.abs(coarse - fine) / (2 * sd)
    remainder = np.stack(changes) * relative

    def estimated(mean: np.ndarray, sd: np.ndarray, remainder: np.ndarray) -> Estimated:
        values = np.stack([mean, sd])
        # A variance that is negative without one of the pairs makes the error infinite.
        error = np.nan_to_num(jackknife(values[:, 1:].swapaxes(0, 1)), nan=np.inf)
        return Estimated(values[:, 0], error, remainder[:, 0])

    # Moments at a step size, and their difference, are not extrapolated.
    exact = np.zeros_like(remainder)
    # The bias is in sds at step size 0: an error e of an sd s changes a ratio r by r e/s.
    ratio, fine_ratio, one = coarse_sd / sd, fine_sd / sd, np.ones_like(sd)
    return {
        "coarse": estimated(mean + difference, coarse_sd, exact),
        "fine": estimated(mean, fine_sd, exact),
        "difference": estimated(difference, coarse_sd - fine_sd, exact),
        "extrapolated": estimated(mean - weight * difference, sd, remainder),
        "bias": estimated((1 + weight) * difference / sd, ratio, remainder / sd * [one, ratio]),
        "half_bias": estimated(
            weight * difference / sd, fine_ratio, remainder / sd * [one, fine_ratio]
        ),
    }


def _with_and_without_each(pairs: np.ndarray) -> np.ndarray:
    """Return the moments over all pairs, then without each of them, shape (4, 1 + pair, d)."""
    mean, difference, coarse, fine = pairs
    count = len(mean)

    def total(within: np.ndarray, means: np.ndarray) -> np.ndarray:
        # A pair's share in the variance of all draws, around a mean that is estimated.
        return within + (means - means.mean(0)) ** 2 * count / (count - 1)

    by_pair = np.stack([mean, difference, total(coarse, mean + difference), total(fine, mean)])
    over_all = by_pair.mean(axis=1, keepdims=True)
    # Without a value x of n a mean m becomes m + (m − x)/(n − 1).
    without_each = over_all + (over_all - by_pair) / (count - 1)
    return np.concatenate([over_all, without_each], axis=1)


def gain_of(estimates: dict[str, Estimated]) -> float:
    """Return how many times larger the variance of differences is for independent chains.

    It is the median over coordinates, of means or of standard deviations, whichever is less.
    """
    names = "coarse", "fine", "difference"
    coarse, fine, difference = (estimates[name].sampling_error ** 2 for name in names)
    with np.errstate(all="ignore"):
        return float(np.median((coarse + fine) / difference, axis=1).min())


def rhat_of_halves(first: np.ndarray, second: np.ndarray, num_draws: int) -> float:
    """Return the largest split R-hat at h/2 of chains whose halves have `num_draws` steps.

    Args:
        first: moments of pairs over the first half of the steps, shape (4, pair, d).
        second: the same over the second half.
        num_draws: the number of steps of a half.
    """
    mean, _, _, within = np.concatenate([first, second], axis=1)
    return float(rhat_of_moments(mean, within * num_draws / (num_draws - 1), num_draws).max())


def in_tolerances(bias: Estimated, tolerance: float) -> Estimated:
    """Return by how many tolerances means and sds are off; a mean may be off by twice as many."""
    unit = tolerance * np.array([[2.0], [1.0]])
    off = np.abs(bias.value - [[0.0], [1.0]])
    return Estimated(off / unit, bias.sampling_error / unit, bias.remainder / unit)


def tolerable_step(bias: Estimated, step_size: float, order: int, tolerance: float) -> float:
    """Return the step at which, to leading order, no error is larger than the tolerance."""
    with np.errstate(divide="ignore"):
        return float(step_size / np.max(in_tolerances(bias, tolerance).value) ** (1 / order))


def judge_step(
    bias: Estimated,
    names: tuple[str, ...],
    num_pairs: int,
    tolerable: float,
    tolerance: float,
    error_rate: float,
) -> Verdict:
    """Return "wrong" if an error is beyond Monte Carlo error and surely beyond the tolerance.

    It is "right" if all errors are surely within the tolerance. The step that is advised is
    `tolerable`; `names` are those of the coordinates.
    """
    off, sampling, remainder = in_tolerances(bias, tolerance)
    if not np.isfinite(off).all():
        text = "h is too large to extrapolate from: a variance would be below 0. Halve it"
        return Verdict("wrong", text)

    # "wrong": an error that Monte Carlo error does not explain, over all means and sds together so
    # that many coordinates make no false alarm, and that is surely beyond the tolerance.
    bound = -float(student_quantile(num_pairs - 1, error_rate / 2 / off.size))
    sampling_bound = check_settings.ERRORS_ALLOWED * sampling
    doubt = sampling_bound + remainder
    at_least = np.where(off > bound * sampling, off - doubt, 0)
    if at_least.max() >= 1:
        (shift, ratio), (shift_error, ratio_error) = bias.value, bias.error
        of_means, of_sds = at_least
        parts = worst_of(of_sds, of_means, (ratio, ratio_error), (shift, shift_error), names)
        cure = f"Take halved.extrapolated, or a step of {tolerable:.2g}"
        return Verdict("wrong", f"wrong at h: {'; '.join(parts)}. {cure}")

    # "right": no error is beyond the tolerance, its own error included.
    at_most = off + doubt
    if at_most.max() <= 1:
        within = f"({100 * tolerance:.3g} % of sds, {2 * tolerance:.3g} sd of means)"
        return Verdict("right", f"right at h within tolerance {within}")

    # Not decided, for the coordinate with the largest error: a longer run lowers only the Monte
    # Carlo error.
    k = np.unravel_index(np.argmax(at_most), off.shape)
    is_remainder = remainder[k] > max(sampling_bound[k], 1 - off[k])
    return Verdict(
        "unsure",
        f"not decided: the {('mean', 'sd')[k[0]]} of {names[k[1]]} is {off[k]:.2g} tolerances off, "
        f"± {sampling[k]:.2g} by Monte Carlo error and {remainder[k]:.2g} by what extrapolation "
        f"may leave. {'Halve h: more steps do not decide' if is_remainder else 'Run longer'}",
    )
