"""What an experiment prints: a section for each run, a table of them all, and what it means in words."""

import numpy as np

from ewsg_jax.checking import Report
from ewsg_jax.experiments.config import Experiment
from ewsg_jax.experiments.heat import Heat
from ewsg_jax.experiments.logistic import REFERENCE, Result
from ewsg_jax.experiments.metrics import device, held_out
from ewsg_jax.experiments.problem import Problem
from ewsg_jax.methods import METHODS

CONVERGED = 1.05
"""The largest R-hat of a run that is called a sample."""


def opening(experiment: Experiment, problem: Problem) -> str:
    """What is sampled, before anything runs."""
    lines = [experiment.title, "=" * len(experiment.title), *problem.description, f"device: {device()}"]
    if experiment.note:
        lines += ["", experiment.note.strip()]
    return "\n".join(lines)


def section(result: Result, num_test: int) -> str:
    """What one run gave."""
    plan, samples = result.plan, result.samples
    heading = f"{plan.label}: {plan.title}"
    options = ", ".join(
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in plan.options.items()
    )
    lines = [
        heading,
        "-" * len(heading),
        options,
        f"{samples.num_steps:,} steps a chain = {_passes(samples.data_passes)} passes over the data; "
        f"{samples.num_chains} chains; kept: {samples.num_draws:,} draws of each, every {plan.thin:,} steps after "
        f"{plan.burn_in:,}",
        f"{samples.gradient_evaluations:,} gradient evaluations in all; compiled in "
        f"{samples.compile_seconds:.1f} s, ran {samples.run_seconds:.1f} s",
    ]
    if plan.shared_minibatch:
        lines.append("all chains share their minibatches: they are not independent, so R-hat and ESS are too kind")
    if not samples.is_finite.all():
        lost = int(np.sum(~samples.is_finite))
        lines.append(f"{lost} of {samples.num_chains} chains DIVERGED: the step size is too large for them")
    if result.summary is None or result.trajectory is None:
        return "\n".join([*lines, "interrupted before a draw was kept"])
    numbers = held_out(result.trajectory)
    lines += ["", str(result.summary), ""]
    lines.append(f"check: {_verdict(result)}")
    lines.append(
        f"held out ({num_test:,} rows): accuracy {100 * numbers['accuracy']:.2f} %, log likelihood "
        f"{numbers['log_likelihood']:.4f} (mean prediction of all draws)"
    )
    lines += [
        f"  one draw, mean prediction of the {samples.num_chains} chains: accuracy "
        f"{100 * numbers['ensemble_accuracy']:.2f} ± {100 * numbers['ensemble_accuracy_sd']:.2f} %, log likelihood "
        f"{numbers['ensemble_log_likelihood']:.4f} ± {numbers['ensemble_log_likelihood_sd']:.4f}",
        f"    (over the draws of the second half; the last draw: {100 * numbers['last_draw_accuracy']:.2f} %, "
        f"{numbers['last_draw_log_likelihood']:.4f})",
    ]
    lines.append(
        f"  last draw, each chain by itself: accuracy {100 * numbers['single_chain_accuracy']:.2f} ± "
        f"{100 * numbers['single_chain_accuracy_sd']:.2f} %, log likelihood "
        f"{numbers['single_chain_log_likelihood']:.4f} ± {numbers['single_chain_log_likelihood_sd']:.4f}"
    )
    if plan.method is not None and plan.method.published is not None:
        told = plan.method.published
        lines.append(
            f"  published: accuracy {told.accuracy:.3f} ± {told.accuracy_sd:.3f} %, log likelihood "
            f"{told.log_likelihood:.3f} ± {told.log_likelihood_sd:.3f}"
        )
    if result.heat is not None and plan.kernel.uses_batches:
        lines.append(
            f"minibatch heat: {_times(result.heat.median)} the temperature (median coordinate), "
            f"{_times(result.heat.largest)} (hottest)"
        )
        lines.append(f"  {in_words(result.heat, result.summary.worst_rhat)}")
        if _is_weighted(result):
            lines.append(
                "  the exponential weights damp a part of this heat, at the price of a bias from skewed gradients "
                f"({np.mean(samples.index_acceptance):.0%} of their proposals accepted)"
            )
    if result.distance is not None:
        lines += ["against the reference:", *(f"  {part}" for part in str(result.distance).split("; "))]
    return "\n".join(lines)


def _verdict(result: Result) -> str:
    """Return what the check says, or why it says nothing."""
    if not isinstance(result.check, Report):
        return f"none: {result.check}"
    return result.check.verdict


def in_words(heat: Heat, worst_rhat: float) -> str:
    """Say what a run with this heat and R-hat is: a sample of the posterior, or a noisy optimiser."""
    if not np.isfinite(heat.largest):
        return "a chain diverged, so there is no telling"
    if heat.median >= 1:
        return (
            "a noisy optimiser, not a sample of the posterior: the minibatches add far more noise than the "
            "dynamics is to have, and the spread of the draws is that of the step size. Judge it by prediction"
        )
    if not worst_rhat < CONVERGED:
        return "no sample of the posterior yet: the chains do not agree (R-hat)"
    if heat.largest <= 0.25:
        return "a sample of the posterior: the minibatches add little to the noise that the dynamics is to have"
    return "a sample of a visibly heated posterior: standard deviations are too large where the heat is"


def table(results: list[Result]) -> str:
    """All runs side by side."""
    told = any(result.plan.method and result.plan.method.published for result in results)
    lines = [
        f"{'':12} {'passes':>7} {'accuracy':>8} {'log lik.':>8} {'one draw':>8} {'log lik.':>8} {'R-hat':>6} "
        f"{'ESS':>6} {'heat':>8} {'sd ratio':>8} {'mean off':>8} {'compile s':>9} {'run s':>6}"
        + (f" {'published':>17}" if told else "")
    ]
    lines += [_row(result) for result in results]
    lines += [
        "accuracy and log lik.: held out, mean prediction of all draws; then of one draw of all chains, averaged",
        "  over the draws of the second half. R-hat: the largest; ESS: the smallest; heat: the median",
    ]
    if any(result.plan.label == REFERENCE for result in results):
        lines.append("sd ratio, mean off: against the reference, median and root mean square, in its sds")
    return "\n".join(lines)


def _row(result: Result) -> str:
    samples, compared, method = result.samples, result.distance, result.plan.method
    if result.summary is None or result.trajectory is None or result.heat is None:
        return f"{result.plan.label:12} interrupted before a draw was kept"
    numbers = held_out(result.trajectory)
    ratio = f"{np.median(compared.sd_ratio):8.3f} {compared.root_mean_square:8.3f}" if compared else f"{'':17}"
    told = method.published if method else None
    return (
        f"{result.plan.label:12} {_passes(samples.data_passes):>7} {100 * numbers['accuracy']:7.2f}% "
        f"{numbers['log_likelihood']:8.4f} {100 * numbers['ensemble_accuracy']:7.2f}% "
        f"{numbers['ensemble_log_likelihood']:8.4f} {result.summary.worst_rhat:6.3f} "
        f"{result.summary.least_ess:6.0f} {result.heat.median:8.2g} {ratio} "
        f"{samples.compile_seconds:9.1f} {samples.run_seconds:6.1f}"
        + (f"   {told.accuracy:6.3f}% {told.log_likelihood:6.3f}" if told else "")
    )


def _is_weighted(result: Result) -> bool:
    method = result.plan.method
    return method is not None and "exponentially_weighted" in METHODS[method.name].estimator


def _passes(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def _times(value: float) -> str:
    return f"{value:.3g} times"
