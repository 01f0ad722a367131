"""Log-normal draws, parameters (μ, σ), a flat prior: section 5.2 of Chatterji et al., Fig. 3.

The paper's formulas are lost. Its text has "the likelihood" of log-normal data, of which log x is
normal: gradients then have no long tail. What it says of tails is so where a normal law is fitted
to the draws themselves, as by Bardenet et al., on whom it builds. Both are run. Open there too: n,
b, passes, steps, start, what the error is of. Here it is the mean square of averages over the
second half of a run so far, of z and z², z = (θ − E θ)/sd θ by coordinate, less their expectations,
which are known. Steps are in units of 1/L, L = 2n/s² the largest curvature at the mode, and those
of the underdamped method in time at u = 1/L. Chains start at (m + s, 2s), m and s the mean and the
standard deviation of the rows; with control variates at their centre, whose search is paid for.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from benchmarks.papers.annotations import Array, Key
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel, numbers
from ewsg_jax import (
    METHODS,
    Kernel,
    Posterior,
    StackedSamples,
    check,
    saga_ld,
    sample,
    stack,
    stack_data,
)
from ewsg_jax.cli.config import (
    NOT_EMPTY,
    ConfigError,
    Count,
    MethodConfig,
    Positive,
    at_least,
    methods_of,
)


def _log_likelihood(position: Array, row: Array) -> Array:
    return -jnp.log(jnp.abs(position[1])) - 0.5 * jnp.square((row - position[0]) / position[1])


MODEL = Posterior(_log_likelihood, lambda position: 0.0, name="normal law in μ and σ")


def draws_of(seed: int, count: int) -> np.ndarray:
    """Return log-normal draws, of μ = 0 and σ = 1."""
    return np.exp(np.random.default_rng(seed).standard_normal(count))


def truth(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return E θ and sd θ of θ = (μ, σ) under a flat prior: 1/σ² has a gamma law of
    shape n/2 − 1.
    """
    n, shape, half = len(rows), len(rows) / 2 - 1, np.sum((rows - rows.mean()) ** 2) / 2
    scale = np.sqrt(half) * np.exp(gammaln(shape - 0.5) - gammaln(shape))
    square = half / (shape - 1)
    return np.array([rows.mean(), scale]), np.sqrt([square / n, square - scale**2])


def errors(draws: np.ndarray, rows: np.ndarray, at: np.ndarray) -> list[float]:
    """Return the error after the draws at each index, draws (chain, draw, 2); ∞ where one is not
    finite.
    """
    mean, sd = truth(rows)
    z = (np.asarray(draws, float) - mean) / sd
    sums = np.cumsum(np.concatenate([z, z**2 - 1], axis=-1), axis=1)
    sums = np.concatenate([0 * sums[:, :1], sums], axis=1)
    last, first = at + 1, (at + 1) // 2
    averages = (sums[:, last] - sums[:, first]) / (last - first)[:, None]
    found = np.mean(averages**2, axis=(0, 2))
    return [float(f"{x:.3g}") if np.isfinite(x) else float("inf") for x in found]


READINGS = {"log-normal": np.log, "normal": lambda rows: rows}
"""The likelihood of the draws, by what of them is normal."""
TUNING_SEED = 2**20
POINTS, NUM_DRAWS = 25, 1_000
"""Passes at which errors are told; draws of a run."""
COLD, FRICTION = 1e-9, 2.0
"""The temperature at which SAGA searches; the published friction."""
Member = tuple[str, int, float]
"""A reading, a seed and a step."""


@dataclass(frozen=True)
class Settings:
    """Chains of each method on the data of each seed, for so many passes; steps in units of 1/L,
    one for all.
    """

    num_chains: Annotated[int, at_least(2)]
    num_rows: Annotated[int, at_least(10)]
    batch_size: Count
    data_passes: int
    center_passes: Annotated[int, at_least(2)]
    center_step: Positive
    data_seeds: Annotated[tuple[int, ...], NOT_EMPTY]
    steps: Annotated[tuple[Positive, ...], NOT_EMPTY]
    early: float
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.data_passes < 2 * self.center_passes or self.early < self.center_passes:
            raise ConfigError(
                "full.data_passes must be at least twice, and full.early at least, "
                "full.center_passes"
            )

    @property
    def named(self) -> dict[str, MethodConfig]:
        """The methods by their labels; steps are found for them."""
        return methods_of(self.methods, step_size=1.0)


