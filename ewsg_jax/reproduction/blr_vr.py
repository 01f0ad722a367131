"""Logistic regression by EWSG-VR: Figure 5 of Li, Wang, Zha & Tao.

The log likelihood of held-out rows under a draw of each of many chains, from 0 on: its mean and its standard
deviation over chains, pass by pass. Both have a limit, that of the posterior: a long run of the full gradient by
symmetric splitting tells it. What the paper leaves open is told in the configuration.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import datasets, models
from ewsg_jax._kernel import Kernel
from ewsg_jax.experiments.config import Method, method_of
from ewsg_jax.experiments.tables import ConfigError, at_least
from ewsg_jax.methods import uld
from ewsg_jax.reproduction import metrics
from ewsg_jax.reproduction.experiment import Numbers, Parts
from ewsg_jax.reproduction.judging import scores, short
from ewsg_jax.reproduction.predicting import kernel_of, measured, run
from ewsg_jax.reproduction.problem import Budget, Problem
from ewsg_jax.reproduction.tuning import folds
from ewsg_jax.stacking import stack

POSTERIOR = models.logistic_regression(prior_scale=0.1**0.5)
METRIC, FULL, FOLDS = "log_likelihood", "full gradient", 5
REFERENCE = {"step_size": 1e-2, "friction": 20.0, "integrator": "splitting"}
KEPT = 10
"""Late draws of each chain of the reference."""


@dataclass(frozen=True)
class Settings:
    """Chains, passes of the methods and of the full gradient, splits of each data set, steps that are tried."""

    num_chains: int
    data_passes: tuple[float, ...]
    full_passes: float
    num_draws: int
    reference_steps: int
    splits: tuple[int, ...]
    data_sets: tuple[str, ...]
    tuning_chains: int
    step_sizes: tuple[float, ...]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        at_least("full", self, num_chains=2, num_draws=2, tuning_chains=2)
        at_least("full", self, full_passes=1, reference_steps=2 * KEPT)
        if len(self.data_passes) != len(self.data_sets):
            raise ConfigError(f"full.data_passes must be one for each data set; got {self.data_passes}")

    @property
    def named(self) -> dict[str, Method]:
        """The methods by their labels."""
        return {each.label: each for each in (method_of(table, i) for i, table in enumerate(self.methods, 1))}

    def budget(self, label: str, name: str) -> Budget:
        """Return how long a method runs on a data set; each chain is a repeat."""
        passes = self.full_passes if label == FULL else self.data_passes[self.data_sets.index(name)]
        return Budget(passes, self.num_chains, num_draws=self.num_draws)


@functools.cache
def problem_of(name: str, split: int) -> Problem:
    """Return a data set, split and standardised."""
    train, test = datasets.standardise(*datasets.split(datasets.load(name), 0.2, split))
    to_train, to_judge = (jax.tree.map(jnp.asarray, each.with_intercept().rows()) for each in (train, test))
    start = jnp.zeros(to_train["x"].shape[1])
    return Problem(POSTERIOR, to_train, to_judge, start, {METRIC: metrics.log_likelihood(POSTERIOR)})


def limit(problem: Problem, settings: Settings) -> Numbers:
    """Return the mean and standard deviation over the posterior."""
    count, chains = settings.reference_steps, settings.num_chains
    budget = Budget(count, chains, num_draws=KEPT, burn_in_passes=count // 2)
    kernel = uld(POSTERIOR, **REFERENCE)
    samples = run(jax.random.key(2), kernel, problem, budget)
    values = scores(samples, problem, budget)[METRIC]
    return {
        "mean": short(values.mean()),
        "sd": short(values.std()),
        "error": short(values.mean(1).std() / chains**0.5),
        "evaluations": int(samples.gradient_evaluations),
    }


def distance(mean: float, sd: float, of: Mapping[str, float]) -> float:
    """Return how far a law of the log likelihood is from another by mean and sd, in units of its sd."""
    return abs(mean - of["mean"]) / of["sd"] + abs(float(np.log(sd / of["sd"])))


def tuned(method: Method, name: str, problem: Problem, goal: Numbers, settings: Settings) -> float | None:
    """Return the step, of those that are tried, at which the last draws are nearest the posterior's."""
    budget = replace(settings.budget(method.label, name), num_repeats=settings.tuning_chains, num_draws=1)
    kernels: list[Kernel] = [kernel_of(method, POSTERIOR, step_size=h) for h in settings.step_sizes]
    far = []
    for samples in run(jax.random.key(3), stack(kernels), problem, budget):
        values = scores(samples, problem, budget)[METRIC][:, -1]
        far.append(distance(values.mean(), values.std(), goal))
    if not np.isfinite(far).any():
        return None
    return settings.step_sizes[int(np.nanargmin(far))]


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: tuned steps, on a fold of the first split; then each split of each data set."""
    named = settings.named

    def tuning(_: Parts) -> Numbers:
        found: dict[str, Any] = {}
        for name in settings.data_sets:
            problem = folds(problem_of(name, settings.splits[0]), FOLDS, seed=1, num_used=1)[0]
            goal = limit(problem, replace(settings, num_chains=settings.tuning_chains))
            found[name] = {label: tuned(method, name, problem, goal, settings) for label, method in named.items()}
        return {"step_sizes": found}

    def on(name: str, split: int) -> Callable[[Parts], Numbers]:
        def compute(done: Parts) -> Numbers:
            problem = problem_of(name, split)
            found: Numbers = {"limit": limit(problem, settings)}
            steps: dict[str, Any] = {"paper": {}, "tuned": done["tuning"]["step_sizes"][name]}
            for which, of in steps.items():
                found[which] = {}
                for number, (label, method) in enumerate(named.items()):
                    changed = {"step_size": of[label]} if of.get(label) else {}
                    key = jax.random.fold_in(jax.random.key(split), number)
                    kernel = kernel_of(method, POSTERIOR, **changed)
                    told = measured(key, kernel, problem, settings.budget(label, name))
                    told[METRIC].pop("last")
                    found[which][label] = told
            spent = sum(each.pop("evaluations") for which in steps for each in found[which].values())
            return found | {"evaluations": spent + found["limit"].pop("evaluations")}

        return compute

    each = [(name, split) for name in settings.data_sets for split in settings.splits]
    return {"tuning": tuning} | {f"{name} {split}": on(name, split) for name, split in each}
