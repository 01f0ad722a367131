"""Answers in plain words: of a plan before a run, and of draws after it."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.base.table import aligned
from ewsg_jax.base.typing import Key, PyTree
from ewsg_jax.cli.console import STATUS_OF, Exit
from ewsg_jax.cli.estimates import lines_of
from ewsg_jax.cli.problem import Regression
from ewsg_jax.draws.coordinates import with_digits
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.run.request import num_steps_of


def steps_of(plan: ewsg.Plan, ess: float | None) -> int:
    """Return the steps of each chain that make this many effective draws of all chains."""
    return num_steps_of(plan.cost, plan.num_rows, None, plan.data_passes(ess), None)


def of_plan(plan: ewsg.Plan, problem: Regression) -> list[str]:
    """Return which kernel, whether it is trusted and why, and what a run costs: a line each."""
    # The length that a check is planned to decide.
    passes, steps = plan.data_passes(), steps_of(plan, None)
    gradients = passes * plan.num_chains * plan.num_rows
    return [
        f"Kernel: {kernel_of(plan)}",
        with_names(_trust(plan), problem),
        f"A run to an effective sample size of {plan.ess:,.0f}: {passes:,.4g} passes over the "
        f"data by each of {plan.num_chains} chains, {steps:,} steps ({gradients:.2g} gradients of "
        "a row in all)",
    ]


def with_names(text: str, problem: Regression) -> str:
    """Return what a plan says with the names of weights, which it knows by their places, and of
    options.
    """
    assert problem.mode is not None
    places = (",".join(map(str, place)) for place in np.ndindex(problem.mode.position.shape))
    names = dict(zip(places, problem.names, strict=True))
    text = re.sub(r"\bposition\[([\d,]+)\]", lambda match: names.get(match[1], match[0]), text)
    return with_options(text)


def with_options(text: str) -> str:
    """Return advice with the options of the command line in the place of arguments in Python.

    Example:
        >>> with_options("a larger seconds= of plan; more draws (max_draws=8000)")
        'a larger --seconds of plan; more draws (--max-draws 8000)'
    """
    argument = re.compile(r"\b(max_passes|max_draws|seconds)=(?=(\w?))")
    return argument.sub(lambda m: f"--{m[1].replace('_', '-')}{' ' if m[2] else ''}", text)


def kernel_of(plan: ewsg.Plan) -> str:
    """Return the kernel that a plan takes, as its table names it."""
    if not plan.table or not isinstance(plan.kernel, Pair):
        return repr(plan.kernel)
    best = plan.table[0]
    friction = f", friction {best.friction:.3g}" if best.friction else ""
    return (
        f"{best.candidate}, {best.batch_size:,} of {plan.num_rows:,} rows a step; step size "
        f"{best.step_size:.3g}{friction}"
    )


def _trust(plan: ewsg.Plan) -> str:
    if not plan.is_trusted:
        return f"NOT TRUSTED: {'; '.join(plan.doubts)}. What to do: {plan.advice}"
    if plan.report is None:
        return "Trusted: the posterior is near normal, so that what the kernel samples is known"
    if plan.report.outcome == "unsure":
        ess = plan.report.scores.ess
        return f"Trusted: a pilot run of {ess:,.0f} effective draws shows no bias"
    return f"Trusted: a pilot run was checked: {plan.report.verdict}"


def gaussian_of(plan: ewsg.Plan, problem: Regression) -> list[str]:
    """Return the answer without a chain, a line each; nothing if it is not right."""
    normal = plan.gaussian
    if normal is None or not normal.is_right:
        return []
    (draws,) = jax.tree.leaves(normal.report.correct(normal.draws))
    said = with_names(f"Without a chain: {normal.verdict}", problem)
    draws = np.asarray(draws)
    return [said, *weights(problem, draws), *lines_of(problem, draws)]


def weights(problem: Regression, draws: np.ndarray) -> list[str]:
    """Return a table of means and standard deviations of weights, a line each.

    If features are scaled, the table also has the weights of the features in their own units.

    Args:
        problem: the regression that was sampled.
        draws: draws of its weights, with the leading axes (chain, draw).
    """
    rows, header = _moments(problem.names, draws), ["", "mean", "sd"]
    if problem.original is not None:
        header += ["mean, unscaled", "sd, unscaled"]
        unscaled = _moments(problem.original.names, problem.original.of(draws))
        rows = {name: rows.get(name, ["", ""]) + of for name, of in unscaled.items()}
    # A screen.
    shown = [[name, *row] for name, row in rows.items()][:30]
    more = len(rows) - len(shown)
    return aligned([header, *shown]) + [f"({more} more, which are not shown)"] * (more > 0)


def _moments(names: Sequence[str], draws: np.ndarray) -> dict[str, list[str]]:
    flat = np.asarray(draws, float).reshape(-1, len(names))
    return {
        name: [with_digits(mean, sd), f"{sd:.4g}"]
        for name, mean, sd in zip(names, flat.mean(axis=0), flat.std(axis=0), strict=True)
    }


# After a run.


class Judgement(NamedTuple):
    """What may be believed of draws.

    Attributes:
        status: the exit status that goes with it.
        words: its outcome in capitals, and why.
        report: what `ewsg_jax.check` says; None if no check was needed or made.
    """

    status: int
    words: str
    report: ewsg.Report | None = None


def judge(
    key: Key,
    draws: PyTree,
    problem: Regression,
    tolerance: float,
    every_draw: bool = False,
    **options: Any,
) -> Judgement:
    """Judge draws: what `ewsg_jax.sample` returned, or a pytree of arrays (chain, draw, …).

    Args:
        key: a PRNG key for the check.
        draws: a run, or positions with the leading axes (chain, draw).
        problem: the regression whose posterior the draws should have.
        tolerance: relative error of a standard deviation that is tolerated.
        every_draw: whether all draws are used if a part of them does not show that they are right.
        **options: other arguments of `ewsg_jax.check`.

    Raises:
        TypeError, ValueError: those that `ewsg_jax.check` raises.
    """
    is_run = isinstance(draws, ewsg.Samples)
    leaf = np.asarray(jax.tree.leaves(draws.position if is_run else draws)[0])
    alive = draws.is_finite if is_run else np.isfinite(leaf).all(axis=tuple(range(1, leaf.ndim)))
    if not np.any(alive):
        return Judgement(Exit.WRONG, "WRONG: every chain diverged. Take smaller steps")
    if leaf.shape[1] < check_settings.MIN_CHAIN_DRAWS:
        few = f"UNSURE: too few draws to check, {leaf.shape[1]} of a chain. Run longer"
        return Judgement(Exit.DOUBTFUL, few)
    options |= {"tolerance": tolerance, "names": problem.names}
    report = ewsg.check(key, draws, problem.posterior, problem.train, **options)
    if every_draw and report.outcome != "right":
        options |= {"max_draws": leaf.shape[0] * leaf.shape[1]}
        report = ewsg.check(key, draws, problem.posterior, problem.train, **options)
    # The verdict on draws that are right begins with that word.
    verdict = report.verdict.removeprefix("right")
    words = f"{report.outcome.upper()}{'' if verdict.startswith(' ') else ': '}{verdict}"
    return Judgement(STATUS_OF[report.outcome], with_options(words), report)
