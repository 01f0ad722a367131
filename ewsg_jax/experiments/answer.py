"""Answers in plain words: of a plan before a run, and of all runs after it."""

import re
from collections.abc import Sequence

import jax
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax._types import PyTree
from ewsg_jax.experiments.console import DOUBTFUL, OK, STATUS_OF, WRONG
from ewsg_jax.experiments.plan import Result
from ewsg_jax.experiments.problem import Regression
from ewsg_jax.experiments.results import aligned
from ewsg_jax.sampling.budget import num_steps_of
from ewsg_jax.sampling.coordinates import with_digits

ESS = 1_000
"""Effective draws whose price a plan says."""
MOST_ROWS = 30
"""Weights that a table in the terminal shows."""
DYNAMICS = {
    "langevin": "overdamped Langevin dynamics",
    "splitting": "underdamped Langevin dynamics (symmetric splitting)",
    "BAOAB": "underdamped Langevin dynamics (BAOAB)",
    "semi_implicit": "underdamped Langevin dynamics (semi-implicit Euler)",
    "exact": "underdamped Langevin dynamics (exact integrator)",
}
ESTIMATORS = {
    "full": "the gradient of all rows",
    "control_variate": "control variates at the centre",
    "svrg": "SVRG",
    "saga": "SAGA",
    "uniform": "plain minibatches",
}
ARGUMENTS = {
    r"report\.corrected": "the corrected values",
    r"max_draws=(\d+)": r"--max-draws \1 of check",
    r"max_draws=": "--max-draws of check",
    r"max_passes=": "--max-passes",
}
"""What the library names, a regular expression, and what it is on the command line."""
HEADS = {
    WRONG: "WRONG",
    DOUBTFUL: "UNSURE, too few draws to decide",
    OK: "RIGHT within tolerance",
}
"""What begins the list of runs of an outcome."""
FEWEST = 8
"""Draws of a chain that can be checked."""


def steps_of(plan: ewsg.Plan, ess: float | None) -> int:
    """Return the steps of each chain that make this many effective draws of all chains."""
    return num_steps_of(plan.cost, plan.num_rows, None, plan.data_passes(ess), None)


def of_plan(plan: ewsg.Plan, problem: Regression) -> list[str]:
    """Return which kernel, whether it is trusted and why, and what a run costs: a line each."""
    passes, steps = plan.data_passes(ESS), steps_of(plan, ESS)
    gradients = passes * plan.num_chains * plan.num_rows
    return [
        f"Kernel: {kernel_of(plan)}",
        with_names(_trust(plan), problem),
        f"A run to an effective sample size of {ESS:,}: {passes:,.4g} passes over the data by each "
        f"of {plan.num_chains} chains, {steps:,} steps ({gradients:.2g} gradients of a row in all)",
    ]


def with_names(text: str, problem: Regression) -> str:
    """Return what a plan says with the names of weights, which it knows by their places."""
    shape = np.shape(problem.mode.position) if problem.mode else (len(problem.names),)
    places = (",".join(map(str, place)) for place in np.ndindex(shape))
    names = dict(zip(places, problem.names, strict=True))
    named = re.sub(r"\bposition\[([\d,]+)\]", lambda found: names.get(found[1], found[0]), text)
    return for_terminals(named)


def kernel_of(plan: ewsg.Plan) -> str:
    """Return the kernel that a plan takes, in words."""
    shown = repr(plan.kernel)
    if shown.startswith("nuts("):
        return "NUTS, the No-U-Turn sampler, with the gradient of all rows"
    if not plan.table:
        return shown
    best = plan.table[0]
    rows = (
        "" if best.way.rows == "all" else f", {best.batch_size:,} of {plan.num_rows:,} rows a step"
    )
    rows += ", rows drawn by leverage" if best.way.rows == "leverage" else ""
    friction = f", friction {best.friction:.3g}" if best.friction else ""
    return (
        f"{DYNAMICS[best.way.dynamics]} with {ESTIMATORS[best.way.estimator]}{rows}; step size "
        f"{best.step_size:.3g}{friction}"
    )


def _trust(plan: ewsg.Plan) -> str:
    if not plan.is_trusted:
        return f"NOT TRUSTED: {'; '.join(plan.doubts)}. What to do: {plan.advice}"
    if plan.report is None:
        return (
            "Trusted: the posterior is near normal, by the gradients at draws around its mode, so "
            "that what the kernel samples is known"
        )
    if plan.report.outcome == "unsure":
        ess = plan.report.scores.ess
        return f"Trusted: a trial of {ess:,.0f} effective draws shows no bias"
    return f"Trusted: a trial was checked: {plan.report.verdict}"


