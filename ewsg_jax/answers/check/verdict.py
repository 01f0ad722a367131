"""The outcome of a check, and the sentence that says why and what to do."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.more_draws import AvailableDraws, advice
from ewsg_jax.answers.check.stein import Score, Scores
from ewsg_jax.base.optional import student_quantile
from ewsg_jax.draws.convergence import CONVERGED, rhat_in_words
from ewsg_jax.model_checks.finding import Finding, Severity, of_kinds

NEITHER_HELPS = (
    "; if neither changes it, the run has other data, another prior or another gradient than this "
    "posterior"
)
"""The end of an advice on a bias that is too large to be one of the step size."""


class Verdict(NamedTuple):
    """The outcome of a check.

    Attributes:
        outcome: "right" (within tolerance), "wrong" (biased) or "unsure" (not enough draws).
        text: the reason in words, with what to do.
    """

    outcome: Literal["right", "wrong", "unsure"]
    text: str


class Measured(NamedTuple):
    """A number of each coordinate with its standard error.

    Attributes:
        value: the numbers, shape (d,).
        error: their standard errors, shape (d,).
    """

    value: np.ndarray
    error: np.ndarray


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of draws when they are judged.

    Attributes:
        scores: Stein's identities at the draws.
        sd_ratio: standard deviations of the draws over those of the target.
        mean_shift: means of the draws less those of the target, in sds of the target.
        kurtosis: gives E z⁴ / (E z²)² of coordinates by their numbers: 3 for a normal distribution.
        names: the coordinates' names.
        rhat: the largest split R-hat of a coordinate; NaN for a single chain.
        tolerance: the largest relative error allowed of a standard deviation; a mean may be off by
            twice as many sds.
        findings: what is wrong with the model, or with the places of draws.
        worst_mixed: the name of the coordinate with the largest R-hat; empty if unknown.
        left_out: the chains that were left out, in words; empty if there are none.
        has_more: whether unused draws would add information.
        is_corrected: whether the report has corrected moments.
        available: the draws that there are; None if unknown.
    """

    scores: Scores
    sd_ratio: Measured
    mean_shift: Measured
    kurtosis: Callable[[np.ndarray], np.ndarray]
    names: tuple[str, ...]
    rhat: float
    tolerance: float
    findings: tuple[Finding, ...] = ()
    worst_mixed: str = ""
    left_out: str = ""
    has_more: bool = False
    is_corrected: bool = True
    available: AvailableDraws | None = None

    @functools.cached_property
    def visible(self) -> dict[str, Score]:
        """The identities that are violated by more than Monte Carlo error."""
        return {
            name: score for name, score in self.scores.worst.items() if score.z > self.scores.bound
        }

    @functools.cached_property
    def large(self) -> dict[str, Score]:
        """Those of them whose effect is more than the tolerance."""
        return {
            name: score
            for name, score in self.visible.items()
            if _is_large(name, score, self.tolerance)
        }

    @functools.cached_property
    def sd_excess(self) -> np.ndarray:
        """How many tolerances each sd is surely off, at least, shape (d,)."""
        return self._surely(self.sd_ratio, 1.0) / self.tolerance

    @functools.cached_property
    def mean_excess(self) -> np.ndarray:
        """How many tolerances each mean is surely off, at least, shape (d,)."""
        return self._surely(self.mean_shift, 0.0) / (2 * self.tolerance)

    def finding(
        self,
        kind: Literal["gradient", "support", "edge", "no_identity", "prior", "excursions"],
    ) -> Finding | None:
        """Return the finding of a kind that decides, or None; notes decide nothing."""
        severities: tuple[Severity, ...] = ("error", "doubt")
        chosen = [one for one in of_kinds(self.findings, kind) if one.severity in severities]
        return chosen[0] if chosen else None

    @staticmethod
    def _surely(measured: Measured, target: float) -> np.ndarray:
        # The largest of many is not the most certain: each counts by what it is beyond its error.
        off = np.abs(measured.value - target)
        return np.maximum(off - settings.ERRORS_ALLOWED * measured.error, 0)


