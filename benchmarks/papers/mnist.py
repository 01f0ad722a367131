"""Networks of MNIST: Figures 3a and 3b and Table 2 of Li, Wang, Zha & Tao.

A perceptron of 100 hidden units, and two convolutions with pooling and two dense layers of 200
units; all weights have the prior N(0, 1). Left open there: the activation (ReLU here), where chains
start (as flax initialises layers), the scale of pixels (0 to 1), pSGLD's numbers (those of section
5.1), the unit of steps (`digits`). What is cut of 60,000 rows, 200 passes, 100 draws and 10
repeats, the configurations say.

All factors of a method's step run at once; rows that are held out of the training set choose one
for each method, by the error after all passes.

MNIST for networks: rows of digits, and the unit in which the paper's steps are read.

The paper does not tell the unit. Steps of underdamped methods are read as of the gradient of the
*mean* over rows: with time in units of √n they are h/√n, of friction γ√n, here. Then the drift by
one gradient of the mean, h/γ, is 0.02 for SGHMC on dense layers, next to SGLD's. Read as of the
gradient of the *sum*, as elsewhere in the paper, it is h n/γ = 1,200: networks are not trained,
which is shown beside. SGLD's steps are of the sum, where 60,000 h is 0.006 and more than nothing;
pSGLD's are moves by a gradient of the mean over its own size, as for n rows of h/n. With another
number of rows than the 60,000 the moves by gradients of the mean stay what they are.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import data_sets
from benchmarks.papers import metrics
from benchmarks.papers.annotations import Array, Data
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Panel
from benchmarks.papers.networks import (
    Convolutional,
    LogProbabilities,
    Network,
    Perceptron,
    classes,
    start_of,
)
from benchmarks.papers.predicting import (
    Budget,
    Curves,
    Problem,
    better,
    ends,
    has_friction,
    kernel_of,
    line,
    numbers_of,
    run,
    scores,
    short,
)
from ewsg_jax import Samples, cluster, stack
from ewsg_jax.cli.config import ConfigError, Count, MethodConfig, at_least, method_of

NUM_TRAINING, SIDE, CLUSTERS = 60_000, 28, 10
"""Rows of MNIST's training set, of which the first are; pixels; k of k-means for CP-SGHMC."""
OF_MEAN, OF_SUM = 1, NUM_TRAINING
"""Of how many rows the gradients are that underdamped steps go with: of the mean, or of the paper's
sum.
"""
UNTRAINED = 0.5
"""An error from which on a network has learned next to nothing, and is better than none."""


