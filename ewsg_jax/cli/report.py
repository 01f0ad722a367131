"""What an experiment says: numbers of each run for metrics.json, and words for report.txt."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.base.table import aligned
from ewsg_jax.cli.answer import weights
from ewsg_jax.cli.estimates import lines_of
from ewsg_jax.cli.plan import Job, Result
from ewsg_jax.cli.problem import Regression
from ewsg_jax.cli.results import device, versions
from ewsg_jax.diagnostics import GradientNoise
from ewsg_jax.gradients._protocol import uses_batches

Numbers = dict[str, Any]
COLUMNS = (
    ("passes", "data_passes", ",.1f"),
    ("accuracy", "held_out.accuracy", ".2%"),
    ("log lik.", "held_out.log_likelihood", ".4f"),
    ("one draw", "held_out.ensemble_accuracy", ".2%"),
    ("log lik.", "held_out.ensemble_log_likelihood", ".4f"),
    ("R-hat", "worst_rhat", ".3f"),
    ("ESS", "least_ess", ".0f"),
    ("noise", "gradient_noise.median", ".2g"),
    ("sd ratio", "distance_to_reference.sd_ratio_median", ".3f"),
    ("mean off", "distance_to_reference.root_mean_square", ".3f"),
    ("compile s", "compile_seconds", ".1f"),
    ("run s", "run_seconds", ".1f"),
)
"""Columns of the table: what they are called, the number in a run's, and its format."""
LEGEND = """\
accuracy and log lik.: held out, mean prediction of all draws; then of one draw of all chains,
  averaged over the second half. R-hat: the largest; ESS: the smallest; noise: what gradient noise
  adds to the temperature, over it, median coordinate, where it is known. sd ratio, mean off:
  against the reference, median and root mean square"""


def metrics(job: Job, results: Sequence[Result], interrupted: bool) -> Numbers:
    """Return what was run, with what, and what came of it, for metrics.json."""
    problem = job.problem
    return {
        "title": job.title,
        "seed": job.seed,
        "versions": versions(),
        "device": device(),
        "problem": list(problem.description),
        "num_train": problem.train["y"].shape[0],
        "num_test": 0 if problem.test is None else problem.test["y"].shape[0],
        "interrupted": interrupted,
        "runs": {result.plan.label: numbers_of(result) for result in results},
    }


def numbers_of(result: Result) -> Numbers:
    """Return the numbers of a run."""
    plan, samples, summary = result.plan, result.samples, result.summary
    numbers: Numbers = {"method": plan.method.name, "options": plan.method.options}
    numbers |= _attributes(samples, "num_chains num_draws num_steps data_passes interrupted")
    numbers |= _attributes(samples, "gradient_evaluations compile_seconds run_seconds")
    numbers |= _attributes(plan, "burn_in thin")
    numbers["index_acceptance"] = float(np.mean(samples.index_acceptance))
    numbers["finite_chains"] = int(np.sum(samples.is_finite))
    if summary is None or result.noise is None:
        return numbers
    numbers |= _attributes(summary, "worst_rhat least_ess notes")
    of = _attributes(summary, "mean sd rhat ess_bulk ess_tail mcse")
    numbers["coordinates"] = {
        name: {column: values[i] for column, values in of.items()}
        for i, name in enumerate(summary.names)
    }
    numbers["gradient_noise"] = result.noise._asdict()
    status, verdict, checked = result.judgement
    outcome = None if checked is None else checked.outcome
    numbers["check"] = {"outcome": outcome, "status": status, "verdict": verdict}
    if result.trajectory is not None:
        numbers["held_out"] = held_out(result.trajectory)
    if result.distance is not None:
        numbers["distance_to_reference"] = {
            **_attributes(result.distance, "largest root_mean_square monte_carlo"),
            "sd_ratio_median": float(np.median(result.distance.sd_ratio)),
        }
    return numbers


def _attributes(of: Any, names: str) -> Numbers:
    return {name: getattr(of, name) for name in names.split()}


