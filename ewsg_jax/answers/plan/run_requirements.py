"""What a run must achieve, and how long it is for that."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.plan import settings
from ewsg_jax.run.moments import MomentPlan, moments

ALL_STEPS: MomentPlan = moments(steps="all")
"""What pilot runs and planned runs sum up: the same, so that one program serves both."""


@dataclass(frozen=True)
class RunRequirements:
    """What a planned run must achieve, and what it may use.

    Attributes:
        tolerance: largest relative error of a standard deviation; that of a mean is twice this, in
            standard deviations.
        ess: effective draws of all chains together.
        num_chains: number of chains.
        batch_size: the only batch that is allowed, in rows; None for any.
        memory_limit: bytes that the states of all chains may take.
        bias_share: the part of the usual error of a standard deviation that a forecast may predict;
            its square root for means. 1 if the posterior is near normal.
        by: what a run costs: rows and steps, passes over the data, or seconds on this machine.
        num_row_shards: number of devices that share the rows; each has its part of every batch.
        is_restricted: whether methods, a batch or a measure of cost were given; then all candidates
            are compared.
    """

    tolerance: float
    ess: float
    num_chains: int
    batch_size: int | None
    memory_limit: int
    bias_share: float = 1.0
    by: Literal["rows", "passes", "seconds"] = "rows"
    num_row_shards: int = 1
    is_restricted: bool = False


def burn_in_steps(time: float) -> int:
    """Return the steps after which a chain of this autocorrelation time has forgotten its start."""
    return int(np.ceil(settings.BURN_IN_TIMES * time))


def steps_for_ess(time: float, ess: float, num_chains: int) -> int:
    """Return the steps of each chain that give `ess` effective draws of all chains together, if one
    takes `time` steps.
    """
    return max(settings.MIN_RUN_STEPS, int(np.ceil(ess * time / num_chains)))


def thin_of(time: float, num_kept_steps: int) -> int:
    """Return the steps from one kept draw to the next: some five for an effective draw, or more for
    a run to keep as many draws as it must have steps.

    Args:
        time: steps that one effective draw takes.
        num_kept_steps: the steps of each chain after the burn-in.
    """
    wanted = time / settings.KEPT_PER_EFFECTIVE_DRAW
    return int(max(1, min(wanted, num_kept_steps // settings.MIN_RUN_STEPS)))


def ess_to_decide(report: Report) -> float:
    """Return the effective draws with which a check is expected to know moments within tolerance,
    by the errors that it found in a pilot run: these fall with the root of the number.
    """
    if report.corrected is None:
        return np.inf
    mean_error, sd_error = report.corrected.errors
    error = check_settings.ERRORS_ALLOWED * max(mean_error / 2, sd_error) / report.tolerance
    return report.scores.ess * error**2


def check_note(report: Report | None, ess: float) -> list[str]:
    """Return a note if the check of a run of `ess` effective draws is not expected to decide.

    Args:
        report: that of the pilot run; None if the posterior is near normal: a check then decides.
        ess: the effective draws of the run.
    """
    if report is None or not (needed := ess_to_decide(report)) > ess:
        return []
    if not np.isfinite(needed):
        return [
            "whether check can decide on a run is not known: its pilot run was not corrected "
            f"({report.not_corrected}). If check says unsure, run longer"
        ]
    return [
        f"check is expected to say unsure of a run of {ess:,.0f} effective draws, and to decide "
        f"with some {float(f'{needed:.2g}'):,.0f} (sample_options(ess=…), and as many in "
        "max_draws= of check); before that take report.corrected"
    ]


def ess_for_tolerance(tolerance: float) -> float:
    """Return the effective draws with which Monte Carlo error moves no sd by more than half of the
    tolerance: a sd has a relative standard error of 1/√(2 ESS).
    """
    return float(np.ceil((settings.ESS_STANDARD_ERRORS / (tolerance / 2)) ** 2 / 2))
