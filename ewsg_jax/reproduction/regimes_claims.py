"""What is claimed of how soon held-out levels are reached, and the figure that shows it."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ewsg_jax.reproduction import regimes
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.experiment import Experiment, Numbers, Parts
from ewsg_jax.reproduction.figures import Line, Panel

FAR = 2.0
"""An error that is so many times another stays above it."""


def best_of(part: Numbers, saved: float = 0.0) -> list[str | None]:
    """Return the method that reaches each level first, None where none does.

    Args:
        part: of a data set.
        saved: passes of control variates that are not counted.
    """
    found: list[str | None] = []
    for i in range(len(part["levels"])):
        passes = {label: each["reached"][i] for label, each in part["methods"].items()}
        able = {label: x - saved * label.startswith("CV") for label, x in passes.items() if x is not None}
        found.append(min(able, key=lambda label: able[label]) if able else None)
    return found


def _told(parts: Parts, best: dict[str, list[str | None]]) -> str:
    found = []
    for part in parts.values():
        places = zip(best[part["data"]], part["levels"], strict=True)
        runs = [(label, [x for _, x in each]) for label, each in itertools.groupby(places, lambda place: place[0])]
        found.append(
            f"{part['data']}: " + ", ".join(f"{label} to {x[-1]:g}" for label, x in runs if label is not None)
        )
    return "; ".join(found)


def _somewhere(best: dict[str, list[str | None]], *labels: str) -> float:
    return float(np.mean([any(x in labels for x in each) for each in best.values()]))


def claims(parts: Parts) -> list[Claim]:
    """Judge the regimes of each data set, SVRG against SAGA, and the floor of control variates."""
    sets = list(parts.values())
    best = {part["data"]: best_of(part) for part in sets}
    unpaid = {part["data"]: best_of(part, part["search"]) for part in sets}
    told = _told(parts, best)
    ends = [next((x for x in reversed(each) if x is not None), None) for each in best.values()]
    pairs = [
        (saga, svrg)
        for part in sets
        for saga, svrg in zip(_reached(part, "SAGA-LD"), _reached(part, "SVRG-LD"), strict=True)
        if np.isfinite(min(saga, svrg))
    ]
    floors = [(_floor(part, "CV-LD"), _floor(part, "SAGA-LD")) for part in sets]
    shown = "; ".join(
        f"{part['data']}: CV-LD {a:.2g}, SAGA-LD {b:.2g}" for part, (a, b) in zip(sets, floors, strict=True)
    )
    both = f"{sum(a < b for a, b in pairs)} of {len(pairs)} levels and data sets"
    size = sorted(sets, key=lambda part: part["rows"])
    fewer = [
        _reached(size[-1], label)[i] <= _reached(size[0], label)[i]
        for label in size[0]["methods"]
        for i in range(len(size[0]["levels"]))
        if np.isfinite(min(_reached(size[-1], label)[i], _reached(size[0], label)[i]))
    ]
    return [
        Claim("SGLD is the first at some level", _somewhere(best, "SGLD"), told),
        Claim("a control variate is the first at some level", _somewhere(best, "CV-LD", "CV-ULD"), told),
        Claim(
            "a control variate is the first at some level, its search not counted",
            _somewhere(unpaid, "CV-LD", "CV-ULD"),
            _told(parts, unpaid),
            by_the_paper=False,
        ),
        Claim(
            "SAGA-LD is the first at the finest level that any reaches",
            float(np.mean([x == "SAGA-LD" for x in ends])),
            told,
        ),
        Claim("SVRG-LD takes more passes than SAGA-LD", float(np.mean([a < b for a, b in pairs])), both),
        Claim(
            f"CV-LD's error stays above {FAR:g} times that of SAGA-LD",
            float(np.mean([a > FAR * b for a, b in floors])),
            f"least errors {shown}",
        ),
        Claim(
            "levels take no more passes on the most rows than on the fewest",
            float(np.mean(fewer)) if fewer else 0.0,
            f"{sum(fewer)} of {len(fewer)} levels and methods",
        ),
    ]


def _reached(part: Numbers, label: str) -> list[float]:
    return [np.inf if x is None else x for x in part["methods"][label]["reached"]]


def _floor(part: Numbers, label: str) -> float:
    found: Any = part["methods"][label]["floor"]
    return np.inf if found is None else found


def draw(parts: Parts) -> list[Panel]:
    """Draw the passes that each level takes, data set by data set."""
    shown = []
    for part in parts.values():
        levels: Sequence[float] = part["levels"]
        lines = [
            Line(label, [np.nan if x is None else x for x in each["reached"]], levels)
            for label, each in part["methods"].items()
        ]
        title, y = f"{part['data']}, n = {part['rows']}", "distance to the optimal log likelihood"
        shown.append(Panel(title, "passes over the data", y, lines, (True, True)))
    return shown


EXPERIMENT = Experiment(
    "vr-regimes",
    "Chatterji et al., Fig. 2",
    "which estimator reaches a held-out level first",
    regimes.Settings,
    regimes.parts,
    claims,
    draw,
)
