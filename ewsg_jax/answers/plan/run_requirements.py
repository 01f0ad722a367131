"""What a run must achieve, and how long it is for that."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

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


def ess_for_tolerance(tolerance: float) -> float:
    """Return the effective draws with which Monte Carlo error moves no sd by more than half of the
    tolerance: a sd has a relative standard error of 1/√(2 ESS).
    """
    return float(np.ceil((settings.ESS_STANDARD_ERRORS / (tolerance / 2)) ** 2 / 2))
