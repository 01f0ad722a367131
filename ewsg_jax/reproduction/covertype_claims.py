"""What is claimed of Covertype in one pass, with the paper's Table 1 beside, and Figure 2."""

from typing import Any

import numpy as np

from ewsg_jax.reproduction import covertype
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.covertype import ACCURACY, LOG_LIKELIHOOD, last
from ewsg_jax.reproduction.experiment import Experiment, Parts
from ewsg_jax.reproduction.figures import Line, Panel, numbers

STEPS = {"paper": "the paper's steps", "tuned": "tuned steps"}
COMPARABLE = 0.002
"""How far log likelihoods that the paper calls comparable may be apart: its own are equal to three digits."""
ORDERS = 10.0
"""Of magnitude: how many times at least the time of FlyMC is EWSG's."""
SLIGHT = 1.5
"""How many times the time of SGLD and SGHMC that of EWSG is at most, where it is slightly more; paper: 1.2."""


def spelled(parts: Parts, which: str, label: str, metric: str) -> str:
    """Return mean ± sd over repeats, and the paper's."""
    values, published = last(parts, which, label, metric), parts["FlyMC"]["published"][label]
    unit = 100 if metric == ACCURACY else 1
    own = f"{label} {unit * values.mean():.5g} ± {unit * values.std():.2g}"
    return own + (f" (paper {published[metric]:g})" if which == "paper" else "")


def ahead(parts: Parts, metric: str, words: str) -> list[Claim]:
    """Return the claim that EWSG is the best by a metric of all by batches, repeat by repeat."""
    others = ["SGLD", "pSGLD", "SGHMC"]
    found = []
    for which, name in STEPS.items():
        own = last(parts, which, "EWSG", metric)
        best = np.max([last(parts, which, x, metric) for x in others], axis=0)
        shown = ", ".join(spelled(parts, which, x, metric) for x in ["EWSG", *others])
        share = float(np.mean(own > best))
        found.append(Claim(f"EWSG has the {words}, at {name}", share, shown, by_the_paper=which == "paper"))
    return found


def against_flymc(parts: Parts) -> list[Claim]:
    """Return what the paper says of EWSG and FlyMC, after as many steps of 50 rows as make a pass."""
    fly = parts["FlyMC"]
    found = []
    for metric, words in (
        (ACCURACY, "is more accurate than FlyMC"),
        (LOG_LIKELIHOOD, "has FlyMC's log likelihood"),
    ):
        own, other = last(parts, "paper", "EWSG", metric), float(np.mean(fly[metric]["last"]))
        is_so = own > other if metric == ACCURACY else np.abs(own - other) <= COMPARABLE
        unit, digits = (100, 5) if metric == ACCURACY else (1, 4)
        shown = (
            f"{spelled(parts, 'paper', 'EWSG', metric)}, FlyMC {unit * other:.{digits}g} after {fly['steps']} "
            f"steps of {fly['steps_of_a_pass']} (paper {fly['published']['FlyMC'][metric]:g})"
        )
        found.append(Claim(f"EWSG {words}", float(np.mean(is_so)), shown))
    return found


def times(parts: Parts) -> list[Claim]:
    """Return what the paper says of the time of a pass: of each chain, when they run side by side."""
    sets = [part["paper"] for name, part in parts.items() if name.startswith("prior")]
    seconds = {label: np.array([each[label]["seconds"] for each in sets]) for label in sets[0]}
    slower = np.maximum(seconds["SGLD"], seconds["SGHMC"])
    told = ", ".join(f"{label} {x.mean():.3g} s" for label, x in seconds.items())
    fly = parts["FlyMC"]
    whole = fly["seconds_per_step"] * fly["steps_of_a_pass"]
    per_chain = float(np.mean(seconds["EWSG"]) / fly["chains_of_others"])
    beyond = (
        f"FlyMC {whole:.3g} s for a chain's {fly['steps_of_a_pass']} steps, {fly['per_step']:.0f} rows a step, "
        f"after {fly['passes_at_start']:.2g} passes for its bound; EWSG {per_chain:.3g} s for a chain's pass"
    )
    return [
        Claim(
            "EWSG takes slightly longer than SGLD and SGHMC",
            float(np.mean(seconds["EWSG"] <= SLIGHT * slower)),
            f"{told} for all chains side by side (paper 3.085, 4.312, 3.145, 3.755 s)",
        ),
        Claim("EWSG takes less time than pSGLD", float(np.mean(seconds["EWSG"] < seconds["pSGLD"])), told),
        Claim(
            "FlyMC takes orders of magnitude longer than EWSG",
            float(whole > ORDERS * per_chain),
            beyond + " (paper 291 s and 3.755 s)",
        ),
    ]


def claims(parts: Parts) -> list[Claim]:
    """Judge Table 1."""
    return [
        *ahead(parts, ACCURACY, "highest accuracy by batches"),
        *ahead(parts, LOG_LIKELIHOOD, "highest log likelihood by batches"),
        *against_flymc(parts),
        *times(parts),
        *are_samples(parts),
    ]


def are_samples(parts: Parts) -> list[Claim]:
    """Return beside it whether draws are a sample of the posterior, by what `check` finds of each run."""
    found = []
    for which, name in STEPS.items():
        runs: list[Any] = [x for key, part in parts.items() if key.startswith("prior") for x in part[which].items()]
        told = ", ".join(
            f"{label} {run['check']['outcome']}"
            + (f" (sds {run['check']['sd_ratio']:.2g} times)" if "sd_ratio" in run["check"] else "")
            for label, run in runs
        )
        share = float(np.mean([run["check"]["outcome"] == "right" for _, run in runs]))
        found.append(
            Claim(f"draws after one pass are of the posterior, at {name}", share, told, by_the_paper=False)
        )
    return found


def draw(parts: Parts) -> list[Panel]:
    """Draw accuracy and log likelihood along the pass under the first prior, as Figure 2, and at tuned steps."""
    of_prior = next(part for name, part in parts.items() if name.startswith("prior"))
    shown = []
    for which, metric in (("paper", ACCURACY), ("paper", LOG_LIKELIHOOD), ("tuned", LOG_LIKELIHOOD)):
        lines, sign = [], 1 if metric == ACCURACY else -1
        for label, run in of_prior[which].items():
            step = (parts["tuning"]["found"][label]["best"] or {}).get("step_size")
            mark = f"{label}, h = {step:g}" if which == "tuned" and step else label
            mean, sd = (sign * numbers(run[metric][x]) for x in ("mean", "sd"))
            low, high = list(mean - abs(sd)), list(mean + abs(sd))
            lines.append(Line(mark, run["passes"], list(mean), low, high, of=label))
        if which == "paper":
            fly = parts["FlyMC"]
            values = list(sign * numbers(fly[metric]["mean"]))
            lines.append(Line("FlyMC (50 rows a step)", fly["passes"], values, of="FlyMC"))
        words = "test accuracy" if metric == ACCURACY else "−log likelihood"
        scale = False, metric == LOG_LIKELIHOOD
        shown.append(Panel(f"{words}, {STEPS[which]}", "passes over the data", "", lines, scale))
    return shown


EXPERIMENT = Experiment(
    "covertype",
    "Li, Wang, Zha & Tao, Table 1 and Fig. 2",
    "what one pass over Covertype is worth",
    covertype.Settings,
    covertype.parts,
    claims,
    draw,
)