def curvature(rows: np.ndarray) -> float:
    """Return L, the largest curvature at the mode."""
    return 2 * len(rows) / rows.var()


def start_of(rows: np.ndarray) -> list[float]:
    """Return where chains start."""
    return [float(rows.mean() + rows.std()), float(2 * rows.std())]


def kernel_of(method: MethodConfig, rows: np.ndarray, step: float) -> Kernel[Array]:
    """Return a method's kernel at a step in units of 1/L, or of time where it has a momentum."""
    record, unit = METHODS[method.name], 1 / curvature(rows)
    if "langevin" in record.dynamics:
        return record.build(MODEL, **{**method.options, "step_size": step * unit})
    given = {"step_size": step, "inverse_mass": unit, "friction": FRICTION}
    return record.build(MODEL, **{**method.options, **given})


def members(settings: Settings) -> list[Member]:
    """Return all data sets at all steps, those of tuning too."""
    seeds = (TUNING_SEED, *settings.data_seeds)
    return [(of, seed, step) for of in READINGS for seed in seeds for step in settings.steps]


def rows_of(settings: Settings, of: str, seed: int) -> np.ndarray:
    """Return the rows of a data set, as they are in single precision."""
    return np.asarray(READINGS[of](draws_of(seed, settings.num_rows)), np.float32).astype(float)


def centers(settings: Settings) -> np.ndarray:
    """Return what SAGA finds in its passes, all but without noise, shape (member, 2)."""
    sets = [rows_of(settings, of, seed) for of, seed, _ in members(settings)]
    options = {"batch_size": settings.batch_size, "temperature": COLD}
    kernels = [saga_ld(MODEL, settings.center_step / curvature(rows), **options) for rows in sets]
    starts = np.array([start_of(rows) for rows in sets])
    runs = _run(jax.random.key(0), kernels, starts, sets, settings.center_passes, 1, 2)
    return np.asarray(runs.state.position)[0]


def _run(
    key: Key,
    kernels: list[Kernel[Array]],
    starts: np.ndarray,
    sets: list[np.ndarray],
    passes: float,
    *of: int,
) -> StackedSamples[Array]:
    """Return a run of members; `of` are chains and draws."""
    cost, num_rows = kernels[0].evaluations(jnp.asarray(sets[0], jnp.float32)), len(sets[0])
    every = cost.per_step + cost.per_refresh / cost.refresh_every
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return sample(
            key,
            stack(kernels),
            jnp.asarray(starts, jnp.float32),
            stack_data([jnp.asarray(rows, jnp.float32) for rows in sets]),
            data_passes=passes,
            num_chains=of[0],
            thin=max(1, round(passes * num_rows / every / of[1])),
            stacked="members",
        )


def measured(method: MethodConfig, settings: Settings) -> Numbers:
    """Return the errors of a method along passes, at the step that is best at their end on data of
    tuning.
    """
    every = members(settings)
    sets = [rows_of(settings, of, seed) for of, seed, _ in every]
    kernels = [
        kernel_of(method, rows, step) for rows, (_, _, step) in zip(sets, every, strict=True)
    ]
    has_center = METHODS[method.name].estimator == "control_variate"
    spent = settings.center_passes if has_center else 0
    starts = centers(settings) if has_center else np.array([start_of(rows) for rows in sets])
    runs = _run(
        jax.random.key(1),
        kernels,
        starts,
        sets,
        settings.data_passes - spent,
        settings.num_chains,
        NUM_DRAWS,
    )
    passes = np.asarray(runs[0].evaluations) / settings.num_rows + spent
    shown = axis(settings)
    last = np.searchsorted(passes, np.array(shown) * (1 + 1e-9), side="right") - 1
    found = {
        member: [*[None] * int(np.sum(last < 0)), *errors(run.position, rows, last[last >= 0])]
        for member, run, rows in zip(every, runs, sets, strict=True)
    }
    numbers: Numbers = {"evaluations": int(runs.whole.gradient_evaluations) * len(every)}
    for of in READINGS:
        best = min(settings.steps, key=lambda step: found[of, TUNING_SEED, step][-1] or np.inf)
        member = every.index((of, settings.data_seeds[0], best))
        numbers[of] = {
            "step": best,
            "error": [found[of, seed, best] for seed in settings.data_seeds],
            "check": checked(np.asarray(runs[member].position), sets[member]),
        }
    return numbers


