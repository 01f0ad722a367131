"""How soon a held-out level is reached: Bayesian logistic regression, section 5.1 of Chatterji et
al., Fig. 2.

θ is estimated by averages over the second half of a run so far, weighted by step size, and judged
by the mean log likelihood of held-out rows at them. The level to reach is that at the posterior's
mean, found by a long run with full gradients; how far from it an estimate is counts on either side,
averaged over trials. For each level a method has the step and schedule that reach it first in one
half of the trials, and is judged in the other half.

The paper's sizes of the data, the prior and b are lost: here four fifths of the rows train, the
prior is N(0, s² I), b is the same everywhere, and steps fall as t^(−1/3) or not at all. Steps are
in units of 1/L, L the largest curvature at the mode (of the underdamped method in time at u = 1/L).
Chains start at 0; with control variates at the centre that SAGA finds in some passes, which count.
Without SUSY there are rows of like shape, drawn from a logistic model: results and figure say so.
"""

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import data_sets
from benchmarks.papers.annotations import Data, Key
from benchmarks.papers.decreasing import Decreasing
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel
from benchmarks.papers.metrics import log_likelihood
from benchmarks.papers.predicting import Problem, checked, has_friction
from ewsg_jax import (
    METHODS,
    Kernel,
    Posterior,
    datasets,
    find_mode,
    models,
    moments,
    saga_ld,
    sample,
    stack,
    uld,
)
from ewsg_jax.cli.config import ConfigError, Count, MethodConfig, Positive, at_least, methods_of

NUM_DRAWS, FRICTION = 1_500, 2.0
FOREVER, FALL = 1e12, 1 / 3
"""Steps in which a constant step begins to fall; the power with which others do."""


class Tried(Protocol):
    """What is said of runs."""

    @property
    def num_trials(self) -> int: ...
    @property
    def center_passes(self) -> float: ...
    @property
    def steps(self) -> tuple[float, ...]: ...
    @property
    def schedules(self) -> tuple[float, ...]: ...


def kernel_of(
    method: MethodConfig, posterior: Posterior, curvature: float, step: float, over: float
) -> Kernel:
    """Return a method's kernel at a step in units of 1/L, or of time where it has a momentum."""
    unit, is_underdamped = 1 / curvature, has_friction(method.name)
    falling = Decreasing(first=step if is_underdamped else step * unit, over=over, power=FALL)
    given = {"inverse_mass": unit, "friction": FRICTION} if is_underdamped else {}
    return METHODS[method.name].build(
        posterior, **{**method.options, **given, "step_size": falling}
    )


