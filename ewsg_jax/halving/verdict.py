"""What is said of a step size, in words: right within tolerance, wrong, or unknown."""

from typing import NamedTuple

import numpy as np

from ewsg_jax.checking.verdict import SURE, Verdict
from ewsg_jax.halving.moments import Extrapolation, Off
from ewsg_jax.lazy_scipy import student_quantile
from ewsg_jax.sampling.coordinates import CONVERGED


class Size(NamedTuple):
    """Biases in tolerances, and their errors: of all sds, then of all means, shape (2 d,)."""

    off: np.ndarray
    error: np.ndarray


def size_of(bias: Off, tolerance: float) -> Size:
    """Return how many tolerances each sd, and twice that each mean, is off."""
    ratio, shift = bias
    return Size(
        np.concatenate([np.abs(ratio.value - 1), np.abs(shift.value) / 2]) / tolerance,
        np.concatenate([ratio.error, shift.error / 2]) / tolerance,
    )


def right_step(found: Extrapolation, step_size: float, order: int, tolerance: float) -> float:
    """Return the step at which, to leading order, nothing is off by more than the tolerance."""
    return step_size / float(np.max(size_of(found.bias, tolerance).off)) ** (1 / order)


def _what(k: int, names: tuple[str, ...]) -> str:
    """Return which number is the k-th of all sds, then of all means."""
    return f"{'sd' if k < len(names) else 'mean'} of {names[k % len(names)]}"


def of(
    found: Extrapolation,
    names: tuple[str, ...],
    num_pairs: int,
    num_lost: int,
    rhat: float,
    drifts: bool,
    right: float,
    tolerance: float,
    error_rate: float,
    is_cut: bool = False,
) -> Verdict:
    """Judge a step size.

    It is wrong where something is off beyond chance and, for sure, beyond the tolerance; right
    where everything is known to be within it. Chains that have not settled show nothing.
    """
    lost = f"; {num_lost} pairs of chains are lost, and left out" if num_lost else ""
    # Chains that have not settled say nothing of a step size.
    if rhat > CONVERGED or drifts:
        why = (
            f"R-hat {rhat:.2f}"
            if rhat > CONVERGED
            else "moments change over the steps that are kept"
        )
        return Verdict(
            "unsure", f"chains have not settled ({why}){lost}. Burn in longer, and run longer"
        )
    off, error = size_of(found.bias, tolerance)
    parts_beyond = (found.beyond.sd_ratio, np.asarray(found.beyond.mean_shift) / 2)
    beyond = np.concatenate([part * np.ones(len(names)) for part in parts_beyond]) / tolerance
    if not np.isfinite(off).all():
        return Verdict(
            "wrong",
            f"h is too large to extrapolate from: a variance would be below 0{lost}. Halve it",
        )
    # Over all means and sds together, so that many coordinates do not make a false alarm.
    bound = -float(student_quantile(num_pairs - 1, error_rate / 2 / len(off)))
    surely = np.where(off > bound * error, off - SURE * error - beyond, 0)
    if surely.max() >= 1:
        ratio, shift = found.bias
        # The worst sd and the worst mean are named, each where it is surely off.
        d, parts = len(names), []
        i, j = int(np.argmax(surely[:d])), int(np.argmax(surely[d:]))
        if surely[i] >= 1:
            word, size = "wide" if ratio.value[i] > 1 else "narrow", 100 * abs(ratio.value[i] - 1)
            about = 100 * np.hypot(ratio.error[i], tolerance * beyond[i])
            parts.append(f"too {word} by {size:.3g} ± {about:.2g} % ({names[i]})")
        if surely[d + j] >= 1:
            about = np.hypot(shift.error[j], 2 * tolerance * beyond[d + j])
            parts.append(f"mean off by {abs(shift.value[j]):.2g} ± {about:.2g} sd ({names[j]})")
        advice = f"Take halved.extrapolated, or a step of {right:.2g}"
        # What is beyond the leading order is about as large as its square.
        if (off.max() * tolerance) ** 2 > tolerance:
            advice = f"So far off more counts than the leading order: halve a step of {right:.2g}"
        return Verdict("wrong", f"wrong at h: {'; '.join(parts)}{lost}. {advice}")
    if (off + SURE * error + beyond).max() <= 1:
        within = f"({100 * tolerance:.3g} % of sds, {2 * tolerance:.3g} sd of means)"
        if is_cut:
            return Verdict(
                "unsure",
                f"{num_lost} pairs of chains are lost, and a part of the posterior, where steps "
                f"are too large, may be cut off; right at h within tolerance {within} where the "
                "others are. Halve h",
            )
        return Verdict("right", f"right at h within tolerance {within}{lost}")
    # No number of steps tells orders apart.
    unknown = np.where(beyond > SURE * error, off + beyond, 0)
    if unknown.max() > 1:
        k = int(np.argmax(unknown))
        return Verdict(
            "unsure",
            f"two step sizes cannot decide: the {_what(k, names)} is {off[k]:.2g} tolerances off, "
            f"± {beyond[k]:.2g} by what is beyond the leading order{lost}. Halve h",
        )
    # What is least sure decides how much longer: errors fall with the root of the steps.
    k = int(np.argmax(off + SURE * error))
    longer = max(2.0, np.ceil((SURE * error[k] / max(1 - off[k], 0.25)) ** 2))
    text = (
        f"not enough steps to decide: the {_what(k, names)} is {off[k]:.2g} ± {error[k]:.2g} "
        f"tolerances off{lost}"
    )
    return Verdict("unsure", f"{text}. Run some {longer:.0f} times as long")
