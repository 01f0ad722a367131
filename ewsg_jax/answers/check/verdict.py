"""What is said of draws, in words: right within tolerance, wrong, or unknown."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from ewsg_jax.answers.check.stein import Score, Scores
from ewsg_jax.base.optional import student_quantile
from ewsg_jax.draws.convergence import rhat_in_words
from ewsg_jax.draws.coordinates import CONVERGED
from ewsg_jax.model_checks.support import CURE

FEWEST = 50
"""Effective draws below which nothing is decided."""
SURE = 2.0
"""Standard errors within which a number is known."""

AS_A_RULE = 0.8
"""How often as many draws as are asked for are enough."""
MOST_TIMES = 1_000
"""Times as many draws, above which an error is no measure of how many are needed."""

MUCH = 4.0
"""By which part of the target's the variance is larger, where steps and batches may not be why."""
BY_VALUES = (
    "see to custom_vjp, custom_jvp, stop_gradient, rounding and comparisons, and compare with "
    "jax.test_util.check_grads"
)
"""What to do where a gradient is not that of the values."""


class Spent(NamedTuple):
    """What draws there are, from which more are reckoned.

    Attributes:
        used: those that were used, of all chains.
        draws: those that there are.
        most: those that are used of more, if the caller does not say.
        steps: of each chain over which these are spread; 0 where it is not known.
    """

    used: int
    draws: int
    most: int
    steps: int


class Verdict(NamedTuple):
    """What is said.

    Attributes:
        outcome: in one word.
        text: in words, with what to do.
    """

    outcome: Literal["right", "wrong", "unsure"]
    text: str