def checked(draws: np.ndarray, rows: np.ndarray) -> Numbers | None:
    """Return what `check` says of the second half of draws (chain, draw, 2), None where one is not
    finite.
    """
    if not np.isfinite(draws).all():
        return None
    later = jnp.asarray(draws[:, draws.shape[1] // 2 :])
    report = check(jax.random.key(2), later, MODEL, jnp.asarray(rows, jnp.float32))
    ratio, shift = np.asarray(report.sd_ratio), np.asarray(report.mean_shift)
    return {
        "outcome": report.outcome,
        "sd_ratio": round(float(ratio[np.argmax(np.abs(np.log(ratio)))]), 3),
        "mean_shift": round(float(np.abs(shift).max()), 3),
    }


def axis(settings: Settings) -> list[float]:
    """Return the passes at which errors are told."""
    return [round(float(x), 2) for x in np.geomspace(2, settings.data_passes, POINTS)]


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: the axis, and each method on all data."""

    def shared(_: Parts) -> Numbers:
        return {"passes": axis(settings), "early": settings.early}

    named = settings.named.items()
    return {"axis": shared} | {
        label: lambda _, each=each: measured(each, settings) for label, each in named
    }


FAR = 3.0
"""An error that is so many times another has not come where that is."""
Errors = dict[str, float]


def errors_at(parts: Parts, of: str, index: int) -> list[Errors]:
    """Return for each data set the error of each method at a place of the axis, infinite where
    there is none.
    """
    labels = [name for name in parts if name != "axis"]
    curves = {label: parts[label][of]["error"] for label in labels}
    ends = {
        label: [np.inf if x[index] is None else x[index] for x in each]
        for label, each in curves.items()
    }
    return [
        {label: ends[label][i] for label in labels} for i in range(len(next(iter(ends.values()))))
    ]


def claims(parts: Parts) -> list[Claim]:
    """Judge both readings of the likelihood."""
    early = int(np.searchsorted(parts["axis"]["passes"], parts["axis"]["early"]))
    passes = parts["axis"]["passes"][early]
    rules: list[tuple[str, list[str], int, Callable[[Errors], bool]]] = [
        (
            f"SGLD's error stays above {FAR:g} times that of SAGA-LD and of SVRG-LD",
            ["SGLD", "SAGA-LD", "SVRG-LD"],
            -1,
            lambda e: e["SGLD"] > FAR * max(e["SAGA-LD"], e["SVRG-LD"]),
        ),
        (
            "SAGA-LD and SVRG-LD come below LD",
            ["SAGA-LD", "SVRG-LD", "LD"],
            -1,
            lambda e: max(e["SAGA-LD"], e["SVRG-LD"]) < e["LD"],
        ),
        (
            f"CV-LD has the least error of all Langevin methods after {passes:g} passes",
            ["CV-LD", "LD", "SGLD", "SAGA-LD", "SVRG-LD"],
            early,
            lambda e: e["CV-LD"] <= min(e[x] for x in ("LD", "SGLD", "SAGA-LD", "SVRG-LD")),
        ),
        (
            f"CV-LD ends above {FAR:g} times the error of SAGA-LD",
            ["CV-LD", "SAGA-LD"],
            -1,
            lambda e: e["CV-LD"] > FAR * e["SAGA-LD"],
        ),
    ]
    found = []
    for of in READINGS:
        for words, shown, index, is_so in rules:
            sets = errors_at(parts, of, index)
            medians = ", ".join(f"{x} {np.median([each[x] for each in sets]):.2g}" for x in shown)
            so = [is_so(each) for each in sets]
            told = f"{sum(so)} of {len(so)} data sets; medians: {medians}"
            found.append(Claim(f"{of} likelihood: {words}", float(np.mean(so)), told))
    return found


def draw(parts: Parts) -> list[Panel]:
    """Draw the median error of each method along passes, in both readings."""
    shown, passes = [], parts["axis"]["passes"]
    for of in READINGS:
        lines = []
        for label in (name for name in parts if name != "axis"):
            told = parts[label][of]
            curves = np.array([numbers(each) for each in told["error"]])
            middle = [None if np.isnan(x).any() else float(np.median(x)) for x in curves.T]
            lines.append(Line(f"{label}, h = {told['step']:g}", passes, middle, of=label))
        shown.append(
            Panel(
                f"{of} likelihood",
                "passes over the data",
                "mean squared error",
                lines,
                (True, True),
            )
        )
    return shown


EXPERIMENT = Experiment(
    "lognormal",
    "Chatterji et al., Fig. 3",
    "what estimators do with data of a long tail",
    Settings,
    parts,
    claims,
    draw,
)
