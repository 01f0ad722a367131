"""What is claimed of a normal law fitted to log-normal draws, and Figure 6."""

from typing import Any

import numpy as np

from ewsg_jax.reproduction import misspecified
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.experiment import Experiment, Parts
from ewsg_jax.reproduction.figures import Line, Panel
from ewsg_jax.reproduction.misspecified import EVERY, LAGS, REDRAWN

PAPER_STEPS, PAPER_USED, NEAR = 10_000, 0.109, 0.003
"""FlyMC's steps and the share of rows that one uses, in the paper; how far ours may be from that."""
STRONG, FASTER = 0.2, 0.5
"""The autocorrelation at 500 steps from which on it is strong; the part of FlyMC's time that is much less."""
FLYMC, EWSG, MODE = "FlyMC", "EWSG", "FlyMC from the mode"


def runs(parts: Parts, label: str) -> list[Any]:
    """Return a method's numbers on each data set where it kept a chain; FlyMC's of each of its runs."""
    sets = [part for name, part in parts.items() if name != "tuning"]
    return [run for part in sets for run in on_set(part, label)]


def on_set(part: Any, label: str) -> list[Any]:
    """Return those on one data set."""
    labels = [x for x in part if x == label or (label == FLYMC and x.removeprefix(f"{FLYMC} ").isdigit())]
    return [part[x] for x in labels if "mean_off" in part[x]]


def used(run: Any) -> float:
    """Return the share of rows that a step of FlyMC uses over the paper's 10,000, where none stays bright."""
    return 1 / REDRAWN + run["extra_steps"] / PAPER_STEPS


def time_of(run: Any) -> float:
    """Return the integrated autocorrelation time of the slower coordinate, in steps, by trapezoids between lags."""
    rows = np.vstack([np.ones(2), np.maximum(run["autocorrelation"], 0)])
    lags = np.array([0, *LAGS], float)
    areas = (rows[1:] + rows[:-1]) / 2 * np.diff(lags)[:, None]
    return float(max(1.0, 2 * areas.sum(0).max()))


def share(of: list[bool]) -> float:
    """Return in what part of the runs something is so, 0 where there is none."""
    return float(np.mean(of)) if of else 0.0


def at_500(run: Any) -> float:
    """Return the larger autocorrelation at 500 steps."""
    return float(np.max(run["autocorrelation"][-1]))


def furthest(run: Any) -> float:
    """Return the largest distance of a chain's mean from the posterior's, in its sds."""
    return float(np.max(np.abs(run["mean_off"])))


def listed(values: list[float]) -> str:
    """Return numbers, spelled."""
    return ", ".join(f"{x:.3g}" for x in values)


def claims(parts: Parts) -> list[Claim]:
    """Judge Figure 6."""
    fly, weighted, near = runs(parts, FLYMC), runs(parts, EWSG), runs(parts, MODE)
    spent = [used(x) for x in fly]
    sets = [part for name, part in parts.items() if name != "tuning"]
    both = [(a, b) for part in sets for a in on_set(part, EWSG) for b in on_set(part, FLYMC)]
    return [
        Claim(
            "FlyMC from (0, 0) uses 10.9 % of the rows a step, over 10,000 steps",
            share([abs(x - PAPER_USED) <= NEAR for x in spent]),
            f"{listed([100 * x for x in spent])} %: 10 % drawn anew, the others bright on the way to the mode",
        ),
        Claim(
            "FlyMC's autocorrelation at 500 steps is strong",
            share([at_500(x) >= STRONG for x in fly]),
            listed([at_500(x) for x in fly]),
        ),
        Claim(
            "EWSG's autocorrelation decays much faster than FlyMC's",
            share([time_of(a) <= FASTER * time_of(b) for a, b in both]),
            f"steps: EWSG {listed([time_of(a) for a in weighted])}; FlyMC {listed([time_of(b) for _, b in both])}",
        ),
        Claim(
            "EWSG's draws are around the mode",
            share([furthest(x) <= 1 for x in weighted]),
            f"worst mean of a chain off by {listed([furthest(x) for x in weighted])} sds",
        ),
        Claim(
            "FlyMC's draws are far from the posterior after 1,000 steps",
            share([furthest(x) > 3 for x in fly]),
            f"worst mean of a chain off by {listed([furthest(x) for x in fly])} sds",
        ),
        Claim(
            "FlyMC from the mode uses more than the rows that it draws anew",
            share([x["mean_used"] > 1.01 / REDRAWN for x in near]),
            f"{listed([100 * x['mean_used'] for x in near])} % a step; autocorrelation time "
            f"{listed([time_of(x) for x in near])} steps",
            by_the_paper=False,
        ),
        *(_is_right(parts, label) for label in ("Metropolis", FLYMC, MODE, EWSG, "EWSG, tuned")),
    ]


def _is_right(parts: Parts, label: str) -> Claim:
    found = runs(parts, label)
    told = "; ".join(f"{x['check']['outcome']}, sds {listed(x['sd_ratio'])} times the posterior's" for x in found)
    at = f" (h = {parts['tuning']['step_size']:g})" if label.endswith("tuned") else ""
    is_so = share([x["check"]["outcome"] == "right" for x in found])
    return Claim(f"draws of {label}{at} are of the posterior", is_so, told, by_the_paper=False)


def _steps(values: list[Any]) -> list[int]:
    return [EVERY * (i + 1) for i in range(len(values))]


def draw(parts: Parts) -> list[Panel]:
    """Draw the rows that FlyMC uses, autocorrelations, and log σ along EWSG's and FlyMC's chains, as Figure 6."""
    labels = [FLYMC, MODE, EWSG, "EWSG, tuned", "Metropolis"]
    first = {label: found[0] for label in labels if (found := runs(parts, label))}
    rows = [Line(x, _steps(first[x]["used"]), first[x]["used"]) for x in (FLYMC, MODE) if x in first]
    memory = [Line(x, list(LAGS), [each[1] for each in run["autocorrelation"]]) for x, run in first.items()]
    paths = [
        Line(x, _steps(run["path"]), [each[1] for each in run["path"]])
        for x, run in first.items()
        if x != "EWSG, tuned"
    ]
    near = [Line(x.label, x.x, [None if abs(y or 0) > 15 else y for y in x.y]) for x in paths]
    return [
        Panel("share of rows used", "step", "", rows, (False, True)),
        Panel("autocorrelation of log σ", "lag (steps)", "", memory, (True, False)),
        Panel("log σ, within 15 sds", "step", "sds from the posterior's mean", near, (False, False)),
    ]


EXPERIMENT = Experiment(
    "misspecified",
    "Li, Wang, Zha & Tao, Fig. 6",
    "how EWSG and FlyMC sample a normal law fitted to log-normal draws",
    misspecified.Settings,
    misspecified.parts,
    claims,
    draw,
)