def of(
    scores: Scores,
    ratio: np.ndarray,
    ratio_error: np.ndarray,
    shift: np.ndarray,
    shift_error: np.ndarray,
    names: tuple[str, ...],
    rhat: float,
    tolerance: float,
    lost: str,
    impossible: str = "",
    has_more: bool = False,
    is_corrected: bool = True,
    outside: str = "",
    mistaken: str = "",
    apart: str = "",
    spent: Spent | None = None,
    kurtosis: Callable[[np.ndarray], np.ndarray] = lambda some: np.full(some.shape, 3.0),
    cut_off: str = "",
) -> Verdict:
    """Judge draws.

    A bias is what Stein's identities see beyond chance, or moments farther from the target's than
    chance moves those of as many effective draws. It matters where it is more than the tolerance,
    in a standard deviation or twice that in a mean; draws without one are right where their moments
    are near enough to the target's, which finite draws need not be. What is
    impossible is wrong, whatever the identities see, and so are draws where a density is 0, and
    all of a gradient that is not the density's. At a wall where the density is not 0 the identities
    do not hold: nothing is decided. Where nothing can be decided, draws that were not
    used come before a longer run. Chains that are left out are named, whatever the outcome.
    """
    seen = {name: score for name, score in scores.worst.items() if score.z > scores.bound}
    large = {name: score for name, score in seen.items() if _is_large(name, score, tolerance)}
    otherwise = ", or take report.corrected" if is_corrected else ""
    lost = f"; {lost}: left out" if lost else ""
    # The largest of many is not the most certain: what it is beyond its error.
    by_ratio = np.maximum(np.abs(ratio - 1) - SURE * ratio_error, 0) / tolerance
    by_shift = np.maximum(np.abs(shift) - SURE * shift_error, 0) / (2 * tolerance)
    if mistaken:
        return Verdict("wrong", f"{mistaken}{lost}: all else here is by gradients; {BY_VALUES}")
    if outside:
        others = f"; {impossible}" if impossible else ""
        return Verdict("wrong", f"{outside}{others}{lost}: {CURE}")
    if rhat > CONVERGED:
        text = (
            f"chains do not agree (R-hat {rhat_in_words(rhat, 2)}"
            f"{f', {apart}' if apart else ''}): several modes, or a run far too short{lost}"
        )
        text += f"; {impossible}" if impossible else ""
        return Verdict("wrong", f"{text}. Compare the chains; run longer, or start them elsewhere")
    if cut_off:
        return Verdict("unsure", f"{cut_off}{lost}: no identity of gradients holds there; {CURE}")
    is_off = {"sd": np.flatnonzero(by_ratio >= 1), "mean": np.flatnonzero(by_shift >= 1)}
    # A standard deviation's error is √((κ − 1)/4) of the mean's.
    of_sd = np.sqrt((kurtosis(is_off["sd"]) - 1) / 4)
    is_wrong = (
        bool(impossible)
        or bool(large)
        or any(
            some.size and (seen or _beyond_chance(value[some] - right, error[some], chance, scores))
            for some, value, right, error, chance in (
                (is_off["sd"], ratio, 1.0, ratio_error, of_sd),
                (is_off["mean"], shift, 0.0, shift_error, 1.0),
            )
        )
    )
    if scores.ess < FEWEST and not is_wrong:
        times = FEWEST / scores.ess if scores.ess > 0 else np.inf
        longer = _longer(times, scores.ess, has_more, spent, at_least=True)
        return Verdict(
            "unsure", f"not enough draws to decide (ESS {scores.ess:.0f}){lost}. {longer}"
        )
    if is_wrong:
        parts = [impossible] if impossible else []
        parts += worst_of(by_ratio, by_shift, (ratio, ratio_error), (shift, shift_error), names)
        if not parts:
            name, score = max(large.items(), key=lambda pair: pair[1].z)
            if name == "u":
                word = "wide" if score.effect > 0 else "narrow"
                parts.append(f"too {word} in some direction, the variance × {1 + score.effect:.3g}")
            elif name == "1":
                size = abs(score.effect)
                parts.append(
                    f"mean off in some direction, in which the slope is {size:.2g} and not 0"
                )
            else:
                parts.append(f"of another shape: E[g φ − φ'] of φ = {name} is {score.effect:.2g}")
            parts[-1] += f" (|z| = {score.z:.1f})"
        return Verdict(
            "wrong", "; ".join(parts) + lost + f". {_advice(scores, ratio, tolerance)}{otherwise}"
        )
    off = np.maximum(np.abs(ratio - 1) / tolerance, np.abs(shift) / (2 * tolerance))
    error = SURE * np.maximum(ratio_error / tolerance, shift_error / (2 * tolerance))
    if off.max() <= 1 and error.max() <= 1:
        beside = "" if not seen else "; a bias shows, which is smaller than that"
        within = f"({100 * tolerance:.3g} % of sds, {2 * tolerance:.3g} sd of means)"
        return Verdict("right", f"right within tolerance {within}{beside}{lost}")
    k = int(np.argmax(off if off.max() > 1 else error))
    bias = "no bias seen" if not seen else "a bias shows, smaller than the tolerance"
    text = (
        f"{bias}, but not enough draws to decide: sd × {ratio[k]:.3g} ± {ratio_error[k]:.2g}, "
        "mean off by "
    )
    text += f"{shift[k]:.2g} ± {shift_error[k]:.2g} sd ({names[k]}){lost}"
    # Chance falls with the root of the draws, and so do the doubts that are made of it. What is off
    # without a bias is chance, too: that of the worst of all means and sds, as a rule.
    times = float(error.max()) ** 2
    if off.max() > 1:
        z = -float(student_quantile(np.inf, (1 - AS_A_RULE) / 2 / (2 * len(off))))
        times = max(times, float(off.max()) ** 2, z**2 / (2 * tolerance**2) / scores.ess)
    longer = _longer(times, scores.ess, has_more, spent)
    if seen:
        # How much of the doubt is of the bias that shows is not known, and no draws take that away.
        longer = (
            "Use more of the draws (max_draws=); where that does not decide, h" * has_more or "H"
        )
        longer += "alve the step and run longer: the bias that shows does not shrink with draws"
    return Verdict("unsure", f"{text}. {longer}{otherwise}")


def _beyond_chance(
    off: np.ndarray, error: np.ndarray, chance: np.ndarray | float, scores: Scores
) -> bool:
    """Return whether a moment is farther from the target's than chance moves it.

    A rare event, such as a wall that throws chains back, makes the errors of the identities as
    large as its effect; moments show it.

    Args:
        off: how far moments are from the target's.
        error: of these.
        chance: the standard error of a moment of one effective draw.
        scores: with their bound.
    """
    beyond = np.abs(off) > scores.bound * np.sqrt(error**2 + chance**2 / scores.ess)
    return scores.ess >= FEWEST and bool(np.any(beyond))


