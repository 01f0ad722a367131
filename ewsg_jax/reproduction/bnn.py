"""Networks of one hidden layer, with and without variance reduction: Figures 3 and 4 of Li et al.

Batches of 10, anchors renewed every n/b steps; RMSE or mean log likelihood of held-out rows along passes. Open in
the paper: the prior's scale (1 here) and that of the noise (told by the configuration), the grids, where chains
start (as flax initialises layers), scaling (features and y standardised), whether predictions are averaged (over
some chains here). It prints no numbers.

Step and friction are those of a grid that are best on the rows to choose by, for all methods alike: a step is c/√n
with a momentum and c²/n without one, which moves as far by one gradient; a friction g√n. All of a grid run at once.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from ewsg_jax.experiments.config import Method, method_of
from ewsg_jax.experiments.tables import ConfigError, above_zero, at_least
from ewsg_jax.reproduction.bnn_data import REGRESSION, SCORE, SOURCES, posed
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.compared import ends, line
from ewsg_jax.reproduction.experiment import Experiment, Numbers, Parts
from ewsg_jax.reproduction.figures import Panel
from ewsg_jax.reproduction.judging import scores, short
from ewsg_jax.reproduction.predicting import kernel_of, numbers_of, run
from ewsg_jax.reproduction.problem import Budget
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.stacking import stack

SIMILAR = 0.02
"""The part of a score by which another may be worse and yet no worse."""


@dataclass(frozen=True)
class Settings:
    """Data sets and most of their rows, how long, and the grid; of `checked` data sets the check is told."""

    data: tuple[str, ...]
    num_rows: int
    noise_scale: float
    data_passes: float
    num_repeats: int
    ensemble: int
    steps: tuple[float, ...]
    frictions: tuple[float, ...]
    checked: tuple[str, ...] = ()
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        at_least("full", self, num_rows=100, num_repeats=1, ensemble=1)
        above_zero("full.noise_scale", self.noise_scale)
        if not self.data or set(self.data) - set(SOURCES):
            raise ConfigError(f"full.data must be some of {', '.join(SOURCES)}; got {list(self.data)}")

    @property
    def named(self) -> dict[str, Method]:
        """The methods by their labels; steps and frictions are found for them."""
        found = {}
        for number, table in enumerate(self.methods, 1):
            more = {"step_size": 1.0} | ({"friction": 1.0} if has_friction(str(table.get("name"))) else {})
            method = method_of(more | table, number)
            found[method.label] = method
        return found


def has_friction(name: str) -> bool:
    """Return whether a method has a momentum, by its name."""
    return "hmc" in name


def grid(method: Method, settings: Settings, n: int) -> list[dict[str, float]]:
    """Return the options of a method that are tried, for n rows."""
    if not has_friction(method.name):
        return [{"step_size": c * c / n} for c in settings.steps]
    return [{"step_size": c / n**0.5, "friction": g * n**0.5} for c in settings.steps for g in settings.frictions]


def of_method(name: str, label: str, settings: Settings, _: Parts) -> Numbers:
    """Return a method's curve on a data set, at the options that are best on the rows to choose by."""
    problem, choose, source = posed(name, settings.num_rows, settings.noise_scale)
    method, budget = settings.named[label], Budget(settings.data_passes, settings.num_repeats, settings.ensemble)
    options = grid(method, settings, num_rows(problem.train))
    kernels = [kernel_of(method, problem.posterior, **each) for each in options]
    key = jax.random.key(0)
    runs = list(run(key, stack(kernels), problem, budget))
    sign = 1.0 if name in REGRESSION else -1.0
    lasts = [scores(samples, replace(problem, test=choose), budget)[SCORE][:, -1].mean() for samples in runs]
    best = int(np.argmin([sign * x if np.isfinite(x) else np.inf for x in lasts]))
    told = numbers_of(key, runs[best], problem, budget, name in settings.checked)
    return told | {
        "data": name,
        "label": label,
        "source": source,
        "rows": num_rows(problem.train),
        "options": {key: short(value) for key, value in options[best].items()},
        "unstable": [bool(not samples.is_finite.all()) for samples in runs],
        "evaluations": sum(int(samples.gradient_evaluations) for samples in runs),
    }


def parts(settings: Settings) -> Mapping[str, Callable[[Parts], Numbers]]:
    """Return what is computed: each method on each data set."""
    return {
        f"{name}, {label}": functools.partial(of_method, name, label, settings)
        for name in settings.data
        for label in settings.named
    }


def curves_of(parts: Parts) -> dict[str, dict[str, Any]]:
    """Return the curves of each data set, by label."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts.values():
        found.setdefault(part["data"], {})[part["label"]] = part
    return found


def compared(parts: Parts, first: str, second: str, words: str, slack: float = 0.0) -> Claim:
    """Return the claim that a method's last scores are better, or worse by no more than a part of them."""
    so, told = [], []
    for name, curves in curves_of(parts).items():
        higher = name not in REGRESSION
        one, other = (ends([curves], label, SCORE, higher) for label in (first, second))
        room = slack * np.abs(other)
        so += list(one > other - room if higher else one < other + room)
        told.append(f"{name}: {np.median(one):.4g} and {np.median(other):.4g}")
    shown = f"{sum(so)} of {len(so)} repeats; medians of {first} and {second}: {', '.join(told)}"
    return Claim(words, float(np.mean(so)), shown)


def claims(parts: Parts) -> list[Claim]:
    """Judge the last scores."""
    found = [
        compared(parts, first, second, f"{first} predicts better than {second} after equal passes")
        for first in ("SVRG-HMC", "SVRG2nd-HMC")
        for second in ("SGHMC", "SVRG-LD")
    ]
    words = f"SVRG2nd-HMC predicts no worse than SVRG-HMC, by {SIMILAR:.0%} of the score"
    return [*found, compared(parts, "SVRG2nd-HMC", "SVRG-HMC", words, SIMILAR)]


def draw(parts: Parts) -> list[Panel]:
    """Draw the score along passes, data set by data set."""
    shown: Sequence[Panel] = [
        Panel(
            f"{name}, n = {next(iter(curves.values()))['rows']}",
            "passes over the data",
            "test RMSE" if name in REGRESSION else "test log likelihood",
            [line([curves], label, SCORE, label) for label in curves],
            (False, False),
        )
        for name, curves in curves_of(parts).items()
    ]
    return shown


EXPERIMENT = Experiment(
    "vr-hmc-bnn",
    "Li et al., Fig. 3 and 4",
    "what variance reduction and a momentum add for networks",
    Settings,
    parts,
    claims,
    draw,
)
