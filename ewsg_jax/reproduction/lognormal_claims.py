"""What is claimed of data with a long tail, and the figure that shows it."""

from collections.abc import Callable

import numpy as np

from ewsg_jax.reproduction import lognormal
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.experiment import Experiment, Parts
from ewsg_jax.reproduction.figures import Line, Panel, numbers

FAR = 3.0
"""An error that is so many times another has not come where that is."""
Errors = dict[str, float]


def errors_at(parts: Parts, of: str, index: int) -> list[Errors]:
    """Return for each data set the error of each method at a place of the axis, infinite where there is none."""
    labels = [name for name in parts if name != "axis"]
    curves = {label: parts[label][of]["error"] for label in labels}
    ends = {label: [np.inf if x[index] is None else x[index] for x in each] for label, each in curves.items()}
    return [{label: ends[label][i] for label in labels} for i in range(len(next(iter(ends.values()))))]


def claims(parts: Parts) -> list[Claim]:
    """Judge both readings of the likelihood."""
    early = int(np.searchsorted(parts["axis"]["passes"], parts["axis"]["early"]))
    passes = parts["axis"]["passes"][early]
    rules: list[tuple[str, list[str], int, Callable[[Errors], bool]]] = [
        (
            f"SGLD's error stays above {FAR:g} times that of SAGA-LD and of SVRG-LD",
            ["SGLD", "SAGA-LD", "SVRG-LD"],
            -1,
            lambda e: e["SGLD"] > FAR * max(e["SAGA-LD"], e["SVRG-LD"]),
        ),
        (
            "SAGA-LD and SVRG-LD come below LD",
            ["SAGA-LD", "SVRG-LD", "LD"],
            -1,
            lambda e: max(e["SAGA-LD"], e["SVRG-LD"]) < e["LD"],
        ),
        (
            f"CV-LD has the least error of all Langevin methods after {passes:g} passes",
            ["CV-LD", "LD", "SGLD", "SAGA-LD", "SVRG-LD"],
            early,
            lambda e: e["CV-LD"] <= min(e[x] for x in ("LD", "SGLD", "SAGA-LD", "SVRG-LD")),
        ),
        (
            f"CV-LD ends above {FAR:g} times the error of SAGA-LD",
            ["CV-LD", "SAGA-LD"],
            -1,
            lambda e: e["CV-LD"] > FAR * e["SAGA-LD"],
        ),
    ]
    found = []
    for of in lognormal.READINGS:
        for words, shown, index, is_so in rules:
            sets = errors_at(parts, of, index)
            medians = ", ".join(f"{x} {np.median([each[x] for each in sets]):.2g}" for x in shown)
            so = [is_so(each) for each in sets]
            told = f"{sum(so)} of {len(so)} data sets; medians: {medians}"
            found.append(Claim(f"{of} likelihood: {words}", float(np.mean(so)), told))
    return found


def draw(parts: Parts) -> list[Panel]:
    """Draw the median error of each method along passes, in both readings."""
    shown, passes = [], parts["axis"]["passes"]
    for of in lognormal.READINGS:
        lines = []
        for label in (name for name in parts if name != "axis"):
            told = parts[label][of]
            curves = np.array([numbers(each) for each in told["error"]])
            middle = [None if np.isnan(x).any() else float(np.median(x)) for x in curves.T]
            lines.append(Line(f"{label}, h = {told['step']:g}", passes, middle, of=label))
        shown.append(Panel(f"{of} likelihood", "passes over the data", "mean squared error", lines, (True, True)))
    return shown


EXPERIMENT = Experiment(
    "lognormal",
    "Chatterji et al., Fig. 3",
    "what estimators do with data of a long tail",
    lognormal.Settings,
    lognormal.parts,
    claims,
    draw,
)