@dataclass(frozen=True, kw_only=True)
class DigitSettings:
    """Rows to train on, to choose by and to judge by; hidden layers; how long; factors of the step;
    which rows.

    `sum_passes` is how long methods run at steps that are read as of gradients of the sum.
    """

    num_rows: Annotated[int, at_least(10)]
    num_validation: Count
    num_test: Count
    hidden: tuple[int, ...]
    data_passes: float
    sum_passes: float
    num_repeats: Count
    ensemble: Count
    factors: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        if 1.0 not in self.factors:
            raise ConfigError(
                f"full.factors must hold 1, the paper's step; got {list(self.factors)}"
            )

    @property
    def budget(self) -> Budget:
        """How long all run, with 20 draws along the way."""
        return Budget(self.data_passes, self.num_repeats, self.ensemble)

    @property
    def short_budget(self) -> Budget:
        """How long methods run at steps of the sum, a chain a repeat."""
        return Budget(self.sum_passes, self.num_repeats)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows to train on, to choose by and to judge by."""
        return self.num_rows, self.num_validation, self.num_test


def network_of(hidden: tuple[int, ...], channels: tuple[int, ...], shrink: int) -> Network:
    """Return a network of digits: dense where there are no channels; `shrink` pixels of a side are
    made one.
    """
    side = SIDE // shrink
    if channels:
        return Convolutional(side, (channels[0], channels[1]), (*hidden, 10))
    return Perceptron((side * side, *hidden, 10))


def problems(
    network: Network, sizes: tuple[int, int, int], shrink: int, seed: int, clusters: bool = False
) -> tuple[Problem, Data, Data]:
    """Return a problem whose rows to judge by are of the test set, and rows of validation and of
    training.

    Args:
        network: of `network_of`.
        sizes: rows to train on, to choose by and to judge by; the second are others of the training
            set.
        shrink: pixels of a side that are made one.
        seed: of which rows.
        clusters: whether each row has the number of its cluster, `"stratum"`.
    """
    digits, rng = data_sets.load("mnist"), np.random.default_rng(seed)
    of_training = rng.permutation(NUM_TRAINING)
    cuts = of_training[: sizes[0]], of_training[sizes[0] : sizes[0] + sizes[1]]
    tests = NUM_TRAINING + rng.permutation(len(digits.y) - NUM_TRAINING)[: sizes[2]]

    def rows(chosen: np.ndarray) -> dict[str, Array]:
        side = SIDE // shrink
        pixels = (
            digits.x[chosen]
            .reshape(-1, side, shrink, side, shrink)
            .mean((2, 4))
            .reshape(len(chosen), -1)
        )
        return {
            "x": jnp.asarray(pixels / 255, jnp.float32),
            "y": jnp.asarray(digits.y[chosen], jnp.int32),
        }

    train = rows(cuts[0])
    if clusters:
        train["stratum"] = cluster(train, CLUSTERS, features="x", seed=seed)
    error = {"error": metrics.error_rate(LogProbabilities(network))}
    return (
        Problem(classes(network), train, rows(tests), start_of(network), error),
        rows(cuts[1]),
        train,
    )


def in_unit(step: float, friction: float, num_rows: int, of: int = OF_MEAN) -> dict[str, float]:
    """Return an underdamped step and friction that go with gradients of so many rows, for the sum
    over `num_rows`.

    The moves by a gradient of the mean, and what a step leaves of the momentum, stay.

    Example:
        >>> in_unit(0.02, 3.0, 100)
        {'step_size': 0.002, 'friction': 30.0}
    """
    unit = (num_rows / of) ** 0.5
    return {"step_size": step / unit, "friction": friction * unit}


def options_of(
    method: MethodConfig, num_rows: int, factor: float = 1.0, of: int = OF_MEAN
) -> dict[str, Any]:
    """Return the options of a method's kernel for so many rows, at a factor times the printed step.

    Args:
        method: with the printed step and friction.
        num_rows: n.
        factor: of the step.
        of: the unit of underdamped steps, `OF_MEAN` or `OF_SUM`.
    """
    options, step = dict(method.options), factor * float(method.options["step_size"])
    # Strata are those of the rows.
    options |= {"labels": "stratum", "num_strata": CLUSTERS} if method.name == "cp_sghmc" else {}
    if method.name == "psgld":
        return options | {"step_size": step / num_rows}
    if not has_friction(method.name):
        return options | {"step_size": step * OF_SUM / num_rows}
    return options | in_unit(step, float(method.options["friction"]), num_rows, of)


def for_rows(problem: Problem, rows: Data) -> Problem:
    """Return the problem, judged by these rows."""
    return replace(problem, test={name: rows[name] for name in ("x", "y")})


def trained(sets: Sequence[Curves], words: str) -> Claim:
    """Return the claim, beside the paper's, that networks are trained: test errors of all methods,
    run by run.
    """
    errors = np.concatenate([ends([each], label, "error") for each in sets for label in each])
    shown = (
        f"{(errors < UNTRAINED).sum()} of {len(errors)} runs; from {errors.min():.3g} to "
        f"{errors.max():.3g}"
    )
    words = f"networks are trained at {words}: test errors are below {UNTRAINED:.0%}"
    return Claim(words, float((errors < UNTRAINED).mean()), shown, by_the_paper=False)


def best_of(runs: Sequence[Samples], problem: Problem, rows: Data, budget: Budget) -> int:
    """Return which of several runs errs least on rows to choose by, as a mean over repeats; never a
    lost one.
    """
    judged = for_rows(problem, rows)
    lasts = [scores(samples, judged, budget)["error"][:, -1].mean() for samples in runs]
    return int(np.argmin([x if np.isfinite(x) else np.inf for x in lasts]))


STEPS = {"paper": "the paper's steps", "tuned": "tuned steps"}
OTHERS = ("SGHMC", "CP-SGHMC", "SGLD", "pSGLD")


@dataclass(frozen=True, kw_only=True)
class Settings(DigitSettings):
    """The network's batches, pixels and channels; of the draws of `checked` methods the check is
    told.
    """

    batch_size: Annotated[int, at_least(10)]
    shrink: int = 1
    channels: tuple[int, ...] = ()
    checked: tuple[str, ...] = ()
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shrink not in (1, 2, 4):
            raise ConfigError(f"full.shrink must be 1, 2 or 4; got {self.shrink}")
        if len(self.channels) not in (0, 2):
            raise ConfigError(
                f"full.channels must be two numbers or none; got {list(self.channels)}"
            )

    @property
    def named(self) -> dict[str, tuple[MethodConfig, float]]:
        """The methods by their labels, with the test error in per cent that the paper has."""
        found = {}
        for number, table in enumerate(self.methods, 1):
            own: dict[str, Any] = dict(table)
            printed = own.pop("printed", None)
            if not isinstance(printed, float):
                raise ConfigError(
                    f"methods[{number}].printed must be the paper's test error in per cent"
                )
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
    problem, validation, training = problems(
        network, settings.sizes, settings.shrink, settings.seed, strata
    )
    options = [options_of(method, settings.num_rows, factor) for factor in settings.factors]
    kernels = [kernel_of(method, problem.posterior, **each) for each in options]
    key, budget = jax.random.key(settings.seed), settings.budget
    all_samples = list(run(key, stack(kernels), problem, budget))
    places = {
        "paper": settings.factors.index(1.0),
        "tuned": best_of(all_samples, problem, validation, budget),
    }
    found: dict[str, Any] = {
        "label": label,
        "printed": printed,
        "factor": settings.factors[places["tuned"]],
    }
    found["steps"] = {which: short(options[place]["step_size"]) for which, place in places.items()}
    # As many rows to train on as to judge by, which one program serves.
    part = {name: values[: settings.num_test] for name, values in training.items()}
    for which, place in places.items():
        samples = all_samples[place]
        found[which] = numbers_of(
            key, samples, problem, budget, which == "tuned" and label in settings.checked
        )
        along = scores(samples, for_rows(problem, part), budget)["error"]
        found[which]["training"] = {"mean": short(along.mean(0)), "last": short(along[:, -1])}
    if has_friction(method.name):
        of_sum = kernel_of(
            method, problem.posterior, **options_of(method, settings.num_rows, of=OF_SUM)
        )
        all_samples.append(run(key, of_sum, problem, settings.short_budget))
        found["of_sum"] = numbers_of(
            key, all_samples[-1], problem, settings.short_budget, judged=False
        )
    spent = sum(int(samples.gradient_evaluations) for samples in all_samples)
    return found | {"evaluations": spent}


def parts(settings: Settings) -> Mapping[str, Callable[[Parts], Numbers]]:
    """Return what is computed: each method."""
    return {label: functools.partial(of_method, label, settings) for label in settings.named}


def claims(parts: Parts) -> list[Claim]:
    """Judge training and test errors after equal passes; one of a half or more is less
    than none.
    """
    found = []
    for which, steps in STEPS.items():
        curves = {label: part[which] for label, part in parts.items()}
        for metric, name in (("training", "training error"), ("error", "test error")):
            for other in OTHERS:
                printed = [parts[label]["printed"] for label in ("EWSG", other)]
                beside = (
                    f" (the paper: {printed[0]:g} and {printed[1]:g} %)"
                    if metric == "error"
                    else ""
                )
                words = (
                    f"EWSG's {name} is less than {other}'s after equal passes, at {steps}{beside}"
                )
                by_the_paper = which == "paper"
                found.append(
                    better(
                        [curves],
                        "EWSG",
                        other,
                        metric,
                        words,
                        below=UNTRAINED,
                        by_the_paper=by_the_paper,
                    )
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