def judge(evidence: Evidence) -> Verdict:
    """Return the outcome and the sentence that is printed.

    Draws are wrong if the gradient is not that of the density, if they lie where a density is 0, or
    if chains do not agree. At an edge at which the density is not 0 no identity holds, and nothing
    is decided. Else a bias is what Stein's identities show beyond Monte Carlo error, or moments
    that are farther from the target's than Monte Carlo error of as many effective draws explains.
    It matters if it is more than the tolerance in a standard deviation, or twice that in a mean.
    Draws without one are right if their moments are within tolerance of the target's, which finite
    draws need not be. If nothing can be decided, unused draws are asked for before a longer run.
    Chains that were left out are named, whatever the outcome. Draws with excursions are not right.
    """
    verdict = (
        _wrong_model(evidence)
        or _disagreement(evidence)
        or _edge(evidence)
        or _bias(evidence)
        or _not_known(evidence)
        or _too_few(evidence)
        or _within_tolerance(evidence)
        or _undecided(evidence)
    )
    excursions = evidence.finding("excursions")
    if excursions is None:
        return verdict
    if verdict.outcome == "wrong":
        return Verdict("wrong", f"{verdict.text}. Also, {excursions.text}: {excursions.cure}")
    # Standard errors are those of a few excursions: as many more draws have as many more of them.
    return Verdict("unsure", f"{excursions.text}{_left_out(evidence)}: {excursions.cure}")


def _left_out(evidence: Evidence) -> str:
    return f"; {evidence.left_out}: left out" if evidence.left_out else ""


def _wrong_model(evidence: Evidence) -> Verdict | None:
    """Return the verdict on a wrong gradient, or on draws outside the support."""
    left_out = _left_out(evidence)
    if gradient := evidence.finding("gradient"):
        return Verdict(
            "wrong", f"{gradient.text}{left_out}: all else here is by gradients; {gradient.cure}"
        )
    if outside := evidence.finding("support"):
        prior = evidence.finding("prior")
        others = f"; {prior.text}" if prior else ""
        return Verdict("wrong", f"{outside.text}{others}{left_out}: {outside.cure}")
    return None


def _disagreement(evidence: Evidence) -> Verdict | None:
    """Return the verdict on chains whose R-hat is too large."""
    if not evidence.rhat > CONVERGED:
        return None
    where = f", {evidence.worst_mixed}" if evidence.worst_mixed else ""
    prior = evidence.finding("prior")
    return Verdict(
        "wrong",
        f"chains do not agree (R-hat {rhat_in_words(evidence.rhat, 2)}{where}): several modes, or "
        f"a run far too short{_left_out(evidence)}{f'; {prior.text}' if prior else ''}. Compare "
        "the chains; run longer, or start them elsewhere",
    )


def _edge(evidence: Evidence) -> Verdict | None:
    """Return the verdict on draws among which the density ends."""
    edge = evidence.finding("edge")
    if edge is None:
        return None
    return Verdict(
        "unsure",
        f"{edge.text}{_left_out(evidence)}: no identity of gradients holds there; {edge.cure}",
    )


def _not_known(evidence: Evidence) -> Verdict | None:
    """Return the verdict on functions of which gradients say nothing, or little."""
    unknown = evidence.finding("no_identity")
    if unknown is None:
        return None
    return Verdict("unsure", f"not known: {unknown.text}{_left_out(evidence)}; {unknown.cure}")


def _bias(evidence: Evidence) -> Verdict | None:
    """Return the verdict on a bias beyond tolerance."""
    impossible = evidence.finding("prior")
    if not (impossible or evidence.large or _moments_are_biased(evidence)):
        return None
    parts = [impossible.text] if impossible else []
    parts += worst_of(
        evidence.sd_excess,
        evidence.mean_excess,
        evidence.sd_ratio,
        evidence.mean_shift,
        evidence.names,
    )
    if not parts:
        name, score = max(evidence.large.items(), key=lambda item: item[1].z)
        parts.append(f"{_effect_in_words(name, score)} (|z| = {score.z:.1f})")
    cure = _cure_of_bias(evidence.scores, evidence.sd_ratio.value, evidence.tolerance)
    return Verdict(
        "wrong", f"{'; '.join(parts)}{_left_out(evidence)}. {cure}{_or_corrected(evidence)}"
    )


def _moments_are_biased(evidence: Evidence) -> bool:
    """Return whether a moment is off by more than the tolerance, and that is a bias."""
    sds = np.flatnonzero(evidence.sd_excess >= 1)
    means = np.flatnonzero(evidence.mean_excess >= 1)
    if not (sds.size or means.size):
        return False
    if evidence.visible:
        return True
    ratio, shift, scores = evidence.sd_ratio, evidence.mean_shift, evidence.scores
    # The standard error of a standard deviation is √((κ − 1)/4) of that of the mean.
    of_one = np.sqrt((evidence.kurtosis(sds) - 1) / 4)
    return _beyond_monte_carlo(
        ratio.value[sds] - 1, ratio.error[sds], of_one, scores
    ) or _beyond_monte_carlo(shift.value[means], shift.error[means], 1.0, scores)


