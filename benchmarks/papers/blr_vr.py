"""Logistic regression by EWSG-VR: Figure 5 of Li, Wang, Zha & Tao.

The log likelihood of held-out rows under a draw of each of many chains, from 0 on: its mean and its
standard deviation over chains, pass by pass. Both have a limit, that of the posterior: a long run
of the full gradient by symmetric splitting tells it. What the paper leaves open is told in the
configuration.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import data_sets
from benchmarks.papers import metrics
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel, numbers
from benchmarks.papers.predicting import (
    Budget,
    Problem,
    folds,
    kernel_of,
    measured,
    run,
    scores,
    short,
)
from ewsg_jax import Kernel, datasets, models, stack, uld
from ewsg_jax.cli.config import ConfigError, MethodConfig, at_least, methods_of

POSTERIOR = models.logistic_regression(prior_scale=0.1**0.5)
METRIC, FULL, FOLDS = "log_likelihood", "full gradient", 5
REFERENCE = {"step_size": 1e-2, "friction": 20.0, "integrator": "splitting"}
KEPT = 10
"""Late draws of each chain of the reference."""


@dataclass(frozen=True)
class Settings:
    """Chains, passes of the methods and of the full gradient, splits of each data set, steps that
    are tried.
    """

    num_chains: Annotated[int, at_least(2)]
    data_passes: tuple[float, ...]
    full_passes: Annotated[float, at_least(1)]
    num_draws: Annotated[int, at_least(2)]
    reference_steps: Annotated[int, at_least(2 * KEPT)]
    splits: tuple[int, ...]
    data_sets: tuple[str, ...]
    tuning_chains: Annotated[int, at_least(2)]
    step_sizes: tuple[float, ...]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.data_passes) != len(self.data_sets):
            raise ConfigError(
                f"full.data_passes must be one for each data set; got {self.data_passes}"
            )

    @property
    def named(self) -> dict[str, MethodConfig]:
        """The methods by their labels."""
        return methods_of(self.methods)

    def budget(self, label: str, name: str) -> Budget:
        """Return how long a method runs on a data set; each chain is a repeat."""
        passes = self.full_passes if label == FULL else self.data_passes[self.data_sets.index(name)]
        return Budget(passes, self.num_chains, num_draws=self.num_draws)


@functools.cache
def problem_of(name: str, split: int) -> Problem:
    """Return a data set, split and standardised."""
    train, test = datasets.standardise(*datasets.split(data_sets.load(name), 0.2, split))
    to_train, to_judge = (
        jax.tree.map(jnp.asarray, each.with_intercept().rows()) for each in (train, test)
    )
    start = jnp.zeros(to_train["x"].shape[1])
    return Problem(
        POSTERIOR, to_train, to_judge, start, {METRIC: metrics.log_likelihood(POSTERIOR)}
    )


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
    """Return how far a law of the log likelihood is from another by mean and sd, in units of its
    sd.
    """
    return abs(mean - of["mean"]) / of["sd"] + abs(float(np.log(sd / of["sd"])))


def tuned(
    method: MethodConfig, name: str, problem: Problem, goal: Numbers, settings: Settings
) -> float | None:
    """Return the step, of those that are tried, at which the last draws are nearest the
    posterior's.
    """
    budget = replace(
        settings.budget(method.label, name), num_repeats=settings.tuning_chains, num_draws=1
    )
    kernels: list[Kernel] = [kernel_of(method, POSTERIOR, step_size=h) for h in settings.step_sizes]
    far = []
    for samples in run(jax.random.key(3), stack(kernels), problem, budget):
        values = scores(samples, problem, budget)[METRIC][:, -1]
        far.append(distance(values.mean(), values.std(), goal))
    if not np.isfinite(far).any():
        return None
    return settings.step_sizes[int(np.nanargmin(far))]


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: tuned steps, on a fold of the first split; then each split of each
    data set.
    """
    named = settings.named

    def tuning(_: Parts) -> Numbers:
        found: dict[str, Any] = {}
        for name in settings.data_sets:
            problem = folds(problem_of(name, settings.splits[0]), FOLDS, seed=1, num_used=1)[0]
            goal = limit(problem, replace(settings, num_chains=settings.tuning_chains))
            found[name] = {
                label: tuned(method, name, problem, goal, settings)
                for label, method in named.items()
            }
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
            spent = sum(
                each.pop("evaluations") for which in steps for each in found[which].values()
            )
            return found | {"evaluations": spent + found["limit"].pop("evaluations")}

        return compute

    each = [(name, split) for name in settings.data_sets for split in settings.splits]
    return {"tuning": tuning} | {f"{name} {split}": on(name, split) for name, split in each}


STEPS = {"paper": "one step", "tuned": "tuned steps"}
BATCHES = ["SGHMC", "EWSG", "EWSG-VR"]
ARRIVED = 0.1
"""Of the way from its start to its end, as far as a mean is still off when it has converged."""


def sets_of(parts: Parts) -> dict[str, Numbers]:
    """Return the numbers of each split of each data set."""
    return {name: part for name, part in parts.items() if name != "tuning"}


def off(part: Numbers, which: str, label: str, of: str) -> float:
    """Return how far the last mean or sd is from that of the posterior, in its sds; ∞ where chains
    were lost.
    """
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
    """Return the claims that one method's mean and sd are nearer the posterior's than another's, at
    both steps.
    """
    found, sets = [], sets_of(parts).values()
    for which, name in STEPS.items():
        for of in ("mean", "sd"):
            both = [[off(part, which, label, of) for part in sets] for label in (first, second)]
            share = float(np.mean([a < b for a, b in zip(*both, strict=True)]))
            told = ", ".join(
                f"{x} {np.median(y):.3g}" for x, y in zip((first, second), both, strict=True)
            )
            words = (
                f"{first} predicts the {of} of the log likelihood better than {second}, at {name}"
            )
            found.append(
                Claim(
                    words, share, f"off by, in sds, medians: {told}", by_the_paper=which == "paper"
                )
            )
    return found


def later(parts: Parts, first: str, others: list[str], words: str) -> Claim:
    """Return the claim that one method takes more passes to converge than others, at one step."""
    sets = sets_of(parts).values()
    of = {label: [arrival(part, "paper", label) for part in sets] for label in (first, *others)}
    share = float(
        np.mean([a > max(b) for a, *b in zip(of[first], *(of[x] for x in others), strict=True)])
    )
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
    """Return beside it of which method the last positions are a sample of the posterior, by
    `check`.
    """
    sets, found = sets_of(parts).values(), []
    for which, name in STEPS.items():
        for label in next(iter(sets))[which]:
            runs = [part[which][label]["check"] for part in sets]
            worst = ", ".join(f"{run.get('sd_ratio', float('nan')):.3g}" for run in runs)
            share = float(np.mean([run["outcome"] != "wrong" for run in runs]))
            words = f"nothing wrong is found with the draws of {label}, at {name}"
            found.append(
                Claim(words, share, f"worst sd over the target's: {worst}", by_the_paper=False)
            )
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
    Settings,
    parts,
    claims,
    draw,
)
