"""Methods that are judged by what they predict: runs at equal passes, and held-out scores along
them.

A `Problem` is what methods are run on, a `Budget` how long. `measured` runs a kernel, and judges
predictions by `metrics` and draws by `check`. `tuned` picks options for every method alike, by
held-out rows. Methods are compared by the scores with which they end: curves are what `measured`
gives of each method, by label, one such dictionary for each data set.
"""

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers.annotations import Array, Data, Key, Position
from benchmarks.papers.experiment import Claim, Numbers
from benchmarks.papers.figures import Line, numbers
from benchmarks.papers.metrics import Predict
from ewsg_jax import METHODS, Kernel, Posterior, Report, Samples, check, sample, stack
from ewsg_jax.cli.config import ConfigError, MethodConfig
from ewsg_jax.cli.plan import steps_of_passes
from ewsg_jax.rows import all_rows


@dataclass(frozen=True, eq=False)
class Problem:
    """A posterior with its data.

    Attributes:
        posterior: of the training rows.
        train: rows to train on.
        test: held-out rows; None where there are none.
        start: where chains start, as `ewsg_jax.sample` takes it.
        metrics: scores of predictions for the held-out rows, by name.
    """

    posterior: Posterior
    train: Data
    test: Data
    start: Position | Callable[[Key], Position]
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Budget:
    """How long all methods run, and what is kept.

    Attributes:
        data_passes: over the training rows, of each chain; all that is evaluated counts, at the
            start too.
        num_repeats: independent repeats.
        ensemble: chains of each, which predict together.
        num_draws: draws along the passes, at least; the last one is at the end.
        burn_in_passes: passes that no draw is kept of.
        running: whether predictions are those of all draws so far, and not of this draw alone.
    """

    data_passes: float
    num_repeats: int
    ensemble: int = 1
    num_draws: int = 20
    burn_in_passes: float = 0.0
    running: bool = False

    @property
    def num_chains(self) -> int:
        """All chains: of repeat r those from r · ensemble on."""
        return self.num_repeats * self.ensemble


JUDGED, DIGITS = 8, 5
"""Chains into which the last positions of many are sorted to be checked; digits that are kept of a
number.
"""


def scores(samples: Samples, problem: Problem, budget: Budget) -> dict[str, np.ndarray]:
    """Return each metric of each repeat along the draws, shape (repeat, draw); NaN where a chain
    was lost.

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
        now = jax.tree.map(
            lambda x, i=draw: x[:, i].reshape(*shape, *x.shape[2:]), samples.position
        )
        predicted = {}
        for way in {(metric.predict, metric.log): None for metric in problem.metrics.values()}:
            predicted[way] = _together(now, test, *way)
            if budget.running:
                before = totals.get(way)
                totals[way] = (
                    predicted[way] if before is None else _added(before, predicted[way], way[1])
                )
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
    """Return how far draws are from the posterior: the outcome, the worst ratio of sds, the largest
    shift of means.

    Of 64 chains or more the last positions are looked at, as if they were draws of eight; of fewer
    the draws of the second half. The outcome is None, with a `note`, where it cannot be told.
    """
    finite = np.flatnonzero(samples.is_finite)
    if not len(finite):
        return {"outcome": None, "note": "all chains were lost"}
    groups = len(finite) // JUDGED
    late = samples.num_draws - samples.num_draws // 2
    if groups >= JUDGED:
        cut = finite[: groups * JUDGED]
        draws = jax.tree.map(
            lambda x: x[cut, -1].reshape(JUDGED, groups, *x.shape[2:]), samples.position
        )
    else:
        draws = jax.tree.map(lambda x: x[finite, -late:], samples.position)
    try:
        shared = bool(samples.shared_minibatch) and groups < JUDGED
        report = check(
            jax.random.fold_in(key, 0),
            draws,
            problem.posterior,
            problem.train,
            shared_minibatch=shared,
        )
    except ValueError as error:
        return {"outcome": None, "note": str(error)}
    return worst(report)


def worst(report: Report) -> Numbers:
    """Return what a check says of all coordinates: the outcome, the worst ratio of sds, the largest
    shift.
    """
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


def has_friction(name: Any) -> bool:
    """Return whether a method, by its name, has a momentum and a friction of it; False where there
    is no such.
    """
    return name in METHODS and "friction" in inspect.signature(METHODS[name].build).parameters


def kernel_of(method: MethodConfig, posterior: Posterior, **changed: Any) -> Kernel:
    """Return a method's kernel of a posterior, with its own options or some of them changed."""
    return METHODS[method.name].build(posterior, **{**method.options, **changed})


