"""Logistic regression on Covertype: Table 1 and Figure 2 of Li, Wang, Zha & Tao (section 5.2).

V(θ) = ‖θ‖²/2s² − Σᵢ log p(yᵢ | xᵢ, θ), n = 464,809, one pass in batches of 50; 100 chains predict together. What
the paper leaves open is told in the configuration. FlyMC is run for as many steps of 50 rows as make n: its bright
rows come on top, and the sums of its bound take two passes before the first step.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import datasets, models
from ewsg_jax._types import Data
from ewsg_jax.experiments.config import Method, method_of
from ewsg_jax.experiments.tables import ConfigError, above_zero, at_least
from ewsg_jax.reproduction import metrics
from ewsg_jax.reproduction.experiment import Numbers, Parts
from ewsg_jax.reproduction.figures import numbers
from ewsg_jax.reproduction.judging import scores, short
from ewsg_jax.reproduction.predicting import kernel_of, measured
from ewsg_jax.reproduction.problem import Budget, Problem
from ewsg_jax.reproduction.tuning import folds, tuned
from ewsg_jax.sampling import sample

DIMENSION, TEST_FRACTION, PASSES = 54, 0.2, 1.0
ACCURACY, LOG_LIKELIHOOD = "accuracy", "log_likelihood"
FLYMC = "flymc"
FOLDS = 5


@dataclass(frozen=True)
class Settings:
    """Repeats of so many chains, the prior's variances, steps that are tried in tuning, and FlyMC's run."""

    num_repeats: int
    ensemble: int
    num_draws: int
    prior_variances: tuple[float, ...]
    tuning_chains: int
    step_sizes: tuple[float, ...]
    flymc_chains: int
    flymc_steps: int
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        at_least(
            "full", self, num_repeats=1, ensemble=1, num_draws=1, tuning_chains=1, flymc_chains=1, flymc_steps=50
        )
        for variance in self.prior_variances:
            above_zero("full.prior_variances", variance)
        if FLYMC not in {each.name for each in self.named.values()}:
            raise ConfigError("methods must hold one of the name 'flymc'")

    @property
    def named(self) -> dict[str, Method]:
        """The methods by their labels."""
        return {each.label: each for each in (method_of(table, i) for i, table in enumerate(self.methods, 1))}

    @property
    def by_batches(self) -> dict[str, Method]:
        """All methods but FlyMC."""
        return {label: each for label, each in self.named.items() if each.name != FLYMC}


@functools.cache
def rows() -> tuple[Data, Data]:
    """Return standardised rows to train on and rows to judge by."""
    parts = datasets.split(datasets.covertype(), TEST_FRACTION, 0)
    train, test = datasets.standardise(*parts)
    return jax.tree.map(jnp.asarray, train.rows()), jax.tree.map(jnp.asarray, test.rows())


def problem_of(variance: float, train: Data, test: Data) -> Problem:
    """Return the problem with a prior of a variance."""
    posterior = models.logistic_regression(prior_scale=variance**0.5)
    judged = {ACCURACY: metrics.accuracy(posterior), LOG_LIKELIHOOD: metrics.log_likelihood(posterior)}
    return Problem(posterior, train, test, jnp.zeros(train["x"].shape[1]), judged)


def firefly(problem: Problem, method: Method, settings: Settings) -> Numbers:
    """Return FlyMC's numbers, each chain a repeat, against steps times the rows that are drawn anew."""
    kernel, chains = kernel_of(method, problem.posterior), settings.flymc_chains
    samples = sample(
        jax.random.key(1),
        kernel,
        problem.start,
        problem.train,
        settings.flymc_steps,
        num_chains=chains,
        thin=max(1, settings.flymc_steps // 50),
    )
    n, anew = samples.num_data, method.options["num_resampled"]
    first = float(kernel.evaluations(problem.train).at_init)
    spent = samples.gradient_evaluations / chains - first
    told: Numbers = {
        "passes": short(samples.step * anew / n),
        "counted_passes": short(samples.evaluations / n),
        "passes_at_start": short(first / n),
        "per_step": short(spent / samples.num_steps),
        "acceptance": short(samples.acceptance.mean()),
        "overflow": int(samples.overflow.max()),
        "steps": samples.num_steps,
        "steps_of_a_pass": n // anew,
        "seconds_per_step": short(samples.run_seconds / samples.num_steps / chains),
        "evaluations": int(samples.gradient_evaluations),
    }
    for name, values in scores(samples, problem, Budget(PASSES, chains)).items():
        told[name] = {"mean": short(values.mean(0)), "sd": short(values.std(0)), "last": short(values[:, -1])}
    return told


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: tuned steps, all methods under each prior at both steps, and FlyMC."""
    named = settings.by_batches
    first = settings.prior_variances[0]
    budget = Budget(PASSES, settings.num_repeats, settings.ensemble, settings.num_draws)

    def tuning(_: Parts) -> Numbers:
        problems = folds(problem_of(first, *rows()), FOLDS, seed=0, num_used=1)
        candidates = [{"step_size": h} for h in settings.step_sizes]
        short_run = replace(budget, num_repeats=1, ensemble=settings.tuning_chains, num_draws=1)
        found = {
            label: tuned(jax.random.key(0), method, problems, candidates, short_run, LOG_LIKELIHOOD)
            for label, method in named.items()
        }
        spent = sum(each.pop("evaluations") for each in found.values())
        return {"found": found, "step_sizes": settings.step_sizes, "evaluations": spent}

    def under(variance: float) -> Callable[[Parts], Numbers]:
        def compute(done: Parts) -> Numbers:
            problem = problem_of(variance, *rows())
            steps: dict[str, Any] = {"paper": {label: {} for label in named}}
            steps["tuned"] = {label: each["best"] for label, each in done["tuning"]["found"].items()}
            found: dict[str, Any] = {
                which: {
                    label: measured(
                        jax.random.fold_in(jax.random.key(1), number),
                        kernel_of(method, problem.posterior, **(of[label] or {})),
                        problem,
                        budget,
                    )
                    for number, (label, method) in enumerate(named.items())
                }
                for which, of in steps.items()
            }
            spent = sum(each.pop("evaluations") for of in found.values() for each in of.values())
            return found | {"evaluations": spent}

        return compute

    def flymc(_: Parts) -> Numbers:
        label, method = next(each for each in settings.named.items() if each[1].name == FLYMC)
        published = {x: vars(each.published) for x, each in settings.named.items() if each.published}
        beside = {"label": label, "published": published, "chains_of_others": budget.num_chains}
        return firefly(problem_of(first, *rows()), method, settings) | beside

    of_priors = {f"prior variance {variance:g}": under(variance) for variance in settings.prior_variances}
    return {"tuning": tuning} | of_priors | {"FlyMC": flymc}


def last(parts: Parts, which: str, label: str, metric: str) -> np.ndarray:
    """Return a metric of all repeats under all priors, NaN where a chain was lost."""
    sets = [part for name, part in parts.items() if name.startswith("prior")]
    return numbers([x for each in sets for x in each[which][label][metric]["last"]])
