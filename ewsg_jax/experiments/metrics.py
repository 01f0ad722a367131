"""The numbers of an experiment, as they go into metrics.json."""

import platform
from typing import Any

import jax
import numpy as np

import ewsg_jax
from ewsg_jax.checking import Report
from ewsg_jax.diagnostics import Trajectory
from ewsg_jax.experiments.config import Experiment
from ewsg_jax.experiments.logistic import Result
from ewsg_jax.experiments.problem import Problem


def metrics(experiment: Experiment, problem: Problem, results: list[Result], interrupted: bool) -> dict[str, Any]:
    """Collect what was run, with what, and what came of it."""
    return {
        "title": experiment.title,
        "versions": versions(),
        "device": device(),
        "problem": list(problem.description),
        "num_train": problem.train["y"].shape[0],
        "num_test": problem.test["y"].shape[0],
        "interrupted": interrupted,
        "runs": {result.plan.label: _of_result(result) for result in results},
    }


def versions() -> dict[str, str]:
    """Name the versions of what runs."""
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "ewsg_jax": ewsg_jax.__version__,
        "numpy": np.__version__,
    }


def device() -> str:
    """Name the device that JAX runs on."""
    first = jax.devices()[0]
    return f"{first.platform} ({first.device_kind})"


def _of_result(result: Result) -> dict[str, Any]:
    plan, samples = result.plan, result.samples
    numbers: dict[str, Any] = {
        "method": plan.method.name if plan.method else "uld",
        "options": plan.options,
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
    if result.summary is not None:
        summary = result.summary
        columns = {name: getattr(summary, name) for name in ("mean", "sd", "rhat", "ess_bulk", "ess_tail", "mcse")}
        numbers["worst_rhat"], numbers["least_ess"] = summary.worst_rhat, summary.least_ess
        numbers["notes"] = list(summary.notes)
        numbers["coordinates"] = {
            name: {column: values[i] for column, values in columns.items()} for i, name in enumerate(summary.names)
        }
    if result.trajectory is not None:
        numbers["held_out"] = held_out(result.trajectory)
    if result.heat is not None:
        numbers["minibatch_heat"] = result.heat._asdict()
    if isinstance(result.check, Report):
        numbers["check"] = {"outcome": result.check.outcome, "verdict": result.check.verdict}
    elif result.check is not None:
        numbers["check"] = {"outcome": None, "verdict": result.check}
    if result.distance is not None:
        numbers["distance_to_reference"] = {
            "largest": result.distance.largest,
            "root_mean_square": result.distance.root_mean_square,
            "monte_carlo": result.distance.monte_carlo,
            "sd_ratio_median": float(np.median(result.distance.sd_ratio)),
            "sd_ratio_least": float(np.min(result.distance.sd_ratio)),
            "sd_ratio_largest": float(np.max(result.distance.sd_ratio)),
        }
    if plan.method is not None and plan.method.published is not None:
        numbers["published"] = vars(plan.method.published)
    return numbers


def held_out(trajectory: Trajectory) -> dict[str, float]:
    """Return held-out accuracy and log likelihood in the ways of averaging.

    All draws together; the chains' mean prediction at each draw of the second half of the run, averaged over
    these draws, with its standard deviation between them; the same at the last draw; single chains there.
    """
    half = len(trajectory.data_passes) // 2
    return {
        "accuracy": float(trajectory.running_accuracy[-1]),
        "log_likelihood": float(trajectory.running_log_likelihood[-1]),
        "ensemble_accuracy": float(trajectory.ensemble_accuracy[half:].mean()),
        "ensemble_accuracy_sd": float(trajectory.ensemble_accuracy[half:].std()),
        "ensemble_log_likelihood": float(trajectory.ensemble_log_likelihood[half:].mean()),
        "ensemble_log_likelihood_sd": float(trajectory.ensemble_log_likelihood[half:].std()),
        "last_draw_accuracy": float(trajectory.ensemble_accuracy[-1]),
        "last_draw_log_likelihood": float(trajectory.ensemble_log_likelihood[-1]),
        "single_chain_accuracy": float(trajectory.chain_accuracy[:, -1].mean()),
        "single_chain_accuracy_sd": float(trajectory.chain_accuracy[:, -1].std()),
        "single_chain_log_likelihood": float(trajectory.chain_log_likelihood[:, -1].mean()),
        "single_chain_log_likelihood_sd": float(trajectory.chain_log_likelihood[:, -1].std()),
    }
