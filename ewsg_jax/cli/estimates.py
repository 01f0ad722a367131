"""What draws say in the units of the file: means, intervals, ratios, and probabilities of a sign.

Quantiles are those of `ewsg_jax.diagnostics.summary`. The weights of a softmax are given as
differences from those of the reference class: data determine these alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.base.table import aligned
from ewsg_jax.cli.problem import Meaning, Regression
from ewsg_jax.datasets._dataset import INTERCEPT
from ewsg_jax.draws.coordinates import with_digits

ENDS = {95: (0.025, 0.975), 90: (0.05, 0.95)}
"""Probabilities below the ends of intervals, by their percents."""
QUANTILES = (ENDS[95][0], ENDS[90][0], 0.5, ENDS[90][1], ENDS[95][1])
"""Probabilities of the quantiles, in their order, with the median."""
RATIOS = {
    "logistic": "odds ratio",
    "softmax": "odds ratio",
    "poisson": "rate ratio",
    "negative_binomial": "rate ratio",
}
"""What e to the power of a weight is called, by the model."""


@dataclass(frozen=True)
class Term:
    """What one number is.

    Attributes:
        name: what it is called in tables.
        kind: what it is of.
        what: what it compares, in words.
        spread: the standard deviation of a number's column; NaN for a level.
        against: the class of a softmax, and the reference; empty for other models.
    """

    name: str
    kind: str
    what: str
    spread: float = np.nan
    against: str = ""


@dataclass(frozen=True, eq=False)
class TermEstimates:
    """Numbers of each term, in the units of the file.

    Attributes:
        meaning: what the model is.
        terms: what each number is: weights of features, the intercept, the scale of the groups and
            their effects.
        summary: mean, standard deviation and `QUANTILES` of each.
        positive: the probability that it is above 0, shape (term,).
    """

    meaning: Meaning
    terms: tuple[Term, ...]
    summary: ewsg.diagnostics.Summary
    positive: np.ndarray

    @property
    def ratio(self) -> str:
        """What e to the power of a weight is called; empty for a linear model."""
        return RATIOS.get(self.meaning.model, "")

    def of_kind(self, *kinds: str) -> list[int]:
        """Return the numbers of the terms of some kinds."""
        return [i for i, term in enumerate(self.terms) if term.kind in kinds]

    def interval(self, i: int, percent: int, times: float = 1.0) -> tuple[float, float]:
        """Return the 90 or 95 % interval of a term, or of a multiple of it."""
        places = map(QUANTILES.index, ENDS[percent])
        ends = sorted(times * float(self.summary.quantiles[j, i]) for j in places)
        return ends[0], ends[1]

    def median(self, i: int) -> float:
        """Return the median of a term."""
        return float(self.summary.quantiles[QUANTILES.index(0.5), i])


def estimates(problem: Regression, draws: np.ndarray) -> TermEstimates:
    """Return what draws say.

    Args:
        problem: the regression, on a file.
        draws: its draws, finite, with the leading axes (chain, draw).
    """
    meaning = problem.meaning
    assert meaning is not None
    draws = np.asarray(draws, float)
    original = draws if problem.original is None else problem.original.of(draws)
    terms = _terms(meaning, original.shape[2])
    if meaning.model == "softmax":
        # Below the weights are sds of groups, which no class is compared by, and effects.
        is_sd = np.array([term.kind == "scale" for term in terms])[:, None]
        others = original[..., 1:] - np.where(is_sd, 0.0, original[..., :1])
        reference, *classes = meaning.classes
        terms = [
            Term(f"{t.name}, {of}", t.kind, t.what, t.spread, f"{of} against {reference}")
            for t in terms
            for of in classes
        ]
        original = others
    original = original.reshape(*original.shape[:2], -1)
    names = [term.name for term in terms]
    summary = ewsg.diagnostics.summary(original, names, quantiles=QUANTILES)
    return TermEstimates(meaning, tuple(terms), summary, np.mean(original > 0, axis=(0, 1)))


def _terms(meaning: Meaning, size: int) -> list[Term]:
    terms = []
    for feature, spread in zip(meaning.features, meaning.spread, strict=True):
        what = f"one {feature.unit} more" if feature.unit else "one more"
        if feature.level:
            what = f"{feature.level} against {feature.reference}"
        terms.append(Term(feature.name, "feature", what, spread))
    num_groups = 0 if meaning.groups is None else 1 + len(meaning.groups[1])
    if size > len(terms) + num_groups:
        terms.append(Term(INTERCEPT, "intercept", "all columns 0, levels of reference"))
    if meaning.groups is not None:
        column, names = meaning.groups
        terms.append(Term(f"sd of {column}", "scale", f"between the groups of {column}"))
        terms += [Term(f"{column}[{n}]", "group", "against the average group") for n in names]
    return terms


def in_words(probability: float) -> str:
    """Return a probability in three digits, none of which says that it is certain."""
    return "> 0.999" if probability > 0.9995 else f"{probability:.3f}".replace("0.000", "< 0.001")


def title_of(meaning: Meaning) -> str:
    """Return what the weights are of."""
    if meaning.model == "logistic":
        reference, one = meaning.classes
        return f"log odds of {meaning.response} = {one} (against {reference})"
    if meaning.model == "softmax":
        return f"log odds of {meaning.response} (against {meaning.classes[0]})"
    return f"{'log ' * bool(meaning.model in RATIOS)}{mean_of(meaning)} of {outcome_of(meaning)}"


def mean_of(meaning: Meaning) -> str:
    """Return what is modelled of numbers."""
    return "rate" if meaning.exposure else "mean"


def outcome_of(meaning: Meaning) -> str:
    """Return what the model is of."""
    if meaning.model == "logistic":
        return f"{meaning.response} = {meaning.classes[1]}"
    return (
        f"{meaning.response} per unit of {meaning.exposure}"
        if meaning.exposure
        else meaning.response
    )


def tables(estimated: TermEstimates, most: int = 30) -> list[str]:
    """Return tables for a terminal: coefficients and, if the model has such, ratios.

    Args:
        estimated: the numbers.
        most: how many lines of a table are shown: a screen.
    """
    shown = range(min(len(estimated.terms), most))
    summary = estimated.summary
    header = ["", "mean", "sd", "2.5 %", "5 %", "95 %", "97.5 %", "P(> 0)"]
    rows = [
        [
            estimated.terms[i].name,
            with_digits(summary.mean[i], summary.sd[i]),
            f"{summary.sd[i]:.4g}",
            *(with_digits(q, summary.sd[i]) for q in _ends(estimated, i)),
            "" if estimated.terms[i].kind == "scale" else in_words(float(estimated.positive[i])),
        ]
        for i in shown
    ]
    lines = [
        f"What one more of a column, or a level, adds to the {title_of(estimated.meaning)}; in the "
        "units of the file, with 95 and 90 % intervals:",
        *aligned([header, *rows]),
    ]
    if estimated.ratio:
        header = ["", "median", "2.5 %", "5 %", "95 %", "97.5 %", "compares"]
        ratios = [i for i in shown if estimated.terms[i].kind in ("feature", "group")]
        with np.errstate(over="ignore"):
            rows = [
                [
                    estimated.terms[i].name,
                    *(
                        of_ratio(float(np.exp(end)), summary.sd[i])
                        for end in [estimated.median(i), *_ends(estimated, i)]
                    ),
                    _compares(estimated.terms[i]),
                ]
                for i in ratios
            ]
        if rows:
            lines += [
                "",
                f"{estimated.ratio.capitalize()}s:",
                *aligned([header, *rows], left=(0, 6)),
            ]
    more = len(estimated.terms) - len(shown)
    return lines + [f"({more} more, which are not shown)"] * (more > 0)


def _ends(estimated: TermEstimates, i: int) -> list[float]:
    low, high = estimated.interval(i, 95)
    return [low, *estimated.interval(i, 90), high]


def of_ratio(ratio: float, sd: float) -> str:
    """Return a ratio in four digits, or enough to see a tenth of the standard deviation of its
    logarithm, and on which side of 1 it is.
    """
    text = with_digits(ratio, ratio * sd)
    if float(text) != 1 or ratio == 1:
        return text
    return f"{ratio:.{int(np.ceil(-np.log10(abs(ratio - 1)))) + 1}f}"


def _compares(term: Term) -> str:
    return f"{term.what}; {term.against}" if term.against else term.what


def lines_of(problem: Regression, draws: np.ndarray) -> Sequence[str]:
    """Return the tables of draws of a regression on a file; none without a meaning."""
    return [] if problem.meaning is None else ["", *tables(estimates(problem, draws))]
