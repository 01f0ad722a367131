"""What `check` says of an experiment's draws, under its figure: the papers compare predictions, which hide it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ewsg_jax.reproduction.experiment import Numbers, Parts

KINDS = {
    "paper": "at the paper's steps",
    "tuned": "at tuned steps",
    "log-normal": "log-normal likelihood",
    "normal": "normal likelihood",
}
"""What the runs of a method may be of; `""` where there is one kind."""

START = (
    "Draws against the posterior, by check: runs that are right, and their worst sd over the posterior's (median)"
)


def found(parts: Parts) -> dict[str, dict[str, list[Numbers]]]:
    """Return what was said of the runs of each method, by kind: of data sets, of repeats."""
    told: dict[str, dict[str, list[Numbers]]] = {}
    for path, each in _checks(parts, ()):
        kind = next((name for name in path if name in KINDS), "")
        label = [name for name in path if name not in KINDS][-1]
        told.setdefault(kind, {}).setdefault(label, []).append(each)
    return told


def note(parts: Parts) -> str:
    """Return it in words, a line for each kind; none where no draws were checked."""
    lines = []
    for kind, methods in found(parts).items():
        each = "; ".join(f"{label}: {_told(checks)}" for label, checks in methods.items())
        lines.append(f"{KINDS[kind]}: {each}" if kind else each)
    return "\n".join([START, *lines]) if lines else ""


def _told(checks: list[Numbers]) -> str:
    right = sum(each["outcome"] == "right" for each in checks)
    ratios = [each["sd_ratio"] for each in checks if each.get("sd_ratio") is not None]
    return f"{right} of {len(checks)}" + (f", × {np.median(ratios):.3g}" if ratios else "")


def _checks(part: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Numbers]]:
    """Yield what was said under each place of a tree of numbers."""
    if isinstance(part, dict):
        if isinstance(part.get("check"), dict) and "outcome" in part["check"]:
            yield path, part["check"]
        for name, below in part.items():
            yield from _checks(below, (*path, name))
    elif isinstance(part, list):
        for below in part:
            yield from _checks(below, path)
