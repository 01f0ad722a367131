"""Variance-reduced Langevin and Hamiltonian methods on the Bayesian regressions of Li et al., Fig. 1, 2, 5 and 6.

Linear regression with noise of variance 1 or logistic regression, prior N(0, I), batches of 10, anchors renewed
every n/b steps; the mean squared error or the mean log likelihood of held-out rows along passes. Step and friction
are those of a grid that are best on held-out rows of eight folds after few passes, each draw by itself, for all
methods alike; Langevin methods have a step alone. Grids are in units of L, the largest curvature at the mode: of
steps 1/L, or 1/√L with a momentum, of friction √L. Open in the paper: the grids, the passes of its search, scaling
(features and y are standardised here, y has no mean), where chains start (at 0), whether predictions are averaged
(not over draws here; curves are means over repeats, which come to the mean score of single draws of the
posterior). It prints no numbers.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import models
from ewsg_jax.experiments.config import Method, method_of
from ewsg_jax.experiments.tables import ConfigError, above_zero, at_least, at_most
from ewsg_jax.forecasting import forecast
from ewsg_jax.methods import METHODS
from ewsg_jax.preparation import Mode, find_mode
from ewsg_jax.reproduction import metrics
from ewsg_jax.reproduction.experiment import Numbers, Parts
from ewsg_jax.reproduction.hmc_data import CLASSIFICATION, FOLDS, REGRESSION, rows_of
from ewsg_jax.reproduction.judging import short
from ewsg_jax.reproduction.predicting import kernel_of, measured
from ewsg_jax.reproduction.problem import Budget, Problem
from ewsg_jax.reproduction.tuning import folds, tuned

SCORE, GRID = "score", "grid"
LIMIT_DRAWS = 1_000
"""By which the score that chains come to is found."""


@dataclass(frozen=True)
class Settings:
    """Data sets, repeats, passes, passes and folds of tuning, and the grid in units of L."""

    data: tuple[str, ...]
    num_repeats: int
    data_passes: float
    num_draws: int
    tuning_passes: float
    tuning_repeats: int
    num_folds: int
    steps: tuple[float, ...]
    frictions: tuple[float, ...]
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        at_least("full", self, num_repeats=1, num_draws=1, tuning_repeats=1, num_folds=1)
        at_most("full", self, num_folds=FOLDS)
        for name in ("steps", "frictions"):
            for value in getattr(self, name):
                above_zero(f"full.{name}", value)
            if not getattr(self, name):
                raise ConfigError(f"full.{name} must not be empty")
        of_a_kind = set(self.data) <= set(REGRESSION) or set(self.data) <= set(CLASSIFICATION)
        if not self.data or not of_a_kind:
            known = f"some of {', '.join(REGRESSION)}, or some of {', '.join(CLASSIFICATION)}"
            raise ConfigError(f"full.data must be {known}; got {list(self.data)}")

    @property
    def named(self) -> dict[str, Method]:
        """The methods by their labels; steps and frictions are found for them."""
        found = {}
        for number, table in enumerate(self.methods, 1):
            has_friction = "hmc" in str(table.get("name"))
            method = method_of({"step_size": 1.0} | ({"friction": 1.0} if has_friction else {}) | table, number)
            found[method.label] = method
        return found


@dataclass(frozen=True)
class Posed:
    """A data set's problem, that of choosing, and what is known of the posterior."""

    problem: Problem
    choosing: Problem
    mode: Mode[jax.Array]
    curvature: float


@functools.cache
def posed(name: str) -> Posed:
    """Return the problem of a data set."""
    rows = rows_of(name, 0)
    is_regression = name in REGRESSION
    posterior = models.linear_regression() if is_regression else models.logistic_regression()
    judged = metrics.mse() if is_regression else metrics.log_likelihood(posterior)
    start = jnp.zeros(rows.train["x"].shape[1])
    problem = Problem(posterior, rows.train, rows.test, start, {SCORE: judged})
    mode = find_mode(jax.random.key(0), posterior, start, rows.train)
    curvature = 1 / float(np.linalg.eigvalsh(np.asarray(mode.covariance, float))[0])
    return Posed(problem, replace(problem, train=rows.chosen_by), mode, curvature)


