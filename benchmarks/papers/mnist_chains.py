"""Long index chains or large batches: Table 3 of Li, Wang, Zha & Tao, on the perceptron of `mnist`.

EWSG with batches of b and chains of M proposals, and SGHMC with batches of b(M + 1), which cost the
same, at h = 10/(b(M + 1)), in the unit of `digits`, and at other numbers in the place of 10, of
which rows held out of the training set choose one for each method and cell. In the other unit,
where h is 12 times section 5.3's longest at the first cell, what trains at all is told beside. Left
open there besides: the friction (0.1, as in section 5.3) and the start.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import ewsg_jax as ewsg
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel
from benchmarks.papers.mnist import (
    OF_MEAN,
    OF_SUM,
    UNTRAINED,
    DigitSettings,
    best_of,
    in_unit,
    network_of,
    problems,
    trained,
)
from benchmarks.papers.predicting import Problem, ends, numbers_of, run, short
from ewsg_jax import Kernel, stack
from ewsg_jax.cli.config import ConfigError

LABELS = ("EWSG", "SGHMC")
STEPS = {"paper": "h = 10/(b(M + 1))", "tuned": "tuned steps"}
CHANCE = 0.9
"""The test error of a guess."""


@dataclass(frozen=True, kw_only=True)
class Settings(DigitSettings):
    """The friction of both methods, batches and candidates of a chain (M + 1); whether the check is
    told.
    """

    friction: float
    batch_sizes: tuple[int, ...]
    candidates: tuple[int, ...]
    checked: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(m >= 2 for m in self.candidates):
            raise ConfigError(
                f"full.candidates must be at least 2 each; got {list(self.candidates)}"
            )


def kernel_of(
    label: str,
    b: int,
    m: int,
    factor: float,
    problem: Problem,
    settings: Settings,
    of: int = OF_MEAN,
) -> Kernel:
    """Return the kernel of a cell with m = M + 1 candidates."""
    options: dict[str, Any] = in_unit(
        factor * 10 / (b * m), settings.friction, settings.num_rows, of
    )
    if label == "EWSG":
        return ewsg.ewsg(problem.posterior, **options, batch_size=b, chain_length=m - 1)
    return ewsg.sghmc(problem.posterior, **options, batch_size=b * m)


def cell(b: int, m: int, settings: Settings, _: Parts) -> Numbers:
    """Return both methods' errors at the printed step in both units, and at the one
    that is chosen.
    """
    problem, validation, _rows = problems(
        network_of(settings.hidden, (), 1), settings.sizes, 1, settings.seed
    )
    budget, key = settings.budget, jax.random.key(b * m)
    found: dict[str, Any] = {"b": b, "candidates": m, "factor": {}, "evaluations": 0}
    found |= {"paper": {}, "tuned": {}, "of_sum": {}}
    for label in LABELS:
        kernels = [kernel_of(label, b, m, factor, problem, settings) for factor in settings.factors]
        runs = list(run(key, stack(kernels), problem, budget))
        best = best_of(runs, problem, validation, budget)
        for which, place in (("paper", settings.factors.index(1.0)), ("tuned", best)):
            judged = settings.checked and which == "tuned"
            found[which][label] = numbers_of(key, runs[place], problem, budget, judged)
        found["factor"][label] = short(settings.factors[best])
        of_sum = kernel_of(label, b, m, 1.0, problem, settings, OF_SUM)
        briefly = settings.short_budget
        runs.append(run(key, of_sum, problem, briefly))
        found["of_sum"][label] = numbers_of(key, runs[-1], problem, briefly, judged=False)
        found["evaluations"] += sum(int(samples.gradient_evaluations) for samples in runs)
    return found


def parts(settings: Settings) -> Mapping[str, Callable[[Parts], Numbers]]:
    """Return what is computed: each cell of the table."""
    cells = [(b, m) for b in settings.batch_sizes for m in settings.candidates]
    return {f"b = {b}, M + 1 = {m}": functools.partial(cell, b, m, settings) for b, m in cells}


def claims(parts: Parts) -> list[Claim]:
    """Judge the cells, repeat by repeat; and whether the printed steps train."""
    found = []
    for which, steps in STEPS.items():
        so, told = [], []
        for name, part in parts.items():
            one, other = (ends([part[which]], label, "error") for label in LABELS)
            so += list((one < other) & (one < UNTRAINED))
            told.append(f"{name}: {np.median(one):.3g} and {np.median(other):.3g}")
        words = (
            f"EWSG errs less than SGHMC with batches of b(M + 1), at {steps} (the paper: in 8 "
            "of 9 cells)"
        )
        shown = f"{sum(so)} of {len(so)} repeats; medians {', '.join(told)}"
        found.append(Claim(words, float(np.mean(so)), shown, by_the_paper=which == "paper"))
    for which, of in (("paper", "mean"), ("of_sum", "sum")):
        words = f"h = 10/(b(M + 1)) read as of gradients of the {of}"
        found.append(trained([part[which] for part in parts.values()], words))
    return found


def draw(parts: Parts) -> list[Panel]:
    """Draw the last test errors over what a step costs, b(M + 1)."""
    shown = []
    for which, steps in STEPS.items():
        lines = []
        for label in LABELS:
            at = sorted(
                (part["b"] * part["candidates"], _median(part[which], label))
                for part in parts.values()
            )
            lines.append(Line(label, [x for x, _ in at], [y for _, y in at]))
        shown.append(Panel(steps, "b(M + 1)", "test error (lost chains: 0.9)", lines, (True, True)))
    return shown


def _median(curves: Any, label: str) -> float:
    return min(float(np.median(ends([curves], label, "error"))), CHANCE)


EXPERIMENT = Experiment(
    "mnist-m",
    "Li, Wang, Zha & Tao, Table 3",
    "whether long index chains do more than large batches",
    Settings,
    parts,
    claims,
    draw,
)
