"""Networks of MNIST: Figures 3a and 3b and Table 2 of Li, Wang, Zha & Tao.

A perceptron of 100 hidden units, and two convolutions with pooling and two dense layers of 200 units; all weights
have the prior N(0, 1). Left open there: the activation (ReLU here), where chains start (as flax initialises
layers), the scale of pixels (0 to 1), pSGLD's numbers (those of section 5.1), the unit of steps (`digits`). What is
cut of 60,000 rows, 200 passes, 100 draws and 10 repeats, the configurations say.

All factors of a method's step run at once; rows that are held out of the training set choose one for each method,
by the error after all passes.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from ewsg_jax.experiments.config import Method, method_of
from ewsg_jax.experiments.tables import ConfigError, at_least
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.compared import better, line
from ewsg_jax.reproduction.digits import (
    OF_SUM,
    UNTRAINED,
    DigitSettings,
    best_of,
    for_rows,
    is_underdamped,
    network_of,
    options_of,
    problems,
    trained,
)
from ewsg_jax.reproduction.experiment import Experiment, Numbers, Parts
from ewsg_jax.reproduction.figures import Panel
from ewsg_jax.reproduction.judging import scores, short
from ewsg_jax.reproduction.predicting import kernel_of, numbers_of, run
from ewsg_jax.stacking import stack

STEPS = {"paper": "the paper's steps", "tuned": "tuned steps"}
OTHERS = ("SGHMC", "CP-SGHMC", "SGLD", "pSGLD")


@dataclass(frozen=True, kw_only=True)
class Settings(DigitSettings):
    """The network's batches, pixels and channels; of the draws of `checked` methods the check is told."""

    batch_size: int
    shrink: int = 1
    channels: tuple[int, ...] = ()
    checked: tuple[str, ...] = ()
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("full", self, batch_size=10)
        if self.shrink not in (1, 2, 4):
            raise ConfigError(f"full.shrink must be 1, 2 or 4; got {self.shrink}")
        if len(self.channels) not in (0, 2):
            raise ConfigError(f"full.channels must be two numbers or none; got {list(self.channels)}")

    @property
    def named(self) -> dict[str, tuple[Method, float]]:
        """The methods by their labels, with the test error in per cent that the paper has."""
        found = {}
        for number, table in enumerate(self.methods, 1):
            own: dict[str, Any] = dict(table)
            printed = own.pop("printed", None)
            if not isinstance(printed, float):
                raise ConfigError(f"methods[{number}].printed must be the paper's test error in per cent")
            # What follows from the rows is put in its place later.
            strata = {"labels": "", "num_strata": 1} if own.get("name") == "cp_sghmc" else {}
            method = method_of(own | strata | {"batch_size": self.batch_size}, number)
            found[method.label] = method, printed
        return found


def of_method(label: str, settings: Settings, _: Parts) -> Numbers:
    """Return a method's curves at the paper's step and at the one of the factors that is chosen."""
    method, printed = settings.named[label]
    network = network_of(settings.hidden, settings.channels, settings.shrink)
    strata = method.name == "cp_sghmc"
    problem, validation, training = problems(network, settings.sizes, settings.shrink, settings.seed, strata)
    options = [options_of(method, settings.num_rows, factor) for factor in settings.factors]
    kernels = [kernel_of(method, problem.posterior, **each) for each in options]
    key, budget = jax.random.key(settings.seed), settings.budget
    all_samples = list(run(key, stack(kernels), problem, budget))
    places = {
        "paper": settings.factors.index(1.0),
        "tuned": best_of(all_samples, problem, validation, budget),
    }
    found: dict[str, Any] = {"label": label, "printed": printed, "factor": settings.factors[places["tuned"]]}
    found["steps"] = {which: short(options[place]["step_size"]) for which, place in places.items()}
    # As many rows to train on as to judge by, which one program serves.
    part = {name: values[: settings.num_test] for name, values in training.items()}
    for which, place in places.items():
        samples = all_samples[place]
        found[which] = numbers_of(key, samples, problem, budget, which == "tuned" and label in settings.checked)
        along = scores(samples, for_rows(problem, part), budget)["error"]
        found[which]["training"] = {"mean": short(along.mean(0)), "last": short(along[:, -1])}
    if is_underdamped(method):
        of_sum = kernel_of(method, problem.posterior, **options_of(method, settings.num_rows, of=OF_SUM))
        all_samples.append(run(key, of_sum, problem, settings.short_budget))
        found["of_sum"] = numbers_of(key, all_samples[-1], problem, settings.short_budget, judged=False)
    spent = sum(int(samples.gradient_evaluations) for samples in all_samples)
    return found | {"evaluations": spent}


def parts(settings: Settings) -> Mapping[str, Callable[[Parts], Numbers]]:
    """Return what is computed: each method."""
    return {label: functools.partial(of_method, label, settings) for label in settings.named}


def claims(parts: Parts) -> list[Claim]:
    """Judge training and test errors after equal passes; one of a half or more is less than none."""
    found = []
    for which, steps in STEPS.items():
        curves = {label: part[which] for label, part in parts.items()}
        for metric, name in (("training", "training error"), ("error", "test error")):
            for other in OTHERS:
                printed = [parts[label]["printed"] for label in ("EWSG", other)]
                beside = f" (the paper: {printed[0]:g} and {printed[1]:g} %)" if metric == "error" else ""
                words = f"EWSG's {name} is less than {other}'s after equal passes, at {steps}{beside}"
                by_the_paper = which == "paper"
                found.append(
                    better([curves], "EWSG", other, metric, words, below=UNTRAINED, by_the_paper=by_the_paper)
                )
    of_sum = {label: part["of_sum"] for label, part in parts.items() if "of_sum" in part}
    return [*found, trained([of_sum], "the paper's steps read as of gradients of the sum")]


def draw(parts: Parts) -> list[Panel]:
    """Draw training and test errors along passes, at both steps."""
    shown = []
    for metric, name in (("training", "training error"), ("error", "test error")):
        lines = []
        for which in STEPS:
            for label, part in parts.items():
                curves = {label: part[which]}
                mark = f"{label} (dashed: × {part['factor']:g})" if which == "paper" else ""
                lines.append(line([curves], label, metric, mark, is_dashed=which == "tuned"))
        shown.append(Panel(name, "passes over the data", "share of rows", lines, (False, True)))
    return shown


EXPERIMENTS = tuple(
    Experiment(
        f"mnist-{name}",
        f"Li, Wang, Zha & Tao, Fig. {figure} and Table 2",
        f"how well five methods train a network of {kind}",
        Settings,
        parts,
        claims,
        draw,
    )
    for name, figure, kind in (("mlp", "3a", "dense layers"), ("cnn", "3b", "convolutions"))
)
