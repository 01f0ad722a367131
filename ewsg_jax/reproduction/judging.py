"""What a run's predictions are worth, and how far its draws are from the posterior."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import Array, Data, Key, Position
from ewsg_jax.checking import Report, check
from ewsg_jax.reproduction.experiment import Numbers
from ewsg_jax.reproduction.metrics import Predict
from ewsg_jax.reproduction.problem import Budget, Problem
from ewsg_jax.sampling import Samples

JUDGED, DIGITS = 8, 5
"""Chains into which the last positions of many are sorted to be checked; digits that are kept of a number."""


def scores(samples: Samples, problem: Problem, budget: Budget) -> dict[str, np.ndarray]:
    """Return each metric of each repeat along the draws, shape (repeat, draw); NaN where a chain was lost.

    A run that lost all chains before it kept a draw has one, of NaN.

    Args:
        samples: of `run`.
        problem: of what; its test rows and metrics.
        budget: which chains predict together, and by which draws.
    """
    shape = budget.num_repeats, budget.ensemble
    if not samples.num_draws:
        return {name: np.full((budget.num_repeats, 1), np.nan) for name in problem.metrics}
    test = jax.tree.map(jnp.asarray, problem.test)
    totals: dict[tuple[Predict, bool], Array] = {}
    found: dict[str, list[np.ndarray]] = {name: [] for name in problem.metrics}
    for draw in range(samples.num_draws):
        now = jax.tree.map(lambda x, i=draw: x[:, i].reshape(*shape, *x.shape[2:]), samples.position)
        predicted = {}
        for way in {(metric.predict, metric.log): None for metric in problem.metrics.values()}:
            predicted[way] = _together(now, test, *way)
            if budget.running:
                before = totals.get(way)
                totals[way] = predicted[way] if before is None else _added(before, predicted[way], way[1])
                count = float(draw + 1)
                predicted[way] = totals[way] - math.log(count) if way[1] else totals[way] / count
        for name, metric in problem.metrics.items():
            each = predicted[metric.predict, metric.log]
            found[name].append(np.asarray(_scored(each, test, metric.score), float))
    gone = lost(samples, budget)[:, None]
    return {name: np.where(gone, np.nan, np.stack(each, 1)) for name, each in found.items()}


def lost(samples: Samples, budget: Budget) -> np.ndarray:
    """Return which repeats lost a chain, shape (repeat,)."""
    finite = samples.is_finite.reshape(budget.num_repeats, budget.ensemble)
    return np.asarray(~finite.all(axis=1))


def checked(key: Key, samples: Samples, problem: Problem) -> Numbers:
    """Return how far draws are from the posterior: the outcome, the worst ratio of sds, the largest shift of means.

    Of 64 chains or more the last positions are looked at, as if they were draws of eight; of fewer the draws of the
    second half. The outcome is None, with a `note`, where it cannot be told.
    """
    finite = np.flatnonzero(samples.is_finite)
    if not len(finite):
        return {"outcome": None, "note": "all chains were lost"}
    groups = len(finite) // JUDGED
    late = samples.num_draws - samples.num_draws // 2
    if groups >= JUDGED:
        cut = finite[: groups * JUDGED]
        draws = jax.tree.map(lambda x: x[cut, -1].reshape(JUDGED, groups, *x.shape[2:]), samples.position)
    else:
        draws = jax.tree.map(lambda x: x[finite, -late:], samples.position)
    try:
        shared = bool(samples.shared_minibatch) and groups < JUDGED
        report = check(jax.random.fold_in(key, 0), draws, problem.posterior, problem.train, shared_minibatch=shared)
    except ValueError as error:
        return {"outcome": None, "note": str(error)}
    return worst(report)


def worst(report: Report) -> Numbers:
    """Return what a check says of all coordinates: the outcome, the worst ratio of sds, the largest shift."""
    ratio, shift = (
        np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)]).astype(float)
        for tree in (report.sd_ratio, report.mean_shift)
    )
    return {
        "outcome": report.outcome,
        "sd_ratio": short(ratio[np.argmax(np.abs(np.log(ratio)))]),
        "mean_shift": short(np.abs(shift).max()),
    }


def short(values: Any) -> Any:
    """Return numbers with few digits, as JSON has them."""
    return [short(x) for x in values] if np.ndim(values) else float(f"{float(values):.{DIGITS}g}")


@functools.partial(jax.jit, static_argnums=(2, 3))
def _together(positions: Position, rows: Data, predict: Predict, log: bool) -> Array:
    """Return the mean prediction of each repeat, of positions with the axes (repeat, chain)."""

    def of_repeat(chains: Position) -> Array:
        each = jax.vmap(predict, (0, None))(chains, rows)
        return jax.nn.logsumexp(each, 0) - math.log(len(each)) if log else each.mean(0)

    return jax.lax.map(of_repeat, positions)


@functools.partial(jax.jit, static_argnums=2)
def _added(total: Array, prediction: Array, log: bool) -> Array:
    return jnp.logaddexp(total, prediction) if log else total + prediction


@functools.partial(jax.jit, static_argnums=2)
def _scored(predictions: Array, rows: Data, score: Callable[[Array, Data], Array]) -> Array:
    return jax.vmap(score, (0, None))(predictions, rows)