def gaussian_of(plan: ewsg.Plan, problem: Regression) -> list[str]:
    """Return the answer without a chain, a line each; nothing where it is not right."""
    normal = plan.gaussian
    if normal is None or not normal.is_right:
        return []
    (draws,) = jax.tree.leaves(normal.report.correct(normal.draws))
    header, *rows = rows_of(problem, np.asarray(draws))
    more = len(rows) - MOST_ROWS
    return [
        with_names(f"Without a chain: {normal.verdict}", problem),
        *aligned([header, *rows[:MOST_ROWS]]),
        *([f"({more} more, which are not shown)"] if more > 0 else []),
    ]


def rows_of(problem: Regression, draws: np.ndarray) -> list[list[str]]:
    """Return means and standard deviations of weights in a table's cells, the header first, of
    draws with the leading axes (chain, draw).

    Where features are scaled: of the weights that are sampled, and of those of the features as they
    are given.
    """
    rows, header = _moments(problem.names, draws), ["", "mean", "sd"]
    if problem.original is not None:
        header += ["mean, unscaled", "sd, unscaled"]
        given = _moments(problem.original.names, problem.original.of(draws))
        rows = {name: rows.get(name, ["", ""]) + of for name, of in given.items()}
    return [header, *([name, *row] for name, row in rows.items())]


def _moments(names: Sequence[str], draws: np.ndarray) -> dict[str, list[str]]:
    flat = np.asarray(draws, float).reshape(-1, len(names))
    flat = flat[np.isfinite(flat).all(axis=1)]
    # Without a draw that is finite: NaN.
    means = flat.mean(axis=0) if len(flat) else np.full(len(names), np.nan)
    sds = flat.std(axis=0) if len(flat) else means
    return {
        name: [with_digits(mean, sd), f"{sd:.4g}"]
        for name, mean, sd in zip(names, means, sds, strict=True)
    }


# After a run.


def of_runs(results: Sequence[Result], is_interrupted: bool) -> list[str]:
    """Return three lines: what may be believed, what it is worth, and what it took."""
    said = [judgement(each) for each in results]
    is_alone = len(results) == 1
    labels: dict[int, list[str]] = {}
    for each, (status, _) in zip(results, said, strict=True):
        labels.setdefault(status, []).append(each.plan.label)
    # The worst first.
    by_outcome = [f"{HEADS[of]}: {', '.join(labels[of])}" for of in sorted(labels, reverse=True)]
    worth = [
        f"{'' if is_alone else f'{each.plan.label}: '}{each.summary.least_ess:,.0f}"
        for each in results
        if each.summary is not None
    ]
    took = sum(each.samples.compile_seconds + each.samples.run_seconds for each in results)
    gradients = sum(each.samples.gradient_evaluations for each in results)
    ended = "; INTERRUPTED, the rest is missing" if is_interrupted else ""
    return [
        said[0][1] if is_alone else "; ".join(by_outcome),
        f"Effective draws of the weight with the fewest: {', '.join(worth) or 'none'}",
        f"Sampling took {gradients:.3g} gradients of a row and {took:.0f} s{ended}",
    ]


def judgement(result: Result) -> tuple[int, str]:
    """Return the exit status of a run's draws, and what is known of them in words."""
    found = without_check(result.samples)
    if found is not None:
        return found
    if isinstance(result.check, ewsg.Report):
        return STATUS_OF[result.check.outcome], verdict_of(result.check)
    return DOUBTFUL, f"UNSURE: {result.check}"


def without_check(draws: PyTree) -> tuple[int, str] | None:
    """Return the same of draws that no check is needed for; None of others.

    They are what `ewsg_jax.sample` returned, or a tree of arrays (chain, draw, …).
    """
    is_run = isinstance(draws, ewsg.Samples)
    leaf = np.asarray(jax.tree.leaves(draws.position if is_run else draws)[0])
    if is_run and not draws.is_finite.any():
        return WRONG, "WRONG: every chain diverged. Take smaller steps"
    if leaf.shape[1] < FEWEST:
        return DOUBTFUL, f"UNSURE: too few draws to check, {leaf.shape[1]} of a chain. Run longer"
    if not np.isfinite(leaf).all(axis=tuple(range(1, leaf.ndim))).any():
        return WRONG, "WRONG: every chain has draws that are not finite. Take smaller steps"
    return None


def for_terminals(text: str) -> str:
    """Return a text that the library says with the options of the command line, not arguments."""
    for argument, option in ARGUMENTS.items():
        text = re.sub(argument, option, text)
    return text


def verdict_of(report: ewsg.Report) -> str:
    """Return what a check says, its outcome first and in capitals."""
    outcome, verdict = report.outcome.upper(), for_terminals(report.verdict)
    return (
        f"RIGHT{verdict.removeprefix('right')}" if outcome == "RIGHT" else f"{outcome}: {verdict}"
    )


def status_of_runs(results: Sequence[Result]) -> int:
    """Return the exit status of the worst outcome."""
    return max((judgement(result)[0] for result in results), default=DOUBTFUL)
