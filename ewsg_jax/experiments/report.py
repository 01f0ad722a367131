"""What an experiment says: the numbers of each run for metrics.json, and in words for report.txt."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.experiments.config import Config
from ewsg_jax.experiments.plan import Result
from ewsg_jax.experiments.problem import Regression
from ewsg_jax.experiments.results import aligned, device, versions

Numbers = dict[str, Any]
CONVERGED = 1.05
"""The largest R-hat of a run that is called a sample."""
LITTLE = 0.25
"""The part of the temperature that gradient noise may add to draws that are called those of the posterior."""
HELD_OUT = {
    "": "mean prediction of all draws",
    "ensemble_": "one draw, mean prediction of all chains (over the draws of the second half)",
    "last_draw_": "the last draw, mean prediction of all chains",
    "single_chain_": "the last draw, each chain by itself",
}
"""Ways of averaging predictions."""
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
    ("published %", "published.accuracy", ".3f"),
    ("log lik.", "published.log_likelihood", ".3f"),
)
"""Columns of the table: what they are called, the number in a run's, and its format."""
LEGEND = """\
accuracy and log lik.: held out, mean prediction of all draws; then of one draw of all chains, averaged over the
  second half. R-hat: the largest; ESS: the smallest; noise: what gradient noise adds to the temperature, over it,
  median coordinate, where it is known. sd ratio, mean off: against the reference, median and root mean square"""


def numbers_of(result: Result) -> Numbers:
    """Return the numbers of a run, as metrics.json has them."""
    plan, samples, summary, distance = result.plan, result.samples, result.summary, result.distance
    numbers: Numbers = {
        "method": plan.method.name,
        "options": plan.method.options,
        "num_chains": samples.num_chains,
        "num_draws": samples.num_draws,
        "num_steps": samples.num_steps,
        "burn_in": plan.burn_in,
        "thin": plan.thin,
        "data_passes": samples.data_passes,
        "gradient_evaluations": samples.gradient_evaluations,
        "compile_seconds": samples.compile_seconds,
        "run_seconds": samples.run_seconds,
        "index_acceptance": float(np.mean(samples.index_acceptance)),
        "finite_chains": int(np.sum(samples.is_finite)),
        "interrupted": samples.interrupted,
    }
    if plan.method.published is not None:
        numbers["published"] = vars(plan.method.published)
    if summary is None or result.trajectory is None or result.noise is None:
        return numbers
    numbers |= {"worst_rhat": summary.worst_rhat, "least_ess": summary.least_ess, "notes": list(summary.notes)}
    columns = ("mean", "sd", "rhat", "ess_bulk", "ess_tail", "mcse")
    numbers["coordinates"] = {
        name: {column: getattr(summary, column)[i] for column in columns} for i, name in enumerate(summary.names)
    }
    numbers["held_out"] = held_out(result.trajectory)
    numbers["gradient_noise"] = result.noise._asdict()
    numbers["check"] = {"outcome": None, "verdict": result.check}
    if isinstance(result.check, ewsg.Report):
        numbers["check"] = {"outcome": result.check.outcome, "verdict": result.check.verdict}
    if isinstance(result.forecast, str):
        numbers["forecast"] = {"reason": result.forecast}
    elif result.forecast is not None:
        numbers["forecast"] = {
            **_quantiles("variance_ratio", result.forecast.variance_ratio),
            "passes_of_a_draw": result.forecast.passes(),
            "is_stable": result.forecast.is_stable,
            "is_near_normal": result.forecast.is_near_normal,
        }
    if distance is not None:
        numbers["distance_to_reference"] = {
            "largest": distance.largest,
            "root_mean_square": distance.root_mean_square,
            "monte_carlo": distance.monte_carlo,
            **_quantiles("sd_ratio", distance.sd_ratio),
        }
    return numbers


def _quantiles(name: str, values: Any) -> dict[str, float]:
    values = np.asarray(values)
    quantiles = {"median": np.median(values), "least": np.min(values), "largest": np.max(values)}
    return {f"{name}_{which}": float(value) for which, value in quantiles.items()}


