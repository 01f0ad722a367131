"""What is claimed of HAMCMC on a linear Gaussian model and off it, and the figure that shows it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ewsg_jax.reproduction import curved, linear_gaussian
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.experiment import Experiment, Parts
from ewsg_jax.reproduction.figures import Line, Panel, numbers

PAPER, TUNED = "paper", "tuned"
STEPS = {PAPER: "the paper's steps", TUNED: "tuned steps"}
SIMILAR, SURE = 2.0, 4.0
"""Times as large an error as another that is similar to it; standard errors within which a bias is none."""


def data_sets(parts: Parts) -> list[Any]:
    """Return the numbers of each data set in each dimension."""
    return [part for part in parts.values() if "dimension" in part]


def last(curves: Any, label: str) -> float:
    """Return a method's error after all iterations, ∞ where it lost a chain."""
    end = curves[label]["error"][-1]
    return float("inf") if end is None else end


def at_equal_evaluations(curves: Any, label: str, other: str) -> float:
    """Return a method's error when it has evaluated what another had at its end, or the next less that is kept."""
    own, most = curves[label], curves[other]["evaluations_each"] * curves[other]["iterations"][-1]
    place = np.searchsorted(np.multiply(own["iterations"], own["evaluations_each"]), most, side="right") - 1
    found = own["error"][max(int(place), 0)]
    return float("inf") if found is None else found


def _claim(parts: Parts, which: str, words: str, other: str, is_so: Callable[[Any], bool]) -> Claim:
    sets = data_sets(parts)
    medians = []
    for dimension in dict.fromkeys(part["dimension"] for part in sets):
        curves = [part[which] for part in sets if part["dimension"] == dimension]
        pair = [np.median([last(each, label) for each in curves]) for label in ("HAMCMC", other)]
        medians.append(f"{pair[0]:.3g} and {pair[1]:.3g} at D = {dimension}")
    so = [is_so(part[which]) for part in sets]
    shown = f"{sum(so)} of {len(so)} data sets; medians of HAMCMC and {other}: {', '.join(medians)}"
    return Claim(f"{words}, at {STEPS[which]}", float(np.mean(so)), shown, by_the_paper=which == PAPER)


def claims(parts: Parts) -> list[Claim]:
    """Judge the errors after all iterations, at equal evaluations, and the bias off Gaussians."""
    found = []
    for which in STEPS:
        for other in ("SGLD", "pSGLD"):
            words = f"HAMCMC's error is less than {other}'s after equal iterations"
            found.append(_claim(parts, which, words, other, lambda c, x=other: last(c, "HAMCMC") < last(c, x)))
        words = f"HAMCMC's error is at most {SIMILAR:g} times SGRLD's after equal iterations"
        found.append(
            _claim(parts, which, words, "SGRLD", lambda c: last(c, "HAMCMC") <= SIMILAR * last(c, "SGRLD"))
        )
    so = [at_equal_evaluations(x[TUNED], "HAMCMC", "SGLD") < last(x[TUNED], "SGLD") for x in data_sets(parts)]
    found.append(
        Claim(
            "HAMCMC's error is less than SGLD's after equal evaluations, at tuned steps",
            float(np.mean(so)),
            f"{sum(so)} of {len(so)} data sets",
            by_the_paper=False,
        )
    )
    return [*found, _unbiased(parts, "HAMCMC", True), _unbiased(parts, "Langevin", False)]


def _unbiased(parts: Parts, label: str, by_the_paper: bool) -> Claim:
    runs = [part for part in parts.values() if "exact" in part]
    found = [curved.left(part, label) for part in runs]
    so = [bool(np.all(np.abs(value) <= SURE * error)) for value, error in found]
    told = "; ".join(
        ", ".join(f"{name} {v:+.3f} ± {e:.3f}" for name, v, e in zip(curved.AVERAGED, *each, strict=True))
        for each in found
    )
    words = f"off Gaussians, {label}'s averages tend to the target's as h → 0"
    return Claim(words + " (Theorem 5)" * by_the_paper, float(np.mean(so)), f"left at h = 0: {told}", by_the_paper)


def draw(parts: Parts) -> list[Panel]:
    """Draw the median error along iterations in each dimension, at both steps, and averages off Gaussians."""
    shown = []
    sets = data_sets(parts)
    for dimension in dict.fromkeys(part["dimension"] for part in sets):
        of_dimension, lines = [part for part in sets if part["dimension"] == dimension], []
        for which in STEPS:
            curves = [part[which] for part in of_dimension]
            for label in curves[0]:
                error = list(np.median([numbers(each[label]["error"]) for each in curves], axis=0))
                factor = parts[linear_gaussian.tuning_of(dimension)]["factors"][label]
                mark = f"{label} (dashed: × {factor:g})" if which == PAPER else ""
                lines.append(Line(mark, curves[0][label]["iterations"], error, of=label, is_dashed=which == TUNED))
        shown.append(
            Panel(f"D = {dimension}", "iterations", "error of the mean (posterior sd)", lines, (True, True))
        )
    part = next(part for part in parts.values() if "exact" in part)
    steps = [each["step"] for each in part["steps"]]
    lines = [Line(label, steps, [each[label][0] for each in part["steps"]]) for label in ("HAMCMC", "Langevin")]
    lines.append(Line("exact", steps, [part["exact"][0]] * len(steps), is_guide=True))
    return [*shown, Panel("off Gaussians", "h", "E x²", lines, (True, False))]


EXPERIMENT = Experiment(
    "linear-gaussian",
    "Şimşekli, Badeau, Cemgil & Richard, Table 1 and Theorem 5",
    "how near the mean of a linear Gaussian model a quasi-Newton matrix comes, and its law off Gaussians",
    linear_gaussian.Settings,
    linear_gaussian.parts,
    claims,
    draw,
)