def run(
    key: Key,
    method: MethodConfig,
    problem: Problem,
    curvature: float,
    center: jax.Array,
    passes: float,
    tried: Tried,
) -> tuple[Any, np.ndarray]:
    """Return the runs of all steps and schedules, and the passes at their draws."""
    n = len(problem.train["y"])
    has_center = METHODS[method.name].estimator == "control_variate"
    spent = tried.center_passes if has_center else 0.0
    cost = kernel_of(method, problem.posterior, curvature, 1.0, 1.0).evaluations(problem.train)
    every = cost.per_step + cost.per_refresh / cost.refresh_every
    kernels = [
        kernel_of(method, problem.posterior, curvature, step, over * n / every or FOREVER)
        for step in tried.steps
        for over in tried.schedules
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        runs = sample(
            key,
            stack(kernels),
            center if has_center else problem.start,
            problem.train,
            data_passes=passes - spent,
            num_chains=tried.num_trials,
            thin=max(1, round((passes - spent) * n / every / NUM_DRAWS)),
        )
    return runs, np.asarray(runs[0].evaluations) / n + spent


def averages(draws: np.ndarray, steps: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return averages over the second half of the draws up to each index, weighted by step size.

    Args:
        draws: shape (trial, draw, d).
        steps: shape (draw,).
        last: indices.
    """
    zero = np.zeros((len(draws), 1, draws.shape[-1]))
    sums = np.concatenate([zero, np.cumsum(steps[:, None] * draws.astype(float), axis=1)], axis=1)
    weights = np.concatenate([[0.0], np.cumsum(steps)])
    end, begin = last + 1, (last + 1) // 2
    return (sums[:, end] - sums[:, begin]) / (weights[end] - weights[begin])[:, None]


def told(far: np.ndarray, grid: np.ndarray, levels: Sequence[float]) -> tuple[Numbers, int]:
    """Return when each level is reached, and which member has the least error at the end.

    Args:
        far: how far estimates are, shape (member, trial, pass), NaN where there is none.
        grid: passes.
        levels: from the crudest to the finest.

    Returns:
        `reached`, passes or None; `error` along passes, and its least value, `floor`, of the member
        that is best at the end; all in the second half of the trials, by members that the first
        half chooses.
    """
    half = far.shape[1] // 2
    tuning, judged = (
        np.where(np.isnan(x), np.inf, x) for x in (far[:, :half].mean(1), far[:, half:].mean(1))
    )
    reached = []
    for level in levels:
        member = min(
            range(len(far)),
            key=lambda i, level=level: (_first(tuning[i], grid, level), tuning[i, -1]),
        )
        passes = _first(judged[member], grid, level)
        reached.append(float(f"{passes:.3g}") if np.isfinite(passes) else None)
    best = int(np.argmin(tuning[:, -1]))
    error = [float(f"{x:.3g}") if np.isfinite(x) else None for x in judged[best]]
    return {"reached": reached, "error": error, "floor": float(f"{judged[best].min():.3g}")}, best


def _first(errors: np.ndarray, grid: np.ndarray, level: float) -> float:
    """Return the passes at which errors are first within a level, ∞ where they never are."""
    within = np.flatnonzero(errors <= level)
    return float(grid[within[0]]) if len(within) else float("inf")


SUSY, STAND_IN = "susy", "stand-in for SUSY"
NAMES = ("pima", "heart", SUSY)
COLD, CENTER_STEP = 1e-9, 0.1
"""The temperature at which SAGA searches, and its step."""


@dataclass(frozen=True)
class Settings:
    """Trials of each method, the data sets with their passes, and the steps and schedules that are
    tried.

    Schedules are the passes in which steps begin to fall, 0 for constant ones.
    """

    num_trials: Annotated[int, at_least(2)]
    batch_size: Count
    prior_scale: Positive
    data: tuple[str, ...]
    data_passes: tuple[Positive, ...]
    stand_in_rows: Annotated[int, at_least(100)]
    center_passes: Annotated[float, at_least(1.5)]
    reference_rows: Annotated[float, at_least(1)]
    steps: tuple[Positive, ...]
    schedules: tuple[float, ...]
    levels: tuple[Positive, ...]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        if set(self.data) - set(NAMES) or len(self.data) != len(self.data_passes) or not self.data:
            raise ConfigError(
                f"full.data must be some of {', '.join(NAMES)}, each with its data_passes"
            )
        for passes in self.data_passes:
            if passes <= self.center_passes:
                raise ConfigError(f"full.data_passes must be above center_passes; got {passes}")

    @property
    def named(self) -> dict[str, MethodConfig]:
        """The methods by their labels; steps are found for them."""
        return methods_of(self.methods, step_size=1.0)


def rows_of(name: str, stand_in_rows: int) -> tuple[str, Data, Data]:
    """Return what the data are called, standardised rows to train on with an intercept, and rows to
    judge by.
    """
    try:
        whole = data_sets.load(name)
    except FileNotFoundError:
        if name != SUSY:
            raise
        whole = stand_in(stand_in_rows)
    parts = datasets.standardise(*datasets.split(whole, 0.2, 0))
    train, test = (
        {"x": with_intercept(part.x), "y": jnp.asarray(part.y, jnp.int32)} for part in parts
    )
    return STAND_IN if whole.name == STAND_IN else whole.name, train, test


def with_intercept(x: np.ndarray) -> jax.Array:
    """Return features with a column of ones."""
    return jnp.asarray(np.column_stack([np.ones(len(x)), x]), jnp.float32)


def stand_in(count: int) -> datasets.Dataset:
    """Return rows of 18 features, half of them with a long tail, and labels of a logistic model."""
    rng = np.random.default_rng(18)
    x = rng.standard_normal((count, 18)) @ np.linalg.cholesky(0.7 * np.eye(18) + 0.3)
    x[:, ::2] = np.exp(x[:, ::2])
    weights = rng.normal(0, 0.5, 18)
    logits = (x - x.mean(0)) / x.std(0) @ weights
    y = rng.random(count) < 1 / (1 + np.exp(-logits))
    names = tuple(f"x{i}" for i in range(18))
    return datasets.Dataset(
        x=x, y=y.astype(np.int8), feature_names=names, name=STAND_IN, source="drawn"
    )


@dataclass(frozen=True)
class Target:
    """A posterior with its rows, L, the score at its mean and where SAGA found its mode."""

    name: str
    problem: Problem
    curvature: float
    optimum: float
    center: jax.Array


@functools.cache
def target(
    name: str, stand_in_rows: int, scale: float, batch_size: int, passes: float, rows: float
) -> Target:
    """Return the target of a data set; arguments as in `Settings`."""
    called, train, test = rows_of(name, stand_in_rows)
    posterior = models.logistic_regression(prior_scale=scale)
    n, d = train["x"].shape
    problem = Problem(posterior, train, test, jnp.zeros(d), {"score": log_likelihood(posterior)})
    mode = find_mode(jax.random.key(0), posterior, jnp.zeros(d), train)
    kernel = uld(posterior, 0.5, friction=1.0, integrator="BAOAB", inverse_mass=mode.inverse_mass)
    steps = int(np.clip(rows / n, 300, 5_000))
    options: dict[str, Any] = {"num_chains": 8, "keep": None, "moments": moments(covariance="none")}
    long = sample(
        jax.random.key(1), kernel, mode.position, train, steps, burn_in=steps // 10, **options
    )
    assert long.moments is not None
    mean = jnp.asarray(np.asarray(long.moments.mean).mean(0))
    curvature = 1 / float(np.linalg.eigvalsh(np.asarray(mode.covariance, float))[0])
    cold = saga_ld(posterior, CENTER_STEP / curvature, batch_size=batch_size, temperature=COLD)
    found = sample(jax.random.key(2), cold, problem.start, train, data_passes=passes)
    center = found.state.position[0]
    return Target(
        called, problem, curvature, float(score_of(posterior, mean[None], test)[0]), center
    )


@functools.partial(jax.jit, static_argnums=0)
def score_of(posterior: Posterior, positions: jax.Array, test: Data) -> jax.Array:
    """Return the mean log likelihood of held-out rows at each position."""
    return jax.lax.map(lambda position: posterior.log_likelihoods(position, test).mean(), positions)


def on(name: str, passes: float, settings: Settings) -> Numbers:
    """Return how soon each method reaches each level on a data set."""
    s = settings
    made = target(
        name, s.stand_in_rows, s.prior_scale, s.batch_size, s.center_passes, s.reference_rows
    )
    n = len(made.problem.train["y"])
    grid = np.geomspace(2 * s.batch_size / n, passes, 50)
    found: dict[str, Any] = {}
    spent = 0
    for number, (label, method) in enumerate(s.named.items()):
        key = jax.random.fold_in(jax.random.key(3), number)
        runs, at = run(key, method, made.problem, made.curvature, made.center, passes, s)
        far = np.full((len(runs), s.num_trials, len(grid)), np.nan)
        last = np.searchsorted(at, grid * (1 + 1e-6), side="right") - 1
        for member, each in enumerate(runs):
            means = averages(np.asarray(each.position), np.asarray(each.step_size), last[last >= 0])
            scores = score_of(
                made.problem.posterior,
                jnp.asarray(means.reshape(-1, means.shape[-1])),
                made.problem.test,
            )
            far[member][:, last >= 0] = np.abs(
                np.asarray(scores).reshape(means.shape[:2]) - made.optimum
            )
        found[label], best = told(far, grid, s.levels)
        found[label]["check"] = checked(key, runs[best], made.problem)
        found[label]["best"] = {x: float(f"{float(y[best]):.3g}") for x, y in runs.values.items()}
        spent += int(runs.whole.gradient_evaluations) * len(runs)
    shown = {"data": made.name, "rows": n, "optimum": round(made.optimum, 5), "levels": s.levels}
    shown["search"] = s.center_passes
    return shown | {
        "passes": [float(f"{x:.3g}") for x in grid],
        "methods": found,
        "evaluations": spent,
    }


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: each data set."""
    sets = zip(settings.data, settings.data_passes, strict=True)
    return {
        name: lambda _, name=name, passes=passes: on(name, passes, settings)
        for name, passes in sets
    }


FAR = 2.0
"""An error that is so many times another stays above it."""


def best_of(part: Numbers, saved: float = 0.0) -> list[str | None]:
    """Return the method that reaches each level first, None where none does.

    Args:
        part: of a data set.
        saved: passes of control variates that are not counted.
    """
    found: list[str | None] = []
    for i in range(len(part["levels"])):
        passes = {label: each["reached"][i] for label, each in part["methods"].items()}
        able = {
            label: x - saved * label.startswith("CV")
            for label, x in passes.items()
            if x is not None
        }
        found.append(min(able, key=lambda label: able[label]) if able else None)
    return found


def _told(parts: Parts, best: dict[str, list[str | None]]) -> str:
    found = []
    for part in parts.values():
        places = zip(best[part["data"]], part["levels"], strict=True)
        runs = [
            (label, [x for _, x in each])
            for label, each in itertools.groupby(places, lambda place: place[0])
        ]
        found.append(
            f"{part['data']}: "
            + ", ".join(f"{label} to {x[-1]:g}" for label, x in runs if label is not None)
        )
    return "; ".join(found)


def _somewhere(best: dict[str, list[str | None]], *labels: str) -> float:
    return float(np.mean([any(x in labels for x in each) for each in best.values()]))


def claims(parts: Parts) -> list[Claim]:
    """Judge the regimes of each data set, SVRG against SAGA, and the floor of control variates."""
    sets = list(parts.values())
    best = {part["data"]: best_of(part) for part in sets}
    unpaid = {part["data"]: best_of(part, part["search"]) for part in sets}
    told = _told(parts, best)
    ends = [next((x for x in reversed(each) if x is not None), None) for each in best.values()]
    pairs = [
        (saga, svrg)
        for part in sets
        for saga, svrg in zip(_reached(part, "SAGA-LD"), _reached(part, "SVRG-LD"), strict=True)
        if np.isfinite(min(saga, svrg))
    ]
    floors = [(_floor(part, "CV-LD"), _floor(part, "SAGA-LD")) for part in sets]
    shown = "; ".join(
        f"{part['data']}: CV-LD {a:.2g}, SAGA-LD {b:.2g}"
        for part, (a, b) in zip(sets, floors, strict=True)
    )
    both = f"{sum(a < b for a, b in pairs)} of {len(pairs)} levels and data sets"
    size = sorted(sets, key=lambda part: part["rows"])
    fewer = [
        _reached(size[-1], label)[i] <= _reached(size[0], label)[i]
        for label in size[0]["methods"]
        for i in range(len(size[0]["levels"]))
        if np.isfinite(min(_reached(size[-1], label)[i], _reached(size[0], label)[i]))
    ]
    return [
        Claim("SGLD is the first at some level", _somewhere(best, "SGLD"), told),
        Claim(
            "a control variate is the first at some level",
            _somewhere(best, "CV-LD", "CV-ULD"),
            told,
        ),
        Claim(
            "a control variate is the first at some level, its search not counted",
            _somewhere(unpaid, "CV-LD", "CV-ULD"),
            _told(parts, unpaid),
            by_the_paper=False,
        ),
        Claim(
            "SAGA-LD is the first at the finest level that any reaches",
            float(np.mean([x == "SAGA-LD" for x in ends])),
            told,
        ),
        Claim(
            "SVRG-LD takes more passes than SAGA-LD",
            float(np.mean([a < b for a, b in pairs])),
            both,
        ),
        Claim(
            f"CV-LD's error stays above {FAR:g} times that of SAGA-LD",
            float(np.mean([a > FAR * b for a, b in floors])),
            f"least errors {shown}",
        ),
        Claim(
            "levels take no more passes on the most rows than on the fewest",
            float(np.mean(fewer)) if fewer else 0.0,
            f"{sum(fewer)} of {len(fewer)} levels and methods",
        ),
    ]


def _reached(part: Numbers, label: str) -> list[float]:
    return [np.inf if x is None else x for x in part["methods"][label]["reached"]]


def _floor(part: Numbers, label: str) -> float:
    found: Any = part["methods"][label]["floor"]
    return np.inf if found is None else found


def draw(parts: Parts) -> list[Panel]:
    """Draw the passes that each level takes, data set by data set."""
    shown = []
    for part in parts.values():
        levels: Sequence[float] = part["levels"]
        lines = [
            Line(label, [np.nan if x is None else x for x in each["reached"]], levels)
            for label, each in part["methods"].items()
        ]
        title, y = f"{part['data']}, n = {part['rows']}", "distance to the optimal log likelihood"
        shown.append(Panel(title, "passes over the data", y, lines, (True, True)))
    return shown


EXPERIMENT = Experiment(
    "vr-regimes",
    "Chatterji et al., Fig. 2",
    "which estimator reaches a held-out level first",
    Settings,
    parts,
    claims,
    draw,
)
