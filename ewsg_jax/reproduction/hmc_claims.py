"""What is claimed of Hamiltonian methods with less variance, and the figures that show it."""

import functools

import numpy as np

from ewsg_jax.reproduction import hmc
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.experiment import Experiment, Numbers, Parts
from ewsg_jax.reproduction.figures import Line, Panel, numbers

NEAR, SIMILAR = 0.05, 1.1
"""The part of the way from the start's score to the limit that may be left, and passes that are as many."""


def arrival(part: Numbers, label: str) -> float:
    """Return the passes from which on a method's mean score is within NEAR of the way, ∞ where it never is.

    A better score than the limit's is within it.
    """
    of, limit = part["methods"][label], part["limit"]
    left = (numbers(of["mean"]) - limit) / (part["start"] - limit)
    far = np.flatnonzero(~(left <= NEAR))
    if not len(far):
        return of["passes"][0]
    return of["passes"][far[-1] + 1] if far[-1] + 1 < len(left) else float("inf")


def claims(parts: Parts) -> list[Claim]:
    """Judge each estimator's methods on all data sets."""
    found, sets = [], hmc.data_sets(parts)
    for of in ("SVRG", "SAGA"):
        ld, first, second = f"{of}-LD", f"{of}-HMC", f"{of}2nd-HMC"
        times = [{label: arrival(part, label) for label in (ld, first, second)} for part in sets.values()]
        told = "; ".join(
            f"{name}: {', '.join(f'{label} {x:.3g}' for label, x in each.items())}"
            for name, each in zip(sets, times, strict=True)
        )
        steps = [[part["methods"][label] for label in (first, second)] for part in sets.values()]
        sizes = "; ".join(f"{a['stable']} and {b['stable']}" for a, b in steps)
        tuned = "; ".join(f"{a['step']:g} and {b['step']:g}" for a, b in steps)
        for other in (first, second):
            so = [each[other] < each[ld] for each in times]
            found.append(Claim(f"{other} arrives in fewer passes than {ld}", float(np.mean(so)), told))
        so = [each[second] <= SIMILAR * each[first] for each in times]
        found.append(Claim(f"{second} arrives in no more passes than {first}", float(np.mean(so)), told))
        larger = [np.mean(np.greater(b["stable"], a["stable"])) for a, b in steps]
        words = f"{second} is stable at larger steps than {first} at equal friction"
        found.append(Claim(words, float(np.mean(larger)), f"largest steps √L {sizes}"))
        so = [b["step"] >= a["step"] for a, b in steps]
        words = f"the tuned step of {second} is that of {first} or larger"
        found.append(Claim(words, float(np.mean(so)), f"tuned steps √L {tuned}", by_the_paper=False))
    return found


def draw(parts: Parts, y_label: str) -> list[Panel]:
    """Draw the score along passes, data set by data set, and what it comes to."""
    shown = []
    for name, part in hmc.data_sets(parts).items():
        lines = [Line(label, each["passes"], each["mean"]) for label, each in part["methods"].items()]
        passes = [x for line in lines for x in line.x]
        lines.append(Line("posterior", [min(passes), max(passes)], [part["limit"]] * 2, is_guide=True))
        title = f"{name}, n = {part['rows']}"
        shown.append(Panel(title, "passes over the data", y_label, lines, (False, False)))
    return shown


def _experiment(name: str, figures: str, question: str, y_label: str) -> Experiment:
    drawn = functools.partial(draw, y_label=y_label)
    return Experiment(name, f"Li et al., {figures}", question, hmc.Settings, hmc.parts, claims, drawn)


EXPERIMENTS = (
    _experiment(
        "vr-hmc-regression",
        "Fig. 1 and 5",
        "what a momentum adds to variance reduction in regression",
        "test MSE",
    ),
    _experiment(
        "vr-hmc-classification",
        "Fig. 2 and 6",
        "what a momentum adds to variance reduction in classification",
        "test log likelihood",
    ),
)
