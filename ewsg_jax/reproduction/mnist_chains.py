"""Long index chains or large batches: Table 3 of Li, Wang, Zha & Tao, on the perceptron of `mnist`.

EWSG with batches of b and chains of M proposals, and SGHMC with batches of b(M + 1), which cost the same, at h =
10/(b(M + 1)). With section 5.3's unit of h that is 12 times its longest step at the first cell; whether the unit
is another is not told, so what trains there at all is reported, and other numbers in the place of 10 stand beside
it, of which rows held out of the training set choose one for each method and cell. Left open there besides: the
friction (0.1, as in section 5.3) and the start. Steps for fewer rows as in `digits`.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ewsg_jax import methods
from ewsg_jax._kernel import Kernel
from ewsg_jax.experiments.tables import ConfigError
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.compared import ends
from ewsg_jax.reproduction.digits import NUM_TRAINING, UNTRAINED, DigitSettings, best_of, network_of, problems
from ewsg_jax.reproduction.experiment import Experiment, Numbers, Parts
from ewsg_jax.reproduction.figures import Line, Panel
from ewsg_jax.reproduction.judging import short
from ewsg_jax.reproduction.predicting import numbers_of, run
from ewsg_jax.reproduction.problem import Problem
from ewsg_jax.stacking import stack

LABELS = ("EWSG", "SGHMC")
STEPS = {"paper": "h = 10/(b(M + 1))", "tuned": "tuned steps"}
CHANCE = 0.9
"""The test error of a guess."""


@dataclass(frozen=True, kw_only=True)
class Settings(DigitSettings):
    """The friction of both methods, batches and candidates of a chain (M + 1); whether the check is told."""

    friction: float
    batch_sizes: tuple[int, ...]
    candidates: tuple[int, ...]
    checked: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(m >= 2 for m in self.candidates):
            raise ConfigError(f"full.candidates must be at least 2 each; got {list(self.candidates)}")


def kernel_of(label: str, b: int, m: int, factor: float, problem: Problem, settings: Settings) -> Kernel:
    """Return the kernel of a cell with m = M + 1 candidates."""
    step = factor * 10 / (b * m) * (NUM_TRAINING / settings.num_rows) ** 0.5
    if label == "EWSG":
        return methods.ewsg(problem.posterior, step, friction=settings.friction, batch_size=b, chain_length=m - 1)
    return methods.sghmc(problem.posterior, step, friction=settings.friction, batch_size=b * m)


def cell(b: int, m: int, settings: Settings, _: Parts) -> Numbers:
    """Return both methods' errors at the printed step and at the one that is chosen."""
    problem, validation, _rows = problems(network_of(settings.hidden, (), 1), settings.sizes, 1, settings.seed)
    budget, key = settings.budget, jax.random.key(b * m)
    found: dict[str, Any] = {"b": b, "candidates": m, "paper": {}, "tuned": {}, "factor": {}, "evaluations": 0}
    for label in LABELS:
        kernels = [kernel_of(label, b, m, factor, problem, settings) for factor in settings.factors]
        runs = list(run(key, stack(kernels), problem, budget))
        best = best_of(runs, problem, validation, budget)
        for which, place in (("paper", settings.factors.index(1.0)), ("tuned", best)):
            judged = settings.checked and which == "tuned"
            found[which][label] = numbers_of(key, runs[place], problem, budget, judged)
        found["factor"][label] = short(settings.factors[best])
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
        words = f"EWSG errs less than SGHMC with batches of b(M + 1), at {steps} (the paper: in 8 of 9 cells)"
        shown = f"{sum(so)} of {len(so)} repeats; medians {', '.join(told)}"
        found.append(Claim(words, float(np.mean(so)), shown, by_the_paper=which == "paper"))
    errors = np.concatenate([ends([part["paper"]], label, "error") for part in parts.values() for label in LABELS])
    words = f"networks are trained at h = 10/(b(M + 1)): test errors are below {UNTRAINED:.0%}"
    shown = (
        f"{int((errors < UNTRAINED).sum())} of {len(errors)} runs; from {errors.min():.3g} to {errors.max():.3g}"
    )
    found.append(Claim(words, float((errors < UNTRAINED).mean()), shown, by_the_paper=False))
    return found


def draw(parts: Parts) -> list[Panel]:
    """Draw the last test errors over what a step costs, b(M + 1)."""
    shown = []
    for which, steps in STEPS.items():
        lines = []
        for label in LABELS:
            at = sorted((part["b"] * part["candidates"], _median(part[which], label)) for part in parts.values())
            lines.append(Line(label, [x for x, _ in at], [y for _, y in at]))
        shown.append(Panel(steps, "b(M + 1)", "test error (lost chains: 0.9)", lines, (True, False)))
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
