"""Logistic regression on Covertype: Table 1 and Figure 2 of Li, Wang, Zha & Tao (section 5.2).

V(θ) = ‖θ‖²/2s² − Σᵢ log p(yᵢ | xᵢ, θ), n = 464,809, one pass in batches of 50; 100 chains predict
together. What the paper leaves open is told in the configuration. FlyMC is run for as many steps of
50 rows as make n: its bright rows come on top, and the sums of its bound take two passes before the
first step.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import metrics
from benchmarks.papers.annotations import Data
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel, numbers
from benchmarks.papers.predicting import (
    Budget,
    Problem,
    folds,
    kernel_of,
    measured,
    scores,
    short,
    tuned,
)
from ewsg_jax import datasets, models, sample
from ewsg_jax.cli.config import ConfigError, Count, MethodConfig, Positive, at_least, methods_of

DIMENSION, TEST_FRACTION, PASSES = 54, 0.2, 1.0
ACCURACY, LOG_LIKELIHOOD = "accuracy", "log_likelihood"
FLYMC = "flymc"
FOLDS = 5


@dataclass(frozen=True)
class Settings:
    """Repeats of so many chains, the prior's variances, steps that are tried in tuning, and FlyMC's
    run.
    """

    num_repeats: Count
    ensemble: Count
    num_draws: Count
    prior_variances: tuple[Positive, ...]
    tuning_chains: Count
    step_sizes: tuple[float, ...]
    flymc_chains: Count
    flymc_steps: Annotated[int, at_least(50)]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        if FLYMC not in {each.name for each in self.named.values()}:
            raise ConfigError("methods must hold one of the name 'flymc'")

    @property
    def named(self) -> dict[str, MethodConfig]:
        """The methods by their labels."""
        return methods_of(
            {key: value for key, value in table.items() if key != "published"}
            for table in self.methods
        )

    @property
    def published(self) -> dict[str, dict[str, float]]:
        """The paper's numbers, by the methods' labels."""
        return {each["label"]: each["published"] for each in self.methods if "published" in each}

    @property
    def by_batches(self) -> dict[str, MethodConfig]:
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
    judged = {
        ACCURACY: metrics.accuracy(posterior),
        LOG_LIKELIHOOD: metrics.log_likelihood(posterior),
    }
    return Problem(posterior, train, test, jnp.zeros(train["x"].shape[1]), judged)


def firefly(problem: Problem, method: MethodConfig, settings: Settings) -> Numbers:
    """Return FlyMC's numbers, each chain a repeat, against steps times the rows that are drawn
    anew.
    """
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
        told[name] = {
            "mean": short(values.mean(0)),
            "sd": short(values.std(0)),
            "last": short(values[:, -1]),
        }
    return told


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: tuned steps, all methods under each prior at both steps,
    and FlyMC.
    """
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
            steps["tuned"] = {
                label: each["best"] for label, each in done["tuning"]["found"].items()
            }
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
        beside = {
            "label": label,
            "published": settings.published,
            "chains_of_others": budget.num_chains,
        }
        return firefly(problem_of(first, *rows()), method, settings) | beside

    of_priors = {
        f"prior variance {variance:g}": under(variance) for variance in settings.prior_variances
    }
    return {"tuning": tuning} | of_priors | {"FlyMC": flymc}


def last(parts: Parts, which: str, label: str, metric: str) -> np.ndarray:
    """Return a metric of all repeats under all priors, NaN where a chain was lost."""
    sets = [part for name, part in parts.items() if name.startswith("prior")]
    return numbers([x for each in sets for x in each[which][label][metric]["last"]])


STEPS = {"paper": "the paper's steps", "tuned": "tuned steps"}
COMPARABLE = 0.002
"""How far log likelihoods that the paper calls comparable may be apart: its own are equal to three
digits.
"""
ORDERS = 10.0
"""Of magnitude: how many times at least the time of FlyMC is EWSG's."""
SLIGHT = 1.5
"""How many times the time of SGLD and SGHMC that of EWSG is at most, where it is slightly more;
paper: 1.2.
"""


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
        found.append(
            Claim(f"EWSG has the {words}, at {name}", share, shown, by_the_paper=which == "paper")
        )
    return found


def against_flymc(parts: Parts) -> list[Claim]:
    """Return what the paper says of EWSG and FlyMC, after as many steps of 50 rows as
    make a pass.
    """
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
            f"{spelled(parts, 'paper', 'EWSG', metric)}, FlyMC {unit * other:.{digits}g} after "
            f"{fly['steps']} steps of {fly['steps_of_a_pass']} (paper "
            f"{fly['published']['FlyMC'][metric]:g})"
        )
        found.append(Claim(f"EWSG {words}", float(np.mean(is_so)), shown))
    return found


def times(parts: Parts) -> list[Claim]:
    """Return what the paper says of the time of a pass: of each chain, when they run
    side by side.
    """
    sets = [part["paper"] for name, part in parts.items() if name.startswith("prior")]
    seconds = {label: np.array([each[label]["seconds"] for each in sets]) for label in sets[0]}
    slower = np.maximum(seconds["SGLD"], seconds["SGHMC"])
    told = ", ".join(f"{label} {x.mean():.3g} s" for label, x in seconds.items())
    fly = parts["FlyMC"]
    whole = fly["seconds_per_step"] * fly["steps_of_a_pass"]
    per_chain = float(np.mean(seconds["EWSG"]) / fly["chains_of_others"])
    beyond = (
        f"FlyMC {whole:.3g} s for a chain's {fly['steps_of_a_pass']} steps, {fly['per_step']:.0f} "
        f"rows a step, after {fly['passes_at_start']:.2g} passes for its bound; EWSG "
        f"{per_chain:.3g} s for a chain's pass"
    )
    return [
        Claim(
            "EWSG takes slightly longer than SGLD and SGHMC",
            float(np.mean(seconds["EWSG"] <= SLIGHT * slower)),
            f"{told} for all chains side by side (paper 3.085, 4.312, 3.145, 3.755 s)",
        ),
        Claim(
            "EWSG takes less time than pSGLD",
            float(np.mean(seconds["EWSG"] < seconds["pSGLD"])),
            told,
        ),
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
    """Return beside it whether draws are a sample of the posterior, by what `check` finds of each
    run.
    """
    found = []
    for which, name in STEPS.items():
        runs: list[Any] = [
            x for key, part in parts.items() if key.startswith("prior") for x in part[which].items()
        ]
        told = ", ".join(
            f"{label} {run['check']['outcome']}"
            + (f" (sds {run['check']['sd_ratio']:.2g} times)" if "sd_ratio" in run["check"] else "")
            for label, run in runs
        )
        share = float(np.mean([run["check"]["outcome"] == "right" for _, run in runs]))
        found.append(
            Claim(
                f"draws after one pass are of the posterior, at {name}",
                share,
                told,
                by_the_paper=False,
            )
        )
    return found


def draw(parts: Parts) -> list[Panel]:
    """Draw accuracy and log likelihood along the pass under the first prior, as Figure 2, and at
    tuned steps.
    """
    of_prior = next(part for name, part in parts.items() if name.startswith("prior"))
    shown = []
    for which, metric in (
        ("paper", ACCURACY),
        ("paper", LOG_LIKELIHOOD),
        ("tuned", LOG_LIKELIHOOD),
    ):
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
    Settings,
    parts,
    claims,
    draw,
)
