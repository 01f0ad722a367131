"""What is said of a step size, in words: right within tolerance, wrong, or unknown."""

import numpy as np

from ewsg_jax.checking.verdict import MOST_TIMES, SURE, Verdict, worst_of
from ewsg_jax.halving.moments import Law
from ewsg_jax.optional import student_quantile


def right_step(bias: Law, step_size: float, order: int, tolerance: float) -> float:
    """Return the step at which, to leading order, nothing is off by more than the tolerance."""
    off, *_ = in_tolerances(bias, tolerance)
    with np.errstate(divide="ignore"):
        return float(step_size / np.max(off) ** (1 / order))


def of(
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
    bound = -float(student_quantile(num_pairs - 1, error_rate / 2 / len(off)))
    surely = np.where(off > bound * chance, off - SURE * chance - beyond, 0)
    if surely.max() >= 1:
        by_ratio, by_shift = np.split(surely, 2)
        ratios, shifts = ((known.value, known.error) for known in (bias.sd, bias.mean))
        worst = "; ".join(worst_of(by_ratio, by_shift, ratios, shifts, names))
        advice = f"Take halved.extrapolated, or a step of {right:.2g}"
        # What is beyond the leading order is about as large as its square.
        if (off.max() * tolerance) ** 2 > tolerance:
            advice = f"So far off more counts than the leading order: halve a step of {right:.2g}"
        return Verdict("wrong", f"wrong at h: {worst}. {advice}")
    doubt = SURE * chance + beyond
    if (off + doubt).max() <= 1:
        within = f"({100 * tolerance:.3g} % of sds, {2 * tolerance:.3g} sd of means)"
        return Verdict("right", f"right at h within tolerance {within}")
    k = int(np.argmax(off + doubt))
    # No number of steps tells orders apart; errors of chance fall with the root of the steps.
    times = max(2.0, np.ceil((SURE * chance[k] / max(1 - off[k], 0.25)) ** 2))
    advice = f"Run {'at least ten' if times > MOST_TIMES else f'some {times:.0f}'} times as long"
    if beyond[k] > max(SURE * chance[k], 1 - off[k]):
        advice = "Halve h: more steps do not decide"
    what = f"the {'sd' if k < len(names) else 'mean'} of {names[k % len(names)]}"
    return Verdict(
        "unsure",
        f"not decided: {what} is {off[k]:.2g} tolerances off, ± {chance[k]:.2g} by chance and "
        f"{beyond[k]:.2g} by what is beyond the leading order. {advice}",
    )


def in_tolerances(bias: Law, tolerance: float) -> list[np.ndarray]:
    """Return by how many tolerances all sds, then all means are off, and both errors, of shape
    (2 d,).
    """
    off = [np.abs(bias.sd.value - 1), bias.sd.chance, bias.sd.beyond]
    # A mean may be off by twice as many.
    half = [np.abs(bias.mean.value) / 2, bias.mean.chance / 2, bias.mean.beyond / 2]
    return [np.concatenate(each) / tolerance for each in zip(off, half, strict=True)]