def _beyond_monte_carlo(
    off: np.ndarray, error: np.ndarray, of_one: np.ndarray | float, scores: Scores
) -> bool:
    """Return whether a moment is farther from the target's than Monte Carlo error explains.

    A rare event, such as a steep edge that throws chains back, makes the standard errors of the
    identities as large as its effect; moments show it.

    Args:
        off: differences of moments from the target's, shape (k,).
        error: their standard errors, of the target's side, shape (k,).
        of_one: the standard error of such a moment of one effective draw.
        scores: the identities, whose bound and effective draws are used.
    """
    if scores.ess >= settings.MIN_ESS_TO_JUDGE:
        expected = np.sqrt(error**2 + of_one**2 / scores.ess)
        return bool(np.any(np.abs(off) > scores.bound * expected))
    return False


def _too_few(evidence: Evidence) -> Verdict | None:
    """Return the verdict on draws that are worth too few independent ones."""
    ess = evidence.scores.ess
    if ess >= settings.MIN_ESS_TO_JUDGE:
        return None
    times = settings.MIN_ESS_TO_JUDGE / ess if ess > 0 else np.inf
    longer = advice(times, ess, evidence.has_more, evidence.available, at_least=True)
    return Verdict(
        "unsure", f"not enough draws to decide (ESS {ess:.0f}){_left_out(evidence)}. {longer}"
    )