def has_momentum(method: Method) -> bool:
    """Return whether a method has a momentum."""
    return "langevin" not in METHODS[method.name].dynamics


def candidates(method: Method, curvature: float, settings: Settings) -> list[dict[str, float]]:
    """Return the grid of a method."""
    if not has_momentum(method):
        return [{"step_size": c / curvature} for c in settings.steps]
    root = curvature**0.5
    return [{"step_size": c / root, "friction": g * root} for c in settings.steps for g in settings.frictions]


def value_at(problem: Problem, position: jax.Array) -> float:
    """Return the score of one position."""
    metric = problem.metrics[SCORE]
    return float(metric.score(metric.predict(position, problem.test), problem.test))


def limit(of: Posed) -> float:
    """Return the mean score of single draws of the posterior, by the normal law around its mode."""
    root = jnp.linalg.cholesky(of.mode.covariance)
    draws = of.mode.position + jax.random.normal(jax.random.key(2), (LIMIT_DRAWS, len(root))) @ root.T
    metric, test = of.problem.metrics[SCORE], of.problem.test
    return float(jax.lax.map(lambda position: metric.score(metric.predict(position, test), test), draws).mean())


def on(name: str, settings: Settings) -> Numbers:
    """Return each method's tuned options, curve and largest stable step on a data set."""
    of = posed(name)
    parts_of = folds(of.choosing, FOLDS, seed=0, num_used=settings.num_folds)
    choosing = Budget(settings.tuning_passes, settings.tuning_repeats, num_draws=1)
    budget = Budget(settings.data_passes, settings.num_repeats, num_draws=settings.num_draws)
    found: dict[str, Any] = {}
    spent = 0
    for number, (label, method) in enumerate(settings.named.items()):
        key = jax.random.fold_in(jax.random.key(1), number)
        grid = candidates(method, of.curvature, settings)
        chosen = tuned(key, method, parts_of, grid, choosing, SCORE)
        best = chosen["best"] or grid[0]
        told = measured(key, kernel_of(method, of.problem.posterior, **best), of.problem, budget)
        spent += chosen["evaluations"] + told.pop("evaluations")
        unit = of.curvature**0.5 if has_momentum(method) else of.curvature
        found[label] = {
            "passes": [float(f"{x:.4g}") for x in told["passes"]],
            "mean": told[SCORE]["mean"],
            "step": short(best["step_size"] * unit),
            "friction": short(best["friction"] / unit) if "friction" in best else None,
            "stable": stable(method, of, settings) if has_momentum(method) else None,
            "lost": told["lost"],
            "check": told["check"],
        }
    shown = {"rows": len(of.problem.train["y"]), "dimension": of.problem.train["x"].shape[1]}
    scores = {"start": short(value_at(of.problem, jnp.zeros_like(of.mode.position))), "limit": short(limit(of))}
    return shown | scores | {"methods": found, "evaluations": spent}


def stable(method: Method, of: Posed, settings: Settings) -> list[float]:
    """Return the largest stable step at each friction, in units of 1/√L, by forecast."""
    root, found = of.curvature**0.5, []
    for friction in settings.frictions:
        kernel = kernel_of(method, of.problem.posterior, step_size=0.1 / root, friction=friction * root)
        found.append(short(forecast(kernel, of.mode, of.problem.train).largest_step * root))
    return found


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: the grid, then each data set."""

    def grid(_: Parts) -> Numbers:
        return {"steps": settings.steps, "frictions": settings.frictions}

    return {GRID: grid} | {name: lambda _, name=name: on(name, settings) for name in settings.data}


def data_sets(parts: Parts) -> dict[str, Numbers]:
    """Return the numbers of each data set."""
    return {name: part for name, part in parts.items() if name != GRID}
