"""A linear Gaussian model: θ ~ N(0, I), xₙ | θ ~ N(aₙᵀθ, σ²), in several dimensions.

Table 1 of the supplement of Şimşekli, Badeau, Cemgil & Richard 2016 gives the steps a_ε and the
numbers of each method; the experiment is in a paper that is not at hand. Chosen here: the rows and
their spread, batches, M, the schedule (`decreasing`), starts from the prior, and the error: that of
the average of θ over the second half of the iterations so far, weighted by steps (the supplement's
eq. 12), from the posterior's mean, in standard deviations of the posterior: ((θ̄ − μ)ᵀ Σ⁻¹ (θ̄ − μ)
/ D)^½, a root mean square over chains. SGRLD's metric is the posterior's precision AᵀA/σ² + I,
which is what the Fisher information adds to the prior.
"""

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import curved
from benchmarks.papers.annotations import Array, Data, Key
from benchmarks.papers.decreasing import POWER, kernels
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel, numbers
from benchmarks.papers.predicting import worst
from ewsg_jax import Kernel, Posterior, Samples, check, models, sample, stack
from ewsg_jax.cli.config import ConfigError, Count, MethodConfig, at_least, method_of


@dataclass(frozen=True)
class Settings:
    """Chains of each method in each dimension on the data of each seed, and factors of the step
    that are tried.

    `spread` is how many times wider aₙ is in its widest direction than in its narrowest; of each
    method `first_steps` are its a_ε in these dimensions. `curved` is for the law off Gaussians, see
    `curved`.
    """

    dimensions: tuple[int, ...]
    num_rows: Annotated[int, at_least(2)]
    batch_size: Count
    noise_variance: float
    spread: float
    num_iterations: Annotated[int, at_least(100)]
    num_chains: Annotated[int, at_least(8)]
    data_seeds: tuple[int, ...]
    factors: tuple[float, ...]
    curved_chains: Annotated[int, at_least(100)]
    curved_steps: tuple[float, ...]
    curved_time: float
    curved_seeds: tuple[int, ...]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        if 1.0 not in self.factors:
            raise ConfigError(f"factors must hold 1, the paper's step; got {list(self.factors)}")

    def named(self, place: int) -> dict[str, MethodConfig]:
        """The methods by their labels, in the dimension at a place."""
        found = [self._method(table, number, place) for number, table in enumerate(self.methods, 1)]
        return {each.label: each for each in found}

    def _method(self, table: Any, number: int, place: int) -> MethodConfig:
        own = dict(table)
        firsts = own.pop("first_steps", None)
        if not isinstance(firsts, list) or len(firsts) != len(self.dimensions):
            raise ConfigError(
                f"methods[{number}].first_steps must be {len(self.dimensions)} numbers; got "
                f"{firsts!r}"
            )
        own |= {"step_size": float(firsts[place]), "batch_size": self.batch_size}
        if own.get("name") == "sgrld":
            own["inverse_metric"] = None  # Of the data: see `runs`.
        return method_of(own, number)


TUNING_SEED = 2**20
"""Of the data on which steps are tuned."""
MOST_CHECKED = 20
"""Dimensions up to which the draws on the first data set are checked: a minute each at 100."""


def rows_of(seed: int, dimension: int, settings: Settings) -> Data:
    """Return the aₙ, of another width in each direction of a random basis, and the xₙ of a θ from
    the prior.
    """
    rng = np.random.default_rng((seed, dimension))
    basis, _ = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    widths = np.logspace(0, -np.log10(settings.spread), dimension)
    a = rng.standard_normal((settings.num_rows, dimension)) * widths @ basis.T
    x = a @ rng.standard_normal(dimension) + settings.noise_variance**0.5 * rng.standard_normal(
        settings.num_rows
    )
    return {"x": jnp.asarray(a, jnp.float32), "y": jnp.asarray(x, jnp.float32)}