def _in_tolerances(evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """Return how many tolerances the worse moment of each coordinate is off, and what its standard
    errors allow, shape (d,) both.
    """
    ratio, shift, tolerance = evidence.sd_ratio, evidence.mean_shift, evidence.tolerance
    off = np.maximum(np.abs(ratio.value - 1) / tolerance, np.abs(shift.value) / (2 * tolerance))
    error = np.maximum(ratio.error / tolerance, shift.error / (2 * tolerance))
    return off, settings.ERRORS_ALLOWED * error


def _within_tolerance(evidence: Evidence) -> Verdict | None:
    """Return the verdict on moments that are known to be within tolerance."""
    off, error = _in_tolerances(evidence)
    if not (off.max() <= 1 and error.max() <= 1):
        return None
    tolerance = evidence.tolerance
    bias = "; a bias shows, which is smaller than that" if evidence.visible else ""
    return Verdict(
        "right",
        f"right within tolerance ({100 * tolerance:.3g} % of sds, {2 * tolerance:.3g} sd of means)"
        f"{bias}{_left_out(evidence)}",
    )


def _undecided(evidence: Evidence) -> Verdict:
    """Return the verdict on draws that are too few for the tolerance, and how many would do."""
    off, error = _in_tolerances(evidence)
    ratio, shift, ess = evidence.sd_ratio, evidence.mean_shift, evidence.scores.ess
    k = int(np.argmax(off if off.max() > 1 else error))
    if evidence.visible:
        # Which part of the doubt is the bias that shows is unknown, and no draws take that away.
        bias = "a bias shows, smaller than the tolerance"
        cure = (
            "Halve the step and run longer: the bias that shows does not shrink with draws"
            if not evidence.has_more
            else "Use more of the draws (max_draws=); if that does not decide, halve the step and "
            "run longer: the bias that shows does not shrink with draws"
        )
    else:
        bias = "no bias seen"
        # Errors fall with the root of the effective draws. What is off without a bias is Monte
        # Carlo error too: that of the worst of all means and sds, with this probability.
        times = float(error.max()) ** 2
        if off.max() > 1:
            # Four times in five; by hand, and `test_verdict.py` measures it.
            rare = (1 - 0.8) / 2 / (2 * len(off))
            z = -float(student_quantile(np.inf, rare))
            times = max(times, float(off.max()) ** 2, z**2 / (2 * evidence.tolerance**2) / ess)
        cure = advice(times, ess, evidence.has_more, evidence.available)
    return Verdict(
        "unsure",
        f"{bias}, but not enough draws to decide: sd × {ratio.value[k]:.3g} ± "
        f"{ratio.error[k]:.2g}, mean off by {shift.value[k]:.2g} ± {shift.error[k]:.2g} sd "
        f"({evidence.names[k]}){_left_out(evidence)}. {cure}{_or_corrected(evidence)}",
    )


def _or_corrected(evidence: Evidence) -> str:
    return ", or take report.corrected" if evidence.is_corrected else ""


def worst_of(
    sd_excess: np.ndarray,
    mean_excess: np.ndarray,
    sd_ratio: tuple[np.ndarray, np.ndarray],
    mean_shift: tuple[np.ndarray, np.ndarray],
    names: tuple[str, ...],
) -> list[str]:
    """Return the worst standard deviation and the worst mean in words, each if it is surely off.

    Args:
        sd_excess: how many tolerances each standard deviation is surely off, at least, shape (d,).
        mean_excess: how many tolerances each mean is surely off, at least, shape (d,).
        sd_ratio: standard deviations over those of the target, and their standard errors.
        mean_shift: means less those of the target, in sds, and their standard errors.
        names: the coordinates' names.
    """
    (ratio, ratio_error), (shift, shift_error) = sd_ratio, mean_shift
    i, j, parts = int(np.argmax(sd_excess)), int(np.argmax(mean_excess)), []
    if sd_excess[i] >= 1:
        word = "wide" if ratio[i] > 1 else "narrow"
        size = 100 * abs(ratio[i] - 1)
        parts.append(f"too {word} by {size:.3g} ± {100 * ratio_error[i]:.2g} % ({names[i]})")
    if mean_excess[j] >= 1:
        parts.append(f"mean off by {abs(shift[j]):.2g} ± {shift_error[j]:.2g} sd ({names[j]})")
    return parts


def without_a_part(verdict: Verdict, left_out: str) -> Verdict:
    """Return the verdict if chains that diverged may have been in a part the others never visited.

    A chain that diverged after its first draw came to a place at which steps are too large. The
    other chains never visited that place: if it is a part of the posterior, their draws lack it,
    agree with each other and pass every test. So the draws are not right, whatever the identities
    say; what is wrong stays wrong. One that diverged before its first draw may have had a bad
    start, from which nothing follows for the posterior; if half of the chains or more diverged,
    that is no explanation.

    Args:
        verdict: the verdict on the other chains.
        left_out: the chains that diverged, in words.
    """
    if verdict.outcome == "wrong":
        return Verdict("wrong", f"{verdict.text}. Also, {left_out}: left out")
    return Verdict(
        "unsure",
        f"{left_out}: a part of the posterior, for which the steps are too large, may be cut off. "
        "Take smaller steps or another parametrisation, or longer burn_in if it was on the way "
        f"from its start. The other chains: {verdict.text}",
    )


def with_doubts(verdict: Verdict, doubts: str) -> Verdict:
    """Return a verdict that begins with what is doubted of the run, if anything is: its plan, or
    its temperature.
    """
    return verdict._replace(text=f"{doubts}; {verdict.text}") if doubts else verdict


def _is_large(name: str, score: Score, tolerance: float) -> bool:
    """Return whether the effect of an identity is more than the tolerance."""
    if name == "u":
        variance_ratio = 1 + 2 * score.effect / score.response
        return not (1 - tolerance) ** 2 <= variance_ratio <= (1 + tolerance) ** 2
    return abs(score.effect) > 2 * tolerance


def _effect_in_words(name: str, score: Score) -> str:
    """Return what a violated identity says if no coordinate's moment is surely off."""
    if name == "u":
        word = "wide" if score.effect > 0 else "narrow"
        return f"too {word} in some direction, the variance × {1 + score.effect:.3g}"
    if name == "1":
        return (
            "mean off in some direction, in which the mean gradient is "
            f"{abs(score.effect):.2g} and not 0"
        )
    return f"of another shape: E[g φ − φ'] of φ = {name} is {score.effect:.2g}"


def _cure_of_bias(scores: Scores, sd_ratio: np.ndarray, tolerance: float) -> str:
    """Return what to do about a bias.

    Args:
        scores: the identities.
        sd_ratio: standard deviations of the draws over those of the target, shape (d,).
        tolerance: the largest relative error allowed of a standard deviation.
    """
    mean, width = scores.worst["1"], scores.worst["u"]
    if mean.z > 2 * width.z and mean.z > scores.bound:
        return f"Run longer from over-dispersed starts, halve the step{NEITHER_HELPS}"
    typical = np.median(sd_ratio)
    if scores.excess > scores.bound * scores.excess_error or typical > 1 + tolerance:
        if scores.excess > settings.LARGE_EXCESS:
            return f"Halve the step, take more rows a step{NEITHER_HELPS}"
        return "Halve the step, take more rows a step"
    if typical < 1 - tolerance:
        return (
            "Halve the step (a scheme may be too narrow), run longer, check that weights of your "
            "own rows sum to n"
        )
    return "Run longer from over-dispersed starts, halve the step"
