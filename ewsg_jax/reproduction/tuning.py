"""One tuner for every method alike: options from a list, by rows that are held out of the training rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from ewsg_jax._types import Data, Key
from ewsg_jax.experiments.config import Method
from ewsg_jax.reproduction.experiment import Numbers
from ewsg_jax.reproduction.judging import scores, short
from ewsg_jax.reproduction.predicting import kernel_of, run
from ewsg_jax.reproduction.problem import Budget, Problem
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.stacking import stack


def folds(problem: Problem, count: int, seed: int, num_used: int | None = None) -> list[Problem]:
    """Return problems whose rows to judge by are each a share of the training rows, and whose others train.

    Args:
        problem: which; its test rows are not looked at.
        count: shares that the training rows are cut into at random, at least 2.
        seed: of the cut.
        num_used: how many of them are judged by, all by default; 1 is a single validation split.
    """
    n = num_rows(problem.train)
    order = np.random.default_rng(seed).permutation(n)
    found = []
    for part in np.array_split(order, count)[:num_used]:
        others = np.setdiff1d(np.arange(n), part)
        found.append(replace(problem, train=_rows(problem.train, others), test=_rows(problem.train, part)))
    return found


def tuned(
    key: Key,
    method: Method,
    problems: Sequence[Problem],
    candidates: Sequence[Mapping[str, Any]],
    budget: Budget,
    metric: str,
    **options: Any,
) -> Numbers:
    """Return the options of which the metric after all passes is best, as a mean over problems and repeats.

    All candidates run in one program, on the same batches and noise. One that loses a chain is unstable, and never
    taken.

    Args:
        key: a typed PRNG key.
        method: its own options stand where a candidate says nothing.
        problems: whose test rows are the rows to judge by, such as `folds`.
        candidates: options that differ by numbers: `[{"step_size": 1e-3}, …]`.
        budget: the same for every method.
        metric: its name.
        **options: of `ewsg_jax.sample`.

    Returns:
        `best`, the options, None where no candidate is stable; `scores` of the candidates, None of unstable ones;
        `evaluations`.
    """
    judged = problems[0].metrics[metric]
    totals, evaluations = np.zeros(len(candidates)), 0
    for number, problem in enumerate(problems):
        one = replace(problem, metrics={metric: judged})
        kernels = stack([kernel_of(method, problem.posterior, **each) for each in candidates])
        runs = run(jax.random.fold_in(key, number), kernels, one, budget, **options)
        for i, samples in enumerate(runs):
            totals[i] += np.mean(scores(samples, one, budget)[metric][:, -1]) / len(problems)
            evaluations += int(samples.gradient_evaluations)
    ranked = np.where(np.isfinite(totals), totals, -np.inf if judged.higher else np.inf)
    best = int(np.argmax(ranked) if judged.higher else np.argmin(ranked))
    return {
        "best": dict(candidates[best]) if np.isfinite(totals[best]) else None,
        "scores": [short(x) if np.isfinite(x) else None for x in totals],
        "evaluations": evaluations,
    }


def _rows(data: Data, chosen: np.ndarray) -> Data:
    return jax.tree.map(lambda x: x[chosen], data)
