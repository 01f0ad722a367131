"""What is claimed of EWSG-VR on logistic regression, and Figure 5."""

from dataclasses import replace

import numpy as np

from ewsg_jax.reproduction import blr_vr
from ewsg_jax.reproduction.blr_vr import FULL, METRIC
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.experiment import Experiment, Numbers, Parts
from ewsg_jax.reproduction.figures import Line, Panel, numbers

STEPS = {"paper": "one step", "tuned": "tuned steps"}
BATCHES = ["SGHMC", "EWSG", "EWSG-VR"]
ARRIVED = 0.1
"""Of the way from its start to its end, as far as a mean is still off when it has converged."""


def sets_of(parts: Parts) -> dict[str, Numbers]:
    """Return the numbers of each split of each data set."""
    return {name: part for name, part in parts.items() if name != "tuning"}


def off(part: Numbers, which: str, label: str, of: str) -> float:
    """Return how far the last mean or sd is from that of the posterior, in its sds; ∞ where chains were lost."""
    last = part[which][label][METRIC][of][-1]
    if part[which][label]["lost"] or last is None:
        return float("inf")
    return abs(last - part["limit"][of]) / part["limit"]["sd"]


def arrival(part: Numbers, which: str, label: str) -> float:
    """Return the passes from which on the mean stays near where it ends."""
    run = part[which][label]
    mean = numbers(run[METRIC]["mean"])
    late = np.flatnonzero(~(np.abs(mean - mean[-1]) <= ARRIVED * abs(np.log(2) + mean[-1])))
    return run["passes"][0] if not len(late) else run["passes"][min(late[-1] + 1, len(mean) - 1)]


def nearer(parts: Parts, first: str, second: str) -> list[Claim]:
    """Return the claims that one method's mean and sd are nearer the posterior's than another's, at both steps."""
    found, sets = [], sets_of(parts).values()
    for which, name in STEPS.items():
        for of in ("mean", "sd"):
            both = [[off(part, which, label, of) for part in sets] for label in (first, second)]
            share = float(np.mean([a < b for a, b in zip(*both, strict=True)]))
            told = ", ".join(f"{x} {np.median(y):.3g}" for x, y in zip((first, second), both, strict=True))
            words = f"{first} predicts the {of} of the log likelihood better than {second}, at {name}"
            found.append(Claim(words, share, f"off by, in sds, medians: {told}", by_the_paper=which == "paper"))
    return found


def later(parts: Parts, first: str, others: list[str], words: str) -> Claim:
    """Return the claim that one method takes more passes to converge than others, at one step."""
    sets = sets_of(parts).values()
    of = {label: [arrival(part, "paper", label) for part in sets] for label in (first, *others)}
    share = float(np.mean([a > max(b) for a, *b in zip(of[first], *(of[x] for x in others), strict=True)]))
    told = ", ".join(f"{label} {np.median(x):.3g}" for label, x in of.items())
    return Claim(words, share, f"passes, medians: {told}")


def claims(parts: Parts) -> list[Claim]:
    """Judge Figure 5."""
    return [
        *nearer(parts, "EWSG", "SGHMC"),
        *nearer(parts, "EWSG-VR", "EWSG"),
        later(parts, FULL, BATCHES, "the full gradient takes the most passes to converge"),
        later(parts, "EWSG-VR", ["EWSG"], "EWSG-VR takes more passes than EWSG"),
        *(replace(each, by_the_paper=False) for each in nearer(parts, "NC-SGHMC", "EWSG-VR")),
        *are_samples(parts),
    ]


def are_samples(parts: Parts) -> list[Claim]:
    """Return beside it of which method the last positions are a sample of the posterior, by `check`."""
    sets, found = sets_of(parts).values(), []
    for which, name in STEPS.items():
        for label in next(iter(sets))[which]:
            runs = [part[which][label]["check"] for part in sets]
            worst = ", ".join(f"{run.get('sd_ratio', float('nan')):.3g}" for run in runs)
            share = float(np.mean([run["outcome"] != "wrong" for run in runs]))
            words = f"nothing wrong is found with the draws of {label}, at {name}"
            found.append(Claim(words, share, f"worst sd over the target's: {worst}", by_the_paper=False))
    return found


def draw(parts: Parts) -> list[Panel]:
    """Draw mean and sd along passes, of the first split of each data set, as Figure 5."""
    shown, seen = [], set()
    for name, part in sets_of(parts).items():
        if name.split()[0] in seen:
            continue
        seen.add(name.split()[0])
        for of in ("mean", "sd"):
            lines = [Line(label, x["passes"], x[METRIC][of]) for label, x in part["paper"].items()]
            ends = [min(x.x[0] for x in lines), max(x.x[-1] for x in lines)]
            lines.append(Line("posterior", ends, [part["limit"][of]] * 2, is_guide=True))
            words = f"{name.split()[0]}: {of} of test log likelihood"
            shown.append(Panel(words, "passes over the data", "", lines, (True, False)))
    return shown


EXPERIMENT = Experiment(
    "blr-vr",
    "Li, Wang, Zha & Tao, Fig. 5",
    "what EWSG-VR adds on logistic regression, with matrix friction over plain batches beside it",
    blr_vr.Settings,
    blr_vr.parts,
    claims,
    draw,
)