def held_out(trajectory: ewsg.diagnostics.Trajectory) -> dict[str, float]:
    """Return held-out accuracy and log likelihood in the ways of `HELD_OUT`, with standard deviations."""
    numbers: dict[str, float] = {}
    for name in ("accuracy", "log_likelihood"):
        ensemble = getattr(trajectory, f"ensemble_{name}")
        late, last = ensemble[len(ensemble) // 2 :], getattr(trajectory, f"chain_{name}")[:, -1]
        numbers |= {
            name: float(getattr(trajectory, f"running_{name}")[-1]),
            f"ensemble_{name}": float(late.mean()),
            f"ensemble_{name}_sd": float(late.std()),
            f"last_draw_{name}": float(ensemble[-1]),
            f"single_chain_{name}": float(last.mean()),
            f"single_chain_{name}_sd": float(last.std()),
        }
    return numbers


def metrics(config: Config, problem: Regression, results: Sequence[Result], interrupted: bool) -> Numbers:
    """Return what was run, with what, and what came of it."""
    return {
        "title": config.title,
        "versions": versions(),
        "device": device(),
        "problem": list(problem.description),
        "num_train": problem.train["y"].shape[0],
        "num_test": problem.test["y"].shape[0],
        "interrupted": interrupted,
        "runs": {result.plan.label: numbers_of(result) for result in results},
    }


def opening(config: Config, problem: Regression) -> str:
    """Return what is sampled, before anything runs."""
    lines = [config.title, "=" * len(config.title), *problem.description, f"device: {device()}"]
    return "\n".join([*lines, "", config.note.strip()] if config.note else lines)


def section(result: Result) -> str:
    """Return what one run gave, in words."""
    plan, samples, numbers = result.plan, result.samples, numbers_of(result)
    heading = f"{plan.label}: {ewsg.METHODS[plan.method.name].title}"
    lines = [
        heading,
        "-" * len(heading),
        ", ".join(f"{key} {value}" for key, value in plan.method.options.items()),
        f"{samples.num_steps:,} steps a chain = {samples.data_passes:,.1f} passes over the data; "
        f"{samples.num_chains} chains; kept: {samples.num_draws:,} draws of each, every {plan.thin:,} steps after "
        f"{plan.burn_in:,}",
        f"{samples.gradient_evaluations:,} gradient evaluations in all; compiled in "
        f"{samples.compile_seconds:.1f} s, ran {samples.run_seconds:.1f} s",
    ]
    if not samples.is_finite.all():
        diverged = int(np.sum(~samples.is_finite))
        lines.append(f"{diverged} of {samples.num_chains} chains DIVERGED: the step size is too large for them")
    if result.summary is None:
        return "\n".join([*lines, "interrupted before a draw was kept"])
    lines += ["", str(result.summary), "", f"check: {numbers['check']['verdict']}", "held out:"]
    lines += [f"  {words}: {_both(numbers['held_out'], which, 100)}" for which, words in HELD_OUT.items()]
    if "published" in numbers:
        lines.append(f"  published: {_both(numbers['published'], '', 1)}")
    if plan.kernel.uses_batches:
        lines.append(f"gradient noise: {in_words(numbers['gradient_noise'], numbers['worst_rhat'])}")
    if isinstance(result.forecast, ewsg.Forecast):
        lines.append(f"forecast around the mode: {_foreseen(numbers['forecast'])}")
    if result.distance is not None:
        lines += ["against the reference:", *(f"  {part}" for part in str(result.distance).split("; "))]
    return "\n".join(lines)


def _both(numbers: Numbers, which: str, unit: float) -> str:
    """Return accuracy and log likelihood in words, with standard deviations where there are some."""
    words = []
    for name, factor, digits, sign in (("accuracy", unit, 2, " %"), ("log_likelihood", 1, 4, "")):
        sd = numbers.get(f"{which}{name}_sd")
        spread = "" if sd is None else f" ± {factor * sd:.{digits}f}"
        words.append(f"{name.replace('_', ' ')} {factor * numbers[f'{which}{name}']:.{digits}f}{spread}{sign}")
    return ", ".join(words)


def in_words(noise: Numbers, worst_rhat: float) -> str:
    """Return what gradient noise adds to the temperature, and what a run of this R-hat therefore is."""
    median, largest = noise["median"], noise["largest"]
    if median is None:
        return f"what it adds to the temperature is not known: {noise['reason']}"
    if median >= 1:
        so = (
            "a noisy optimiser, not a sample of the posterior: the draws are as wide as the step size makes them. "
            "Judge it by prediction"
        )
    elif not worst_rhat < CONVERGED:
        so = "not a sample of the posterior yet, the chains do not agree (R-hat)"
    elif largest <= LITTLE:
        so = "little beside the noise that the dynamics should have"
    else:
        so = "standard deviations are too large where the noise is"
    return f"it adds {median:.3g} of the temperature (median coordinate), at most {largest:.3g}: {so}"


def _foreseen(forecast: Numbers) -> str:
    median, least, largest = (forecast[f"variance_ratio_{which}"] for which in ("median", "least", "largest"))
    words = f"variances {median:.3g} times the posterior's (median), {least:.3g} to {largest:.3g}; "
    words += f"{forecast['passes_of_a_draw']:.3g} passes an independent draw"
    if not forecast["is_stable"]:
        words = "the step size is UNSTABLE"
    return words if forecast["is_near_normal"] else f"{words}; the posterior is not near normal there"


def table(results: Sequence[Result]) -> str:
    """Return all runs side by side; a column that no run has is left out."""
    columns = [["", *(result.plan.label for result in results)]]
    for name, path, form in COLUMNS:
        found = [_at(numbers_of(result), path) for result in results]
        if any(value is not None for value in found):
            columns.append([name, *("" if value is None else f"{value:{form}}" for value in found)])
    return "\n".join([*aligned(list(zip(*columns, strict=True))), LEGEND])


def _at(numbers: Any, path: str) -> Any:
    for name in path.split("."):
        numbers = numbers.get(name) if numbers else None
    return numbers
