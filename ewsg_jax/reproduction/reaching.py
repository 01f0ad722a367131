"""Runs of a method at many steps and schedules, and when each level of an error is reached."""

import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import numpy as np

from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Key
from ewsg_jax.experiments.config import Method
from ewsg_jax.methods import METHODS
from ewsg_jax.posterior import Posterior
from ewsg_jax.reproduction.decreasing import Decreasing
from ewsg_jax.reproduction.experiment import Numbers
from ewsg_jax.reproduction.problem import Problem
from ewsg_jax.sampling import sample
from ewsg_jax.stacking import stack

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


def kernel_of(method: Method, posterior: Posterior, curvature: float, step: float, over: float) -> Kernel:
    """Return a method's kernel at a step in units of 1/L, or of time where it has a momentum."""
    record, unit = METHODS[method.name], 1 / curvature
    has_friction = "langevin" not in record.dynamics
    falling = Decreasing(first=step if has_friction else step * unit, over=over, power=FALL)
    given = {"inverse_mass": unit, "friction": FRICTION} if has_friction else {}
    return record.build(posterior, **{**method.options, **given, "step_size": falling})


def run(
    key: Key, method: Method, problem: Problem, curvature: float, center: jax.Array, passes: float, tried: Tried
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
        `reached`, passes or None; `error` along passes, and its least value, `floor`, of the member that is best at
        the end; all in the second half of the trials, by members that the first half chooses.
    """
    half = far.shape[1] // 2
    tuning, judged = (np.where(np.isnan(x), np.inf, x) for x in (far[:, :half].mean(1), far[:, half:].mean(1)))
    reached = []
    for level in levels:
        member = min(range(len(far)), key=lambda i, level=level: (_first(tuning[i], grid, level), tuning[i, -1]))
        passes = _first(judged[member], grid, level)
        reached.append(float(f"{passes:.3g}") if np.isfinite(passes) else None)
    best = int(np.argmin(tuning[:, -1]))
    error = [float(f"{x:.3g}") if np.isfinite(x) else None for x in judged[best]]
    return {"reached": reached, "error": error, "floor": float(f"{judged[best].min():.3g}")}, best


def _first(errors: np.ndarray, grid: np.ndarray, level: float) -> float:
    """Return the passes at which errors are first within a level, ∞ where they never are."""
    within = np.flatnonzero(errors <= level)
    return float(grid[within[0]]) if len(within) else float("inf")