def worst_of(
    by_ratio: np.ndarray,
    by_shift: np.ndarray,
    ratios: tuple[np.ndarray, np.ndarray],
    shifts: tuple[np.ndarray, np.ndarray],
    names: tuple[str, ...],
) -> list[str]:
    """Return the worst standard deviation and the worst mean in words, each if it is surely off.

    Args:
        by_ratio: by how many tolerances each standard deviation is surely off, at least.
        by_shift: the same of means.
        ratios: standard deviations over the right ones, and errors.
        shifts: means less the right ones, in standard deviations, and errors.
        names: of the coordinates.
    """
    (ratio, ratio_error), (shift, shift_error) = ratios, shifts
    i, j, parts = int(np.argmax(by_ratio)), int(np.argmax(by_shift)), []
    if by_ratio[i] >= 1:
        word = "wide" if ratio[i] > 1 else "narrow"
        size = 100 * abs(ratio[i] - 1)
        parts.append(f"too {word} by {size:.3g} ± {100 * ratio_error[i]:.2g} % ({names[i]})")
    if by_shift[j] >= 1:
        parts.append(f"mean off by {abs(shift[j]):.2g} ± {shift_error[j]:.2g} sd ({names[j]})")
    return parts


def _longer(
    times: float, ess: float, has_more: bool, spent: Spent | None, at_least: bool = False
) -> str:
    """Return what decides: more of the draws, or how much longer a run.

    Args:
        times: as many effective draws as there are.
        ess: how many these are.
        has_more: whether draws that were not used would say more.
        spent: what there is; None: not known.
        at_least: whether more may be needed.
    """
    if spent is None:
        return "Use more of the draws (max_draws=)" if has_more else "Run longer"
    if not times <= MOST_TIMES and has_more:
        return "Use more of the draws (max_draws=): how many it takes is not known"
    if not times <= MOST_TIMES:
        return "Run longer: ten times as long will say how much more it takes"
    few = "at least " if at_least else "some "
    if has_more and times * spent.used <= spent.draws:
        return f"Use more of the draws (max_draws={_rounded(times * spent.used)})"
    share = times * spent.used / spent.draws if has_more else times
    steps = f", {_rounded(share * spent.steps):,} steps of each chain" if spent.steps else ""
    ess = times * ess
    more = f", and check with max_draws={_rounded(2 * ess)}" if 2 * ess > spent.most else ""
    return (
        f"Run {few}{_rounded(share):g} times as long (to an ESS of {few}{_rounded(ess):,}{steps})"
        f"{more}"
    )


def _rounded(value: float) -> int | float:
    """Return a number with two digits, rounded up."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    found = float(np.ceil(value / unit - 1e-9)) * unit
    return round(found) if found >= 10 else round(found, 1)


def without_a_part(found: Verdict, lost: str) -> Verdict:
    """Return the verdict where chains that are lost may have been where the others are not.

    A chain that diverged among its draws came to a place where steps are too large. The others are
    those that have not been there: if it is a part of the posterior their draws lack it, agree with
    each other, and have nothing wrong where they are. So they are not right, whatever the
    identities say; what is wrong stays wrong. One that diverged before its first draw may have had
    a bad start, from which nothing follows for the posterior; where half of the chains or more are
    lost that is no explanation.
    """
    if found.outcome == "wrong":
        return Verdict("wrong", f"{found.text}. Besides, {lost}: left out")
    return Verdict(
        "unsure",
        f"{lost}: a part of the posterior, where the steps are too large, may be cut off. Take "
        "smaller steps or another parametrisation, or longer burn_in where it was on the way from "
        f"its start. Where the other chains are: {found.text}",
    )


def _is_large(name: str, score: Score, tolerance: float) -> bool:
    """Return whether an effect is more than the tolerance."""
    if name == "u":
        return (
            not (1 - tolerance) ** 2
            <= 1 + 2 * score.effect / score.response
            <= (1 + tolerance) ** 2
        )
    return abs(score.effect) > 2 * tolerance


def _advice(scores: Scores, ratio: np.ndarray, tolerance: float) -> str:
    """Return what to do about it."""
    another = (
        "; where neither changes it, the run has other data, another prior or another gradient "
        "than this posterior"
    )
    if scores.worst["1"].z > 2 * scores.worst["u"].z and scores.worst["1"].z > scores.bound:
        return "Run longer from over-dispersed starts, halve the step" + another
    if scores.excess > scores.bound * scores.excess_error or np.median(ratio) > 1 + tolerance:
        return "Halve the step, take more rows a step" + another * (scores.excess > MUCH)
    if np.median(ratio) < 1 - tolerance:
        return (
            "Halve the step (a scheme may be too narrow), run longer, see that weights of your own "
            "rows sum to n"
        )
    return "Run longer from over-dispersed starts, halve the step"
