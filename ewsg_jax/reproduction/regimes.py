"""How soon a held-out level is reached: Bayesian logistic regression, section 5.1 of Chatterji et al., Fig. 2.

θ is estimated by averages over the second half of a run so far, weighted by step size, and judged by the mean log
likelihood of held-out rows at them. The level to reach is that at the posterior's mean, found by a long run with
full gradients; how far from it an estimate is counts on either side, averaged over trials. For each level a method
has the step and schedule that reach it first in one half of the trials, and is judged in the other half.

The paper's sizes of the data, the prior and b are lost: here four fifths of the rows train, the prior is
N(0, s² I), b is the same everywhere, and steps fall as t^(−1/3) or not at all. Steps are in units of 1/L, L the
largest curvature at the mode (of the underdamped method in time at u = 1/L). Chains start at 0; with control
variates at the centre that SAGA finds in some passes, which count. Without SUSY there are rows of like shape, drawn
from a logistic model: results and figure say so.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import datasets, models
from ewsg_jax._types import Data
from ewsg_jax.experiments.config import Method, method_of
from ewsg_jax.experiments.tables import ConfigError, above_zero, at_least
from ewsg_jax.methods import saga_ld, uld
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import find_mode
from ewsg_jax.reproduction import reaching
from ewsg_jax.reproduction.experiment import Numbers, Parts
from ewsg_jax.reproduction.judging import checked
from ewsg_jax.reproduction.metrics import log_likelihood
from ewsg_jax.reproduction.problem import Problem
from ewsg_jax.sampling import moments, sample

SUSY, STAND_IN = "susy", "stand-in for SUSY"
NAMES = ("pima", "heart", SUSY)
COLD, CENTER_STEP = 1e-9, 0.1
"""The temperature at which SAGA searches, and its step."""


@dataclass(frozen=True)
class Settings:
    """Trials of each method, the data sets with their passes, and the steps and schedules that are tried.

    Schedules are the passes in which steps begin to fall, 0 for constant ones.
    """

    num_trials: int
    batch_size: int
    prior_scale: float
    data: tuple[str, ...]
    data_passes: tuple[float, ...]
    stand_in_rows: int
    center_passes: float
    reference_rows: float
    steps: tuple[float, ...]
    schedules: tuple[float, ...]
    levels: tuple[float, ...]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        at_least("full", self, num_trials=2, batch_size=1, center_passes=1.5, stand_in_rows=100, reference_rows=1)
        above_zero("full.prior_scale", self.prior_scale)
        if set(self.data) - set(NAMES) or len(self.data) != len(self.data_passes) or not self.data:
            raise ConfigError(f"full.data must be some of {', '.join(NAMES)}, each with its data_passes")
        for name in ("data_passes", "steps", "levels"):
            for value in getattr(self, name):
                above_zero(f"full.{name}", value)
        for passes in self.data_passes:
            if passes <= self.center_passes:
                raise ConfigError(f"full.data_passes must be above center_passes; got {passes}")

    @property
    def named(self) -> dict[str, Method]:
        """The methods by their labels; steps are found for them."""
        tables = enumerate(self.methods, 1)
        return {each.label: each for each in (method_of({"step_size": 1.0, **table}, i) for i, table in tables)}


def rows_of(name: str, stand_in_rows: int) -> tuple[str, Data, Data]:
    """Return what the data are called, standardised rows to train on with an intercept, and rows to judge by."""
    try:
        whole = datasets.load(name)
    except FileNotFoundError:
        if name != SUSY:
            raise
        whole = stand_in(stand_in_rows)
    parts = datasets.standardise(*datasets.split(whole, 0.2, 0))
    train, test = ({"x": with_intercept(part.x), "y": jnp.asarray(part.y, jnp.int32)} for part in parts)
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
    return datasets.Dataset(x=x, y=y.astype(np.int8), feature_names=names, name=STAND_IN, source="drawn")


@dataclass(frozen=True)
class Target:
    """A posterior with its rows, L, the score at its mean and where SAGA found its mode."""

    name: str
    problem: Problem
    curvature: float
    optimum: float
    center: jax.Array


@functools.cache
def target(name: str, stand_in_rows: int, scale: float, batch_size: int, passes: float, rows: float) -> Target:
    """Return the target of a data set; arguments as in `Settings`."""
    called, train, test = rows_of(name, stand_in_rows)
    posterior = models.logistic_regression(prior_scale=scale)
    n, d = train["x"].shape
    problem = Problem(posterior, train, test, jnp.zeros(d), {"score": log_likelihood(posterior)})
    mode = find_mode(jax.random.key(0), posterior, jnp.zeros(d), train)
    kernel = uld(posterior, 0.5, friction=1.0, integrator="BAOAB", inverse_mass=mode.inverse_mass)
    steps = int(np.clip(rows / n, 300, 5_000))
    options: dict[str, Any] = {
        "num_chains": 8,
        "keep": None,
        "moments": moments(covariance="none"),
    }
    long = sample(jax.random.key(1), kernel, mode.position, train, steps, burn_in=steps // 10, **options)
    assert long.moments is not None
    mean = jnp.asarray(np.asarray(long.moments.mean).mean(0))
    curvature = 1 / float(np.linalg.eigvalsh(np.asarray(mode.covariance, float))[0])
    cold = saga_ld(posterior, CENTER_STEP / curvature, batch_size=batch_size, temperature=COLD)
    found = sample(jax.random.key(2), cold, problem.start, train, data_passes=passes)
    center = found.state.position[0]
    return Target(called, problem, curvature, float(score_of(posterior, mean[None], test)[0]), center)


@functools.partial(jax.jit, static_argnums=0)
def score_of(posterior: Posterior, positions: jax.Array, test: Data) -> jax.Array:
    """Return the mean log likelihood of held-out rows at each position."""
    return jax.lax.map(lambda position: posterior.log_likelihoods(position, test).mean(), positions)


def on(name: str, passes: float, settings: Settings) -> Numbers:
    """Return how soon each method reaches each level on a data set."""
    s = settings
    made = target(name, s.stand_in_rows, s.prior_scale, s.batch_size, s.center_passes, s.reference_rows)
    n = len(made.problem.train["y"])
    grid = np.geomspace(2 * s.batch_size / n, passes, 50)
    found: dict[str, Any] = {}
    spent = 0
    for number, (label, method) in enumerate(s.named.items()):
        key = jax.random.fold_in(jax.random.key(3), number)
        runs, at = reaching.run(key, method, made.problem, made.curvature, made.center, passes, s)
        far = np.full((len(runs), s.num_trials, len(grid)), np.nan)
        last = np.searchsorted(at, grid * (1 + 1e-6), side="right") - 1
        for member, each in enumerate(runs):
            means = reaching.averages(np.asarray(each.position), np.asarray(each.step_size), last[last >= 0])
            scores = score_of(
                made.problem.posterior, jnp.asarray(means.reshape(-1, means.shape[-1])), made.problem.test
            )
            far[member][:, last >= 0] = np.abs(np.asarray(scores).reshape(means.shape[:2]) - made.optimum)
        found[label], best = reaching.told(far, grid, s.levels)
        found[label]["check"] = checked(key, runs[best], made.problem)
        found[label]["best"] = {x: float(f"{float(y[best]):.3g}") for x, y in runs.values.items()}
        spent += int(runs.whole.gradient_evaluations) * len(runs)
    shown = {"data": made.name, "rows": n, "optimum": round(made.optimum, 5), "levels": s.levels}
    shown["search"] = s.center_passes
    return shown | {"passes": [float(f"{x:.3g}") for x in grid], "methods": found, "evaluations": spent}


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: each data set."""
    sets = zip(settings.data, settings.data_passes, strict=True)
    return {name: lambda _, name=name, passes=passes: on(name, passes, settings) for name, passes in sets}