def held_out(trajectory: ewsg.diagnostics.Trajectory) -> dict[str, float]:
    """Return held-out accuracy and log likelihood: of the mean prediction of all draws, and of one
    draw of all chains, over the draws of the second half.
    """
    numbers: dict[str, float] = {}
    for name in ("accuracy", "log_likelihood"):
        ensemble = getattr(trajectory, f"ensemble_{name}")
        late = ensemble[len(ensemble) // 2 :]
        numbers |= {
            name: float(getattr(trajectory, f"running_{name}")[-1]),
            f"ensemble_{name}": float(late.mean()),
            f"ensemble_{name}_sd": float(late.std()),
        }
    return numbers


# In words.


def opening(title: str, note: str, problem: Regression) -> str:
    """Return what is sampled, before anything runs."""
    lines = [title, "=" * len(title), *problem.description, f"device: {device()}"]
    return "\n".join([*lines, "", note.strip()] if note else lines)


def section(result: Result, problem: Regression) -> str:
    """Return what one run gave."""
    plan, samples = result.plan, result.samples
    heading = plan.label
    if plan.method.name in ewsg.METHODS:
        heading += f": {ewsg.METHODS[plan.method.name].title}"
    every = "every step" if plan.thin == 1 else f"one every {plan.thin:,} steps"
    lines = [
        heading,
        "-" * len(heading),
        ", ".join(f"{key} {value}" for key, value in plan.method.options.items()),
        f"{samples.num_steps:,} steps a chain = {samples.data_passes:,.1f} passes over the data; "
        f"{samples.num_chains} chains; kept: {samples.num_draws:,} draws of each, {every} after "
        f"{plan.burn_in:,}",
        f"{samples.gradient_evaluations:,} gradient evaluations in all; compiled in "
        f"{samples.compile_seconds:.1f} s, ran {samples.run_seconds:.1f} s",
    ]
    if not samples.is_finite.all():
        diverged = int(np.sum(~samples.is_finite))
        lines.append(
            f"{diverged} of {samples.num_chains} chains DIVERGED: the step size is too large for "
            "them"
        )
    if result.summary is None or result.noise is None:
        return "\n".join([*lines, "interrupted before a draw was kept"])
    lines += ["", str(result.summary), ""]
    if problem.original is not None and samples.is_finite.any():
        lines += [*weights(problem, np.asarray(samples.finite_draws)), ""]
    if samples.is_finite.any():
        lines += [*lines_of(problem, np.asarray(samples.finite_draws)), ""]
    if result.trajectory is not None:
        scores = held_out(result.trajectory)
        lines.append(
            "held out: accuracy {accuracy:.2%}, log likelihood {log_likelihood:.4f} of the mean "
            "prediction of all draws; of one draw of all chains {ensemble_accuracy:.2%} ± "
            "{ensemble_accuracy_sd:.2%}, {ensemble_log_likelihood:.4f} ± "
            "{ensemble_log_likelihood_sd:.4f}".format(**scores)
        )
    if uses_batches(plan.kernel):
        lines.append(f"what gradient noise adds to the temperature: {_noise(result.noise)}")
    if result.distance is not None:
        parts = str(result.distance).split("; ")
        lines += ["against the reference:", *(f"  {part}" for part in parts)]
    return "\n".join(lines)


def _noise(noise: GradientNoise) -> str:
    if noise.median is None:
        return f"unknown: {noise.reason}"
    adds = f"{noise.median:.3g} of it (median coordinate), at most {noise.largest:.3g}"
    if noise.median < 1:
        return adds
    return (
        f"{adds}: a noisy optimiser, whose draws are as wide as the step size makes them; judge it "
        "by prediction"
    )


def table(results: Sequence[Result]) -> str:
    """Return all runs side by side, a line each; a column that no run has is left out."""
    runs = {result.plan.label: numbers_of(result) for result in results}
    columns = [["", *runs]]
    for name, path, form in COLUMNS:
        values = [_at(numbers, path) for numbers in runs.values()]
        if any(value is not None for value in values):
            columns.append(
                [name, *("" if value is None else f"{value:{form}}" for value in values)]
            )
    return "\n".join([*aligned(list(zip(*columns, strict=True))), LEGEND])


def _at(numbers: Any, path: str) -> Any:
    for name in path.split("."):
        numbers = numbers.get(name) if numbers else None
    return numbers
