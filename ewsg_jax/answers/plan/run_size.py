"""What is asked of a run, and a way of making it."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ewsg_jax.answers.plan.candidates import Way

MEMORIES_OF_BURN_IN = 8
"""Steps over which a chain forgets that it runs before draws are kept."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of a run.

    Attributes:
        tolerance: of standard deviations, relatively; of means twice as much.
        careful: the part of that for standard deviations that a forecast may predict; for means its
            root.
        ess: effective draws, of all chains together.
        num_chains: chains.
        batch_size: the only one; None for any.
        memory_limit: bytes of all chains' states.
        parts: into which rows are cut; each has its share of every batch.
        is_restricted: whether methods, a batch or a measure of cost were asked for: all ways are
            compared then.
    """

    tolerance: float
    ess: float
    num_chains: int
    batch_size: int | None
    memory_limit: int
    careful: float = 1.0
    by: Literal["rows", "passes", "seconds"] = "rows"
    parts: int = 1
    is_restricted: bool = False


class Candidate(NamedTuple):
    """A way at the batch and step at which it costs least.

    Attributes:
        way: a dynamics, an estimator and how rows are drawn.
        batch_size: rows of a step.
        step_size: in units in which the posterior is of width 1.
        friction: in the same units; 0 where there is none.
        sd_error: how far off standard deviations are predicted to be at most, relatively; NaN where
            nothing fits.
        mean_error: how far means are, in standard deviations.
        time: steps that one effective draw takes.
        passes: over the data, of all chains, for all effective draws that are asked for.
        cost: the same in rows, with what steps take by themselves.
        why_not: in words, where nothing fits; else empty.
        seconds: of the run on this machine, NaN where no step was measured.
    """

    way: Way
    batch_size: int
    step_size: float
    friction: float
    sd_error: float
    mean_error: float
    time: float
    passes: float
    cost: float
    why_not: str = ""
    seconds: float = float("nan")


def burn_in_of(time: float) -> int:
    """Return the steps after which a chain has forgotten where it started."""
    return int(np.ceil(MEMORIES_OF_BURN_IN * time))


def steps_of(time: float, ess: float, num_chains: int) -> int:
    """Return the steps of each chain that give `ess` effective draws."""
    return max(16, int(np.ceil(ess * time / num_chains)))