def run(key: Key, kernel: Kernel, problem: Problem, budget: Budget, **options: Any) -> Any:
    """Return samples of a kernel, or of a stack of kernels, at a budget; lost chains are no news.

    Args:
        key: a typed PRNG key.
        kernel: which.
        problem: of what.
        budget: how long.
        **options: of `ewsg_jax.sample`, such as `shared_minibatch`.

    Raises:
        ConfigError: the budget allows no step.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        passes = (budget.data_passes, budget.burn_in_passes)
        num_steps, burn_in = steps_of_passes(kernel, problem.train, *passes)
        if num_steps <= burn_in:
            raise ConfigError(f"{kernel!r}: {budget.data_passes:g} passes keep no draw")
        thin = max(1, (num_steps - burn_in) // budget.num_draws)
        given: dict[str, Any] = {"num_chains": budget.num_chains, "thin": thin} | options
        # The last draw is that of the last step.
        burn_in = num_steps - thin * ((num_steps - burn_in) // thin)
        return sample(
            key, kernel, problem.start, problem.train, num_steps, burn_in=burn_in, **given
        )


def measured(
    key: Key, kernel: Kernel, problem: Problem, budget: Budget, judged: bool = True, **options: Any
) -> Numbers:
    """Run a kernel, and return what its predictions and draws are worth.

    Args:
        key: a typed PRNG key.
        kernel: which.
        problem: of what, with metrics.
        budget: how long.
        judged: whether draws are checked against the posterior too.
        **options: of `ewsg_jax.sample`.

    Returns:
        `passes`; for each metric `NAME` its `mean` and `sd` over repeats along them, and of each
        repeat the `last`; `evaluations` of all chains, `per_step` of one, `seconds`,
        `compile_seconds`, repeats that were `lost`, and what `check` says.
    """
    return numbers_of(key, run(key, kernel, problem, budget, **options), problem, budget, judged)


def numbers_of(
    key: Key, samples: Samples, problem: Problem, budget: Budget, judged: bool = True
) -> Numbers:
    """Return what `measured` does, of a run that there is, such as a member of a stack."""
    numbers: Numbers = {"passes": short(samples.evaluations / samples.num_data)}
    for name, values in scores(samples, problem, budget).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            mean, sd = np.nanmean(values, 0), np.nanstd(values, 0)
        numbers[name] = {"mean": short(mean), "sd": short(sd), "last": short(values[:, -1])}
    numbers |= {
        "evaluations": int(samples.gradient_evaluations),
        "per_step": float(f"{samples.data_passes * samples.num_data / samples.num_steps:.4g}"),
        "seconds": round(samples.run_seconds, 2),
        "compile_seconds": round(samples.compile_seconds, 2),
        "lost": int(lost(samples, budget).sum()),
    }
    return numbers | ({"check": checked(key, samples, problem)} if judged else {})


def folds(problem: Problem, count: int, seed: int, num_used: int | None = None) -> list[Problem]:
    """Return problems whose rows to judge by are each a share of the training rows, and whose
    others train.

    Args:
        problem: which; its test rows are not looked at.
        count: shares that the training rows are cut into at random, at least 2.
        seed: of the cut.
        num_used: how many of them are judged by, all by default; 1 is a single validation split.
    """
    n = all_rows(problem.train)
    order = np.random.default_rng(seed).permutation(n)
    found = []
    for part in np.array_split(order, count)[:num_used]:
        others = np.setdiff1d(np.arange(n), part)
        found.append(
            replace(problem, train=_rows(problem.train, others), test=_rows(problem.train, part))
        )
    return found


def tuned(
    key: Key,
    method: MethodConfig,
    problems: Sequence[Problem],
    candidates: Sequence[Mapping[str, Any]],
    budget: Budget,
    metric: str,
    **options: Any,
) -> Numbers:
    """Return the options of which the metric after all passes is best, as a mean over problems and
    repeats.

    All candidates run in one program, on the same batches and noise. One that loses a chain is
    unstable, and never taken.

    Args:
        key: a typed PRNG key.
        method: its own options stand where a candidate says nothing.
        problems: whose test rows are the rows to judge by, such as `folds`.
        candidates: options that differ by numbers: `[{"step_size": 1e-3}, …]`.
        budget: the same for every method.
        metric: its name.
        **options: of `ewsg_jax.sample`.

    Returns:
        `best`, the options, None where no candidate is stable; `scores` of the candidates, None of
        unstable ones; `evaluations`.
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


Curves = dict[str, Any]


def ends(sets: Sequence[Curves], label: str, metric: str, higher: bool = False) -> np.ndarray:
    """Return a method's last scores, of each repeat on each data set; the worst there is where a
    chain was lost.
    """
    found = np.concatenate([numbers(each[label][metric]["last"]) for each in sets])
    return np.where(np.isnan(found), -np.inf if higher else np.inf, found)


def better(
    sets: Sequence[Curves],
    first: str,
    second: str,
    metric: str,
    words: str,
    *,
    higher: bool = False,
    below: float = float("inf"),
    by_the_paper: bool = True,
) -> Claim:
    """Return the claim that one method ends with a better score than another, repeat by repeat.

    Args:
        sets: the curves of each data set.
        first: the better one.
        second: the other one.
        metric: its name.
        words: what is claimed.
        higher: whether a higher score is better.
        below: what the first method's score must be below besides, to be better than anything.
        by_the_paper: as for `Claim`.
    """
    one, other = (ends(sets, label, metric, higher) for label in (first, second))
    so = (one > other if higher else one < other) & (one < below)
    shown = (
        f"{so.sum()} of {len(so)} repeats; medians: {first} {np.median(one):.4g}, {second} "
        f"{np.median(other):.4g}"
    )
    return Claim(words, float(so.mean()), shown, by_the_paper)


def line(sets: Sequence[Curves], label: str, metric: str, mark: str = "", **more: Any) -> Line:
    """Return the median of a method's mean score over data sets along passes; `mark` is what it is
    called.
    """
    means = [
        numbers(each[label][metric]["mean"]) for each in sets if len(each[label]["passes"]) > 1
    ]
    if not means:
        return Line(mark, [], [], of=label, **more)
    shortest = min(map(len, means))
    middle = np.median([each[:shortest] for each in means], axis=0)
    passes = next(each[label]["passes"] for each in sets if len(each[label]["passes"]) > 1)
    return Line(mark, passes[:shortest], [float(x) for x in middle], of=label, **more)
