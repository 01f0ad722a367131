"""Matrix factorisation, with stable noise and distributed: Tables 2 and 3 of the supplement of
Şimşekli et al.

The tables give steps and numbers of each method; model and data are in a paper that is not at hand.
Chosen here: xᵢⱼ = wᵢᵀ vⱼ + noise at random entries of a square matrix of low rank, drawn from the
prior N(0, I) of the factors; symmetric stable noise around the product (`stable`: a mixture of
normal laws in the place of an augmentation); RMSE at entries that are held out, without noise, of
the mean product of some chains. The distributed variant moves the factors in parallel, each with a
matrix of its own (`blockwise`); its noise is normal, its steps constant.

The posterior is the same for all rotations of the factors: chains that are each near one of them
are no draws of it, which `check` says, whatever they predict.

Symmetric stable noise, of the characteristic function exp(−|s t|^α), as a mixture of normal laws.

It is √(2φ) s times a standard normal number, φ positive and (α/2)-stable. Where samplers of the
field draw a φ for every datum, here φ is summed over: as many values as are wanted, evenly spaced
on a logarithmic scale, each with the probability of its cell by Kanter's formula. So the likelihood
has a gradient, and no datum has a parameter of its own.

Matrix factorisation: xᵢⱼ = wᵢᵀ vⱼ + noise at the entries that are seen, wᵢ, vⱼ ~ N(0, I).

Synthetic matrices stand in for those of the paper, MovieLens among them, which
`benchmarks.data_sets.movielens` reads.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import metrics
from benchmarks.papers.annotations import Array, Data, Key
from benchmarks.papers.blockwise import blockwise
from benchmarks.papers.decreasing import POWER, kernels
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Panel
from benchmarks.papers.networks import NormalPrior
from benchmarks.papers.predicting import Budget, Problem, better, ends, line, numbers_of, run
from ewsg_jax import Posterior, Samples, kernel, stack
from ewsg_jax.cli.config import ConfigError, Count, MethodConfig, at_least, method_of

RARE = 1e-6
"""Probability that is left out beyond either end of the values."""


def positive_stable_cdf(values: np.ndarray, index: float, num_angles: int = 4000) -> np.ndarray:
    """Return P(φ ≤ x) of the positive stable law E exp(−tφ) = exp(−t^a), 0 < a < 1
    (Kanter 1975).
    """
    angle = (np.arange(num_angles) + 0.5) * np.pi / num_angles
    a = index
    slow = (
        np.sin(a * angle) ** (a / (1 - a))
        * np.sin((1 - a) * angle)
        / np.sin(angle) ** (1 / (1 - a))
    )
    return np.exp(-slow * np.asarray(values)[:, None] ** (-a / (1 - a))).mean(1)


@functools.cache
def mixture(alpha: float, num_values: int = 48) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return weights and variances of normal laws whose mixture is the stable law of unit scale, 0
    < α < 2.
    """
    wide = np.geomspace(1e-4, 1e8, 400)
    below = positive_stable_cdf(wide, alpha / 2)
    low = wide[np.searchsorted(below, RARE)]
    high = wide[min(np.searchsorted(below, 1 - RARE), len(wide) - 1)]
    edges = np.geomspace(low, high, num_values + 1)
    weights = np.diff(positive_stable_cdf(edges, alpha / 2))
    return tuple(weights / weights.sum()), tuple(2 * np.sqrt(edges[1:] * edges[:-1]))


