"""A short run of a kernel, judged: how wrong it is, how far apart its draws are worth, and where it
went.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.check import check
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.start import Among
from ewsg_jax.answers.plan.metric import covariance_of
from ewsg_jax.answers.plan.request import Asked
from ewsg_jax.answers.plan.run_size import burn_in_of, steps_of
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base import rng
from ewsg_jax.base.typing import Array, Key, Position
from ewsg_jax.draws.coordinates import CONVERGED
from ewsg_jax.gradients._protocol import uses_batches
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.support import NONE, Outside, outside
from ewsg_jax.rows._scheme import is_ordered
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.internal_run import inner_run
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import vector

NUM_CHAINS, ESS, FEWEST = 8, 300.0, 100.0
"""Chains of a trial, effective draws of all together that it is given steps for, and those that
judge it.
"""
LONGER, MOST_TIMES = 3, 3
"""How many times as long a run is made that gave too few, and how often."""
MOST_SHOWN = 1e3
"""R-hat above which it is not reported."""
MOST_PLACES = 256
"""Draws at which densities are evaluated."""
MOST_DRAWS = 500
"""Draws that are kept of each chain."""


class Trial(NamedTuple):
    """A run.

    Attributes:
        kernel: what was run.
        samples: what it gave.
        report: what `check` says of it; None where no chain is left.
        num_steps: of each chain, after its burn-in.
        data_passes: of all chains, the check's included.
        outside: how many of its draws lie where the density is 0, which no gradient shows.
        tolerance: of the check.
        why_not: why there is no report, in words.
    """

    kernel: Kernel
    samples: Samples
    report: Report | None
    num_steps: int
    data_passes: float
    outside: Outside = NONE
    tolerance: float = 0.05
    why_not: str = ""

    @property
    def is_outside(self) -> bool:
        """Whether its chains walk where the density is 0: no step size keeps them in, for no
        gradient does.
        """
        return self.outside.matters(self.tolerance)

    @property
    def is_mistaken(self) -> bool:
        """Whether the gradient is not that of the density: no kernel mends it."""
        return self.report is not None and bool(self.report.mistaken)

    @property
    def is_wrong(self) -> bool:
        """Whether it is wrong beyond chance, or chains diverged; chains that have not met yet are
        not.
        """
        if self.report is None or self.report.num_lost > 0 or self.is_outside:
            return True
        return (self.report.outcome == "wrong" or bool(self.off)) and not self.is_short

    @property
    def off(self) -> str:
        """That not even a large bias would be seen, in words: rare events, such as a wall that
        throws chains back, have as large errors as effects in the identities.
        """
        report = self.report
        # At a wall the identities say nothing.
        if report is None or report.cut_off:
            return ""
        if report.scores.distance > check_settings.NOTHING_KNOWN_SDS:
            return f"a bias of {report.scores.distance:.2g} sd would not be seen"
        return ""

    @property
    def is_short(self) -> bool:
        """Whether its chains do not agree yet, or its draws are too few."""
        return self.report is not None and (
            self.report.rhat > CONVERGED or self.report.scores.ess < FEWEST
        )

    @property
    def doubts(self) -> list[str]:
        """Why it may not be trusted, in words; none where it is right, or without a bias in enough
        draws.
        """
        found = []
        if self.is_outside:
            found.append(f"of the draws of its trial {self.outside.in_short}")
        if self.report is None:
            return [*found, f"its trial could not be judged: {self.why_not}"]
        if self.report.mistaken:
            return [self.report.mistaken]
        if self.report.cut_off:
            found.append(f"its trial cannot be judged: {self.report.cut_off}")
        if self.report.num_lost:
            found.append(f"{self.report.num_lost} of {NUM_CHAINS} chains of its trial diverged")
        if not self.report.rhat <= CONVERGED:
            rhat = (
                f"{self.report.rhat:.3g}"
                if self.report.rhat < MOST_SHOWN
                else f"above {MOST_SHOWN:,.0f}"
            )
            at = f", {self.report.apart}" if self.report.apart else ""
            found.append(f"chains of its trial do not agree (R-hat {rhat}{at})")
        elif self.report.outcome == "wrong":
            found.append(f"its trial is wrong: {self.report.verdict}")
        elif off := self.off:
            found.append(f"its trial may be off: {off}")
        if self.report.scores.ess < FEWEST:
            found.append(
                f"its trial is worth {self.report.scores.ess:.0f} independent draws, where "
                f"{FEWEST:.0f} would judge it: an effective draw takes {self.time:,.0f} steps or "
                "more"
            )
        return found

    @property
    def time(self) -> float:
        """Steps that one effective draw took, of the slowest direction, for its mean or its
        variance.
        """
        if self.report is None:
            return float("inf")
        return NUM_CHAINS * self.num_steps / max(self.report.scores.ess, 1.0)

    def places(self, count: int, center: Position) -> np.ndarray:
        """Return some of its draws less a center, shape (count or fewer, d)."""
        known = draws_of(self.samples, None, count)
        return np.asarray(known.flat - vector(center), np.float32)

    def among(self, frame: Frame) -> Among[Position]:
        """Return a start at some of its draws."""
        return frame.among(draws_of(self.samples, None, NUM_CHAINS * MOST_DRAWS).flat)

    def frame_of_draws(self, frame: Frame) -> Frame:
        """Return the units of its draws, of those in which it was run, whose covariance is a
        matrix.
        """
        assert isinstance(frame.known, np.ndarray)
        known = draws_of(self.samples, None, NUM_CHAINS * MOST_DRAWS)
        ess = NUM_CHAINS * self.num_steps / self.time
        covariance = covariance_of(known.flat, ess, frame.known)
        center = frame.layout.tree(known.flat.mean(0))
        return Frame.by_chains(frame.mode, center, covariance)


def trial(
    key: Key,
    asked: Asked,
    kernel: Kernel,
    time: float,
    start: Callable[[Key], Position],
    patience: float = float("inf"),
) -> Trial:
    """Run a kernel for some hundreds of effective draws, and judge them.

    Args:
        key: a typed PRNG key.
        asked: of which posterior, and how many passes it may take.
        kernel: which.
        time: steps that one effective draw is predicted to take.
        start: gives where all its chains start, one of these below the other.
        patience: times as many steps as predicted that an effective draw may take in a run that is
            made longer.
    """
    for_run, for_start, *for_checks = rng.keys_of(key, 3 + MOST_TIMES)
    cost = kernel.evaluations(asked.data).on_average
    most_steps = int(asked.max_passes * num_rows(asked.data) / max(1.0, cost))
    burn_in = burn_in_of(time)
    steps = min(burn_in + steps_of(time, ESS, NUM_CHAINS), max(most_steps, 32))
    with asked.timed("trials"):
        asked.ahead.wait("check")
        found = _judged(
            for_run, asked, kernel, for_checks[0], start(for_start), None, steps, burn_in
        )
        for own in for_checks[1:]:
            longer = min(LONGER * steps, most_steps - steps)
            if not found.is_short or longer < steps or found.time > patience * time:
                break
            # All that was run is burn-in.
            state, passes, steps = found.samples.state, found.data_passes, longer
            found = _judged(for_run, asked, kernel, own, None, state, steps, 0)
            found = found._replace(data_passes=passes + found.data_passes)
    return found


def _judged(
    for_run: Key,
    asked: Asked,
    kernel: Kernel,
    for_check: Key,
    start: Any,
    state: Any,
    steps: int,
    burn_in: int,
) -> Trial:
    burn_in = min(burn_in, steps // 2)
    samples = inner_run(
        for_run,
        kernel,
        start,
        asked.given,
        steps,
        stacked=start is not None,
        num_chains=1 if start is not None else NUM_CHAINS,
        burn_in=burn_in,
        thin=max(1, (steps - burn_in) // MOST_DRAWS),
        state=state,
        # Their noise is a small part of what moves them: all chains may have it in common, nearly
        # independent.
        shared_minibatch=uses_batches(kernel) and not is_ordered(kernel),
        mesh=asked.mesh,
    )
    tolerance = asked.wanted.tolerance
    passes, report, why_not = NUM_CHAINS * samples.data_passes, None, "all of its chains diverged"
    if samples.is_finite.any():
        try:
            report = check(
                for_check,
                samples,
                asked.posterior,
                asked.given,
                tolerance=tolerance,
                shared_minibatch=False,
                mesh=asked.mesh,
            )
            passes += report.data_passes
        except ValueError as error:
            # Chains that stand still, or went where the potential has no gradient.
            why_not = str(error)
    beyond = NONE
    if samples.num_draws:
        beyond = outside(asked.posterior, _some(samples), asked.data)
    passes += beyond.data_passes
    return Trial(kernel, samples, report, steps - burn_in, passes, beyond, tolerance, why_not)


def _some(samples: Samples) -> Position:
    """Return draws of all chains, evenly spaced, at most a fixed number."""

    def some(x: Array) -> Array:
        every = x.reshape(-1, *x.shape[2:])
        return every[np.unique(np.linspace(0, len(every) - 1, MOST_PLACES).astype(int))]

    return jax.tree.map(some, samples.draws)