def exact(data: Data, noise_variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior's mean and precision."""
    a, x = np.asarray(data["x"], float), np.asarray(data["y"], float)
    precision = a.T @ a / noise_variance + np.eye(a.shape[1])
    return np.linalg.solve(precision, a.T @ x / noise_variance), precision


def model_of(noise_variance: float) -> Posterior[Array]:
    """Return the model."""
    return models.linear_regression(noise_scale=noise_variance**0.5)


def runs(
    method: MethodConfig, factors: Sequence[float], data: Data, settings: Settings, key: Key
) -> tuple[list[Samples[Array]], float]:
    """Return a run for each factor of the method's step, of about 200 draws, and the first step
    without one.
    """
    more: dict[str, Any] = {}
    _, precision = exact(data, settings.noise_variance)
    if method.name == "sgrld":
        inverse = jnp.asarray(np.linalg.inv(precision), jnp.float32)
        more = {
            "inverse_metric": lambda position, data: inverse,
            "divergence": lambda position, data: 0 * position,
        }
    first = float(method.options["step_size"]) ** POWER
    made: list[Kernel[Array]] = kernels(
        method,
        model_of(settings.noise_variance),
        [first * x for x in factors],
        settings.num_rows,
        **more,
    )
    dimension = len(precision)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = sample(
            key,
            stack(made),
            lambda key: jax.random.normal(key, (dimension,)),
            data,
            settings.num_iterations,
            num_chains=settings.num_chains,
            thin=max(1, settings.num_iterations // 200),
        )
    return list(found), first


def errors(samples: Samples[Array], data: Data, noise_variance: float) -> list[float]:
    """Return the error at each draw, ∞ where a chain is lost."""
    if not samples.is_finite.all():
        return [float("inf")] * samples.num_draws
    mean, precision = exact(data, noise_variance)
    draws, weights = np.asarray(samples.position, float), np.asarray(samples.step_size, float)
    sums = np.concatenate(
        [np.zeros_like(draws[:, :1]), np.cumsum(weights[:, None] * draws, axis=1)], axis=1
    )
    times = np.concatenate([[0.0], np.cumsum(weights)])
    last = 1 + np.arange(samples.num_draws)
    begin = last // 2
    off = (sums[:, last] - sums[:, begin]) / (times[last] - times[begin])[:, None] - mean
    squares = np.einsum("cti,ij,ctj->ct", off, precision, off) / len(mean)
    return [float(x) for x in np.sqrt(squares.mean(0))]


def measured(samples: Samples[Array], data: Data, settings: Settings, key: Key | None) -> Numbers:
    """Return the error along iterations, thinned, and with a key what `check` says of the second
    half.
    """
    found = errors(samples, data, settings.noise_variance)
    shown = np.unique(np.geomspace(4, samples.num_draws, 18).astype(int)) - 1
    numbers: Numbers = {
        "iterations": [int(samples.step[i]) for i in shown],
        "evaluations_each": int(samples.evaluations[-1] / samples.step[-1]),
        "error": [float(f"{found[i]:.4g}") for i in shown],
    }
    if key is not None and samples.is_finite.all():
        half = np.asarray(samples.position)[:, samples.num_draws // 2 :]
        numbers["check"] = worst(check(key, half, model_of(settings.noise_variance), data))
    return numbers


def on(seed: int, place: int, settings: Settings, done: Parts) -> Numbers:
    """Return what all methods do on one data set, at the paper's steps and at tuned ones."""
    dimension = settings.dimensions[place]
    factors = done[tuning_of(settings.dimensions[place])]["factors"]
    data, key = rows_of(seed, dimension, settings), jax.random.key(seed)
    found: dict[str, Any] = {"paper": {}, "tuned": {}}
    spent = 0
    for number, (label, method) in enumerate(settings.named(place).items()):
        own = jax.random.fold_in(key, number)
        of_steps, _ = runs(method, settings.factors, data, settings, own)
        judged = own if seed == settings.data_seeds[0] and dimension <= MOST_CHECKED else None
        for which, factor in zip(found, (1.0, factors[label]), strict=True):
            samples = of_steps[settings.factors.index(factor)]
            found[which][label] = measured(samples, data, settings, judged)
        spent += sum(int(samples.gradient_evaluations) for samples in of_steps)
    return found | {"dimension": dimension, "evaluations": spent}


def tuned(place: int, settings: Settings) -> Numbers:
    """Return of each method the factor of its step, of those that are tried, with the least error
    at the end.
    """
    data = rows_of(TUNING_SEED, settings.dimensions[place], settings)
    factors, firsts = {}, {}
    for label, method in settings.named(place).items():
        found, first = runs(method, settings.factors, data, settings, jax.random.key(TUNING_SEED))
        ends = [errors(samples, data, settings.noise_variance)[-1] for samples in found]
        factors[label], firsts[label] = settings.factors[int(np.argmin(ends))], first
    return {"factors": factors, "first_steps": {x: float(f"{firsts[x]:.4g}") for x in firsts}}


def tuning_of(dimension: int) -> str:
    """Return the name of the part that tunes in a dimension."""
    return f"tuning, D = {dimension}"


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: of each dimension tuned steps, then each data set; then the law off
    Gaussians.
    """
    found: dict[str, Callable[[Parts], Numbers]] = {}
    for place, dimension in enumerate(settings.dimensions):
        settings.named(place)
        found[tuning_of(dimension)] = lambda _, place=place: tuned(place, settings)
        for seed in settings.data_seeds:
            found[f"D = {dimension}, data {seed}"] = functools.partial(on, seed, place, settings)
    of_curved = curved.Settings(settings.curved_chains, settings.curved_steps, settings.curved_time)
    return found | {
        f"off Gaussians {seed}": lambda _, seed=seed: curved.on(seed, of_curved)
        for seed in settings.curved_seeds
    }


PAPER, TUNED = "paper", "tuned"
STEPS = {PAPER: "the paper's steps", TUNED: "tuned steps"}
SIMILAR, SURE = 2.0, 4.0
"""Times as large an error as another that is similar to it; standard errors within which a bias is
none.
"""


def data_sets(parts: Parts) -> list[Any]:
    """Return the numbers of each data set in each dimension."""
    return [part for part in parts.values() if "dimension" in part]


def last(curves: Any, label: str) -> float:
    """Return a method's error after all iterations, ∞ where it lost a chain."""
    end = curves[label]["error"][-1]
    return float("inf") if end is None else end


def at_equal_evaluations(curves: Any, label: str, other: str) -> float:
    """Return a method's error when it has evaluated what another had at its end, or the next less
    that is kept.
    """
    own, most = curves[label], curves[other]["evaluations_each"] * curves[other]["iterations"][-1]
    place = (
        np.searchsorted(np.multiply(own["iterations"], own["evaluations_each"]), most, side="right")
        - 1
    )
    found = own["error"][max(int(place), 0)]
    return float("inf") if found is None else found


def _claim(parts: Parts, which: str, words: str, other: str, is_so: Callable[[Any], bool]) -> Claim:
    sets = data_sets(parts)
    medians = []
    for dimension in dict.fromkeys(part["dimension"] for part in sets):
        curves = [part[which] for part in sets if part["dimension"] == dimension]
        pair = [np.median([last(each, label) for each in curves]) for label in ("HAMCMC", other)]
        medians.append(f"{pair[0]:.3g} and {pair[1]:.3g} at D = {dimension}")
    so = [is_so(part[which]) for part in sets]
    shown = f"{sum(so)} of {len(so)} data sets; medians of HAMCMC and {other}: {', '.join(medians)}"
    return Claim(
        f"{words}, at {STEPS[which]}", float(np.mean(so)), shown, by_the_paper=which == PAPER
    )


def claims(parts: Parts) -> list[Claim]:
    """Judge the errors after all iterations, at equal evaluations, and the bias off Gaussians."""
    found = []
    for which in STEPS:
        for other in ("SGLD", "pSGLD"):
            words = f"HAMCMC's error is less than {other}'s after equal iterations"
            found.append(
                _claim(
                    parts, which, words, other, lambda c, x=other: last(c, "HAMCMC") < last(c, x)
                )
            )
        words = f"HAMCMC's error is at most {SIMILAR:g} times SGRLD's after equal iterations"
        found.append(
            _claim(
                parts,
                which,
                words,
                "SGRLD",
                lambda c: last(c, "HAMCMC") <= SIMILAR * last(c, "SGRLD"),
            )
        )
    so = [
        at_equal_evaluations(x[TUNED], "HAMCMC", "SGLD") < last(x[TUNED], "SGLD")
        for x in data_sets(parts)
    ]
    found.append(
        Claim(
            "HAMCMC's error is less than SGLD's after equal evaluations, at tuned steps",
            float(np.mean(so)),
            f"{sum(so)} of {len(so)} data sets",
            by_the_paper=False,
        )
    )
    return [*found, _unbiased(parts, "HAMCMC", True), _unbiased(parts, "Langevin", False)]


def _unbiased(parts: Parts, label: str, by_the_paper: bool) -> Claim:
    runs = [part for part in parts.values() if "exact" in part]
    found = [curved.left(part, label) for part in runs]
    so = [bool(np.all(np.abs(value) <= SURE * error)) for value, error in found]
    told = "; ".join(
        ", ".join(
            f"{name} {v:+.3f} ± {e:.3f}" for name, v, e in zip(curved.AVERAGED, *each, strict=True)
        )
        for each in found
    )
    words = f"off Gaussians, {label}'s averages tend to the target's as h → 0"
    return Claim(
        words + " (Theorem 5)" * by_the_paper,
        float(np.mean(so)),
        f"left at h = 0: {told}",
        by_the_paper,
    )


def draw(parts: Parts) -> list[Panel]:
    """Draw the median error along iterations in each dimension, at both steps, and averages off
    Gaussians.
    """
    shown = []
    sets = data_sets(parts)
    for dimension in dict.fromkeys(part["dimension"] for part in sets):
        of_dimension, lines = [part for part in sets if part["dimension"] == dimension], []
        for which in STEPS:
            curves = [part[which] for part in of_dimension]
            for label in curves[0]:
                error = list(np.median([numbers(each[label]["error"]) for each in curves], axis=0))
                factor = parts[tuning_of(dimension)]["factors"][label]
                mark = f"{label} (dashed: × {factor:g})" if which == PAPER else ""
                lines.append(
                    Line(
                        mark,
                        curves[0][label]["iterations"],
                        error,
                        of=label,
                        is_dashed=which == TUNED,
                    )
                )
        shown.append(
            Panel(
                f"D = {dimension}",
                "iterations",
                "error of the mean (posterior sd)",
                lines,
                (True, True),
            )
        )
    part = next(part for part in parts.values() if "exact" in part)
    steps = [each["step"] for each in part["steps"]]
    lines = [
        Line(label, steps, [each[label][0] for each in part["steps"]])
        for label in ("HAMCMC", "Langevin")
    ]
    lines.append(Line("exact", steps, [part["exact"][0]] * len(steps), is_guide=True))
    return [*shown, Panel("off Gaussians", "h", "E x²", lines, (True, False))]


EXPERIMENT = Experiment(
    "linear-gaussian",
    "Şimşekli, Badeau, Cemgil & Richard, Table 1 and Theorem 5",
    "how near the mean of a linear Gaussian model a quasi-Newton matrix comes, and its law off "
    "Gaussians",
    Settings,
    parts,
    claims,
    draw,
)