@dataclass(frozen=True)
class StableNoise:
    """The log density of a stable number of exponent α, 0 < α ≤ 2; of 2 it is normal with variance
    2s².
    """

    alpha: float
    scale: float

    def __call__(self, value: Array) -> Array:
        """Return it."""
        weights, variances = ((1.0,), (2.0,)) if self.alpha == 2 else mixture(self.alpha)
        log_weights, precisions = np.log(weights), 1 / np.multiply(variances, self.scale**2)
        constants = jnp.asarray(log_weights + 0.5 * np.log(precisions / (2 * np.pi)), jnp.float32)
        square = jnp.square(value)[..., None]
        return jax.nn.logsumexp(
            constants - 0.5 * jnp.asarray(precisions, jnp.float32) * square, axis=-1
        )

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return numbers of this law (Chambers, Mallows & Stuck 1976)."""
        angle, wait = rng.uniform(-np.pi / 2, np.pi / 2, shape), rng.exponential(size=shape)
        a = self.alpha
        inner = (np.cos((1 - a) * angle) / wait) ** ((1 - a) / a)
        return self.scale * np.sin(a * angle) / np.cos(angle) ** (1 / a) * inner


Factors = dict[str, Array]
"""`"left"`, shape (rows, rank), and `"right"`, shape (columns, rank)."""


def product(factors: Factors, entries: Data) -> Array:
    """Return the product of the factors at entries."""
    return jnp.sum(factors["left"][entries["row"]] * factors["right"][entries["column"]], axis=-1)


RMSE = metrics.rmse(product)


@dataclass(frozen=True)
class _LogLikelihood:
    noise: StableNoise

    def __call__(self, factors: Factors, entry: Data) -> Array:
        return self.noise(entry["y"] - product(factors, entry))


def model(noise: StableNoise) -> Posterior[Factors]:
    """Return the posterior of the factors; data: {"row": (n,), "column": (n,), "y": (n,)}."""
    return Posterior(_LogLikelihood(noise), NormalPrior(1.0), check_values=_any_values)


def _any_values(factors: Factors, entries: Data) -> None:
    """Refuse nothing: entries are made here."""


def synthetic(size: int, rank: int, noise: StableNoise, test_fraction: float, seed: int) -> Problem:
    """Return a square matrix of low rank from the prior with noise, to be judged by entries
    without, held out.
    """
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((2, size, rank))
    row, column = np.divmod(rng.permutation(size * size), size)
    exact = np.sum(left[row] * right[column], axis=-1)
    seen = exact + noise.draw(rng, exact.shape)
    first = round(test_fraction * size * size)

    def entries(part: slice, y: np.ndarray) -> Data:
        return {
            "row": jnp.asarray(row[part], jnp.int32),
            "column": jnp.asarray(column[part], jnp.int32),
            "y": jnp.asarray(y[part], jnp.float32),
        }

    def start(key: Key) -> Factors:
        one, other = jax.random.split(key)
        return {
            "left": jax.random.normal(one, (size, rank)),
            "right": jax.random.normal(other, (size, rank)),
        }

    return Problem(
        model(noise),
        entries(slice(first, None), seen),
        entries(slice(first), exact),
        start,
        {"rmse": RMSE},
    )


TUNING_SEED = 2**20
"""Of the matrix on which steps are tuned."""
MODELS = {"stable": "αMF", "distributed": "distributed MF"}
STEPS = {"paper": "the paper's steps", "tuned": "tuned steps"}
OTHERS = ("SGLD", "pSGLD")


@dataclass(frozen=True)
class Settings:
    """Matrices, their noise, what all methods have alike, and factors of the step that
    are tried.
    """

    size: Annotated[int, at_least(2)]
    rank: Count
    alpha: float
    noise_scale: float
    test_fraction: float
    batch_size: Count
    data_passes: Annotated[int, at_least(2)]
    num_repeats: Count
    ensemble: Count
    data_seeds: tuple[int, ...]
    factors: tuple[float, ...]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 2:
            raise ConfigError(f"full.alpha must be above 0 and below 2; got {self.alpha}")
        if 1.0 not in self.factors:
            raise ConfigError(
                f"full.factors must hold 1, the paper's step; got {list(self.factors)}"
            )

    @property
    def budget(self) -> Budget:
        """How long all run."""
        return Budget(self.data_passes, self.num_repeats, self.ensemble)

    def problem(self, model: str, seed: int) -> Problem:
        """Return a matrix of a seed, with the noise of a model."""
        noise = StableNoise(self.alpha if model == "stable" else 2.0, self.noise_scale)
        return synthetic(self.size, self.rank, noise, self.test_fraction, seed)

    def named(self, model: str) -> dict[str, MethodConfig]:
        """The methods of a model by their labels."""
        found = []
        for number, table in enumerate(self.methods, 1):
            own: dict[str, Any] = dict(table)
            if own.pop("model", None) not in MODELS:
                raise ConfigError(f"methods[{number}].model must be one of {', '.join(MODELS)}")
            if table["model"] == model:
                blocks = own.pop("blocks", "whole")
                if blocks not in ("whole", "leaves"):
                    raise ConfigError(
                        f"methods[{number}].blocks must be 'whole' or 'leaves'; got {blocks!r}"
                    )
                made = method_of(own | {"batch_size": self.batch_size}, number)
                found.append(dataclasses.replace(made, options={**made.options, "blocks": blocks}))
        return {each.label: each for each in found}


def runs(
    model: str,
    method: MethodConfig,
    problem: Problem,
    budget: Budget,
    key: Key,
    factors: Sequence[float],
) -> list[Samples]:
    """Return a run for each of some factors of a method's step.

    Steps of αMF are (a/t)^p and pSGLD's of gradients of the sum, as in `linear_gaussian`; those of
    Table 3, of which the damping 2 tells nothing else, are constant and of gradients of the mean.
    """
    power, step = (POWER if model == "stable" else 0.0), float(method.options["step_size"])
    first = step**power if power else step
    unit = len(problem.train["y"]) if power else 1
    options = dict(method.options)
    blocks = options.pop("blocks")
    method = dataclasses.replace(method, options=options)
    made: list[Any] = kernels(
        method, problem.posterior, [first * x for x in factors], unit, power=power
    )
    if blocks == "leaves":
        made = [kernel(blockwise(each.dynamics), each.estimator) for each in made]
    return list(run(key, stack(made), problem, budget))


def tuning(model: str, settings: Settings, _: Parts) -> Numbers:
    """Return of each method the factor with the least error after all passes, with the evaluations
    this took.
    """
    problem, factors, spent = settings.problem(model, TUNING_SEED), {}, 0
    for label, method in settings.named(model).items():
        key, curves = jax.random.key(TUNING_SEED), []
        for samples in runs(model, method, problem, settings.budget, key, settings.factors):
            curves.append({label: numbers_of(key, samples, problem, settings.budget, judged=False)})
            spent += int(samples.gradient_evaluations)
        factors[label] = settings.factors[
            int(np.argmin([ends([each], label, "rmse").mean() for each in curves]))
        ]
    return {"factors": factors, "evaluations": spent}


def on(model: str, seed: int, settings: Settings, done: Parts) -> Numbers:
    """Return what all methods do on one matrix; the draws at tuned steps on the first one are
    checked.
    """
    problem, factors = settings.problem(model, seed), done[f"tuning, {model}"]["factors"]
    found: dict[str, Any] = {which: {} for which in STEPS}
    spent = 0
    for number, (label, method) in enumerate(settings.named(model).items()):
        key = jax.random.fold_in(jax.random.key(seed), number)
        both = runs(model, method, problem, settings.budget, key, (1.0, factors[label]))
        spent += sum(int(samples.gradient_evaluations) for samples in both)
        for which, samples in zip(STEPS, both, strict=True):
            judged = which == "tuned" and seed == settings.data_seeds[0]
            found[which][label] = numbers_of(key, samples, problem, settings.budget, judged)
    return found | {"model": model, "evaluations": spent}


def parts(settings: Settings) -> Mapping[str, Callable[[Parts], Numbers]]:
    """Return what is computed: of each model tuned steps, then each matrix."""
    found: dict[str, Callable[[Parts], Numbers]] = {}
    for model in MODELS:
        settings.named(model)
        found[f"tuning, {model}"] = functools.partial(tuning, model, settings)
        for seed in settings.data_seeds:
            found[f"{model}, data {seed}"] = functools.partial(on, model, seed, settings)
    return found


def curves_of(parts: Parts, model: str, which: str) -> list[dict[str, Any]]:
    """Return the curves of each matrix."""
    return [part[which] for part in parts.values() if part.get("model") == model]


def claims(parts: Parts) -> list[Claim]:
    """Judge the errors after equal passes."""
    return [
        better(
            curves_of(parts, model, which),
            "HAMCMC",
            other,
            "rmse",
            f"{name}: HAMCMC's error is less than {other}'s after equal passes, at {steps}",
            by_the_paper=which == "paper",
        )
        for model, name in MODELS.items()
        for which, steps in STEPS.items()
        for other in OTHERS
    ]


def draw(parts: Parts) -> list[Panel]:
    """Draw the median error along passes, of both models, at both steps."""
    shown = []
    for model, name in MODELS.items():
        factors, lines = parts[f"tuning, {model}"]["factors"], []
        for which in STEPS:
            sets = curves_of(parts, model, which)
            for label in sets[0]:
                mark = f"{label} (dashed: × {factors[label]:g})" if which == "paper" else ""
                lines.append(line(sets, label, "rmse", mark, is_dashed=which == "tuned"))
        shown.append(
            Panel(name, "passes over the entries", "RMSE at held-out entries", lines, (False, True))
        )
    return shown


EXPERIMENT = Experiment(
    "matrix-factorisation",
    "Şimşekli, Badeau, Cemgil & Richard, Tables 2 and 3",
    "how well factors of a matrix are found with a quasi-Newton matrix",
    Settings,
    parts,
    claims,
    draw,
)
