"""Networks of one hidden layer, with and without variance reduction: Figures 3 and 4 of Li et al.

Batches of 10, anchors renewed every n/b steps; RMSE or mean log likelihood of held-out rows along
passes. Open in the paper: the prior's scale (1 here) and that of the noise (told by the
configuration), the grids, where chains start (as flax initialises layers), scaling (features and y
standardised), whether predictions are averaged (over some chains here). It prints no numbers.

Step and friction are those of a grid that are best on the rows to choose by, for all methods alike:
a step is c/√n with a momentum and c²/n without one, which moves as far by one gradient; a friction
g√n. All of a grid run at once.

The data of Li et al.'s networks: 70 % of the rows to train on, 10 % to choose by and 20 % to judge
by.

Where SUSY or YearPredictionMSD are not at hand, rows of like shape stand in for them: correlated
features, and a response that a random network of ten hidden units gives, with noise, or a class by
its sign.
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
from benchmarks.papers.annotations import Data
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Panel
from benchmarks.papers.networks import Network, Outputs, Perceptron, classes, numbers, start_of
from benchmarks.papers.predicting import (
    Budget,
    Problem,
    ends,
    has_friction,
    kernel_of,
    line,
    numbers_of,
    run,
    scores,
    short,
)
from ewsg_jax import stack
from ewsg_jax.cli.config import ConfigError, Count, MethodConfig, Positive, at_least, methods_of
from ewsg_jax.rows import all_rows

REGRESSION, CLASSIFICATION = ("protein", "music"), ("letter", "susy")
SOURCES = {"protein": "protein", "music": "year_prediction_msd", "letter": "letter", "susy": "susy"}
FEATURES = {"music": 90, "susy": 18}
SCORE = "score"


def posed(name: str, num_rows: int, noise_scale: float, seed: int = 0) -> tuple[Problem, Data, str]:
    """Return a data set's problem, rows to choose by, and where the rows are from.

    Args:
        name: of `SOURCES`.
        num_rows: of all three parts together; all where there are fewer.
        noise_scale: of y around the network's output, in standard deviations of y.
        seed: of which rows are where.
    """
    x, y, source = arrays(name, num_rows, seed)
    cuts = round(0.7 * len(x)), round(0.8 * len(x))
    x = (x - x[: cuts[0]].mean(0)) / np.maximum(x[: cuts[0]].std(0), 1e-6)
    is_regression = name in REGRESSION
    if is_regression:
        y = (y - y[: cuts[0]].mean()) / y[: cuts[0]].std()
    kind: Any = jnp.float32 if is_regression else jnp.int32
    train, choose, test = (
        {"x": jnp.asarray(part, jnp.float32), "y": jnp.asarray(of, kind)}
        for part, of in zip(np.split(x, cuts), np.split(y, cuts), strict=True)
    )
    network = network_of(name, x.shape[1])
    posterior = numbers(network, noise_scale) if is_regression else classes(network)
    judged = metrics.rmse(Outputs(network)) if is_regression else metrics.log_likelihood(posterior)
    return Problem(posterior, train, test, start_of(network), {SCORE: judged}), choose, source


def network_of(name: str, num_features: int) -> Network:
    """Return one hidden layer of 50 units, of 100 for SUSY; two classes have an output each."""
    outputs = {"letter": 26, "susy": 2}.get(name, 1)
    return Perceptron((num_features, 100 if name == "susy" else 50, outputs))


def arrays(name: str, num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return so many features and responses in random order, and where they are from."""
    rng = np.random.default_rng(seed)
    try:
        data = data_sets.load(SOURCES[name])
    except FileNotFoundError:
        if name not in FEATURES:
            raise
        return *stand_in(name, num_rows, rng), f"rows that stand in for {name}"
    chosen = rng.permutation(len(data.y))[:num_rows]
    return np.asarray(data.x[chosen], float), np.asarray(data.y[chosen], float), data.source


def stand_in(name: str, num_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the shape of a data set that is not at hand."""
    d = FEATURES[name]
    x = rng.standard_normal((num_rows, d)) @ (rng.standard_normal((d, d)) / d**0.5 + np.eye(d))
    hidden = np.maximum(x @ rng.standard_normal((d, 10)) / d**0.5, 0)
    y = hidden @ rng.standard_normal(10) + rng.standard_normal(num_rows)
    return x, y if name in REGRESSION else (y > np.median(y)).astype(float)


SIMILAR = 0.02
"""The part of a score by which another may be worse and yet no worse."""


@dataclass(frozen=True)
class Settings:
    """Data sets and most of their rows, how long, and the grid; of `checked` data sets the check is
    told.
    """

    data: tuple[str, ...]
    num_rows: Annotated[int, at_least(100)]
    noise_scale: Positive
    data_passes: float
    num_repeats: Count
    ensemble: Count
    steps: tuple[float, ...]
    frictions: tuple[float, ...]
    checked: tuple[str, ...] = ()
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.data or set(self.data) - set(SOURCES):
            raise ConfigError(
                f"full.data must be some of {', '.join(SOURCES)}; got {list(self.data)}"
            )

    @property
    def named(self) -> dict[str, MethodConfig]:
        """The methods by their labels; steps and frictions are found for them."""
        return methods_of(self.methods, step_size=1.0, friction=1.0)


def grid(method: MethodConfig, settings: Settings, n: int) -> list[dict[str, float]]:
    """Return the options of a method that are tried, for n rows."""
    if not has_friction(method.name):
        return [{"step_size": c * c / n} for c in settings.steps]
    return [
        {"step_size": c / n**0.5, "friction": g * n**0.5}
        for c in settings.steps
        for g in settings.frictions
    ]


def of_method(name: str, label: str, settings: Settings, _: Parts) -> Numbers:
    """Return a method's curve on a data set, at the options that are best on the rows
    to choose by.
    """
    problem, choose, source = posed(name, settings.num_rows, settings.noise_scale)
    method = settings.named[label]
    budget = Budget(settings.data_passes, settings.num_repeats, settings.ensemble)
    options = grid(method, settings, all_rows(problem.train))
    kernels = [kernel_of(method, problem.posterior, **each) for each in options]
    key = jax.random.key(0)
    runs = list(run(key, stack(kernels), problem, budget))
    sign = 1.0 if name in REGRESSION else -1.0
    lasts = [
        scores(samples, replace(problem, test=choose), budget)[SCORE][:, -1].mean()
        for samples in runs
    ]
    best = int(np.argmin([sign * x if np.isfinite(x) else np.inf for x in lasts]))
    told = numbers_of(key, runs[best], problem, budget, name in settings.checked)
    return told | {
        "data": name,
        "label": label,
        "source": source,
        "rows": all_rows(problem.train),
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
    """Return the claim that a method's last scores are better, or worse by no more than a part of
    them.
    """
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
