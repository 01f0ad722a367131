"""A pilot run of a kernel, judged by `check`: its bias, its autocorrelation time, and its draws,
which show where the posterior is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.check import check
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.start import Among
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.metric import shrunk_covariance
from ewsg_jax.answers.plan.request import PlanRequest
from ewsg_jax.answers.plan.run_requirements import ALL_STEPS, burn_in_steps, steps_for_ess
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base import rng
from ewsg_jax.base.typing import Array, Key, Position
from ewsg_jax.draws.convergence import CONVERGED, MOST_RHAT_SHOWN
from ewsg_jax.gradients._protocol import uses_batches
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.finding import Finding, of_kinds, texts
from ewsg_jax.model_checks.support import NONE, SUPPORT_CURE, Outside, outside
from ewsg_jax.rows._scheme import is_ordered
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.sample import inner_run
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import vector

ANOTHER_MODEL = (
    "another parametrisation (of groups or a path: non-centred if members have few rows, centred "
    "if they have many; a bijector for what is bounded), a proper prior for what grows without "
    "bound, longer pilot runs (max_passes=), or NUTS of NumPyro or BlackJAX on the same functions; "
    "judge any run by ewsg_jax.check"
)
"""What helps if the pilot run of a kernel is wrong, or too short to judge."""
LONGER_PILOT_RUN = "a longer pilot run"
"""What a plan leaves out if it has no time for it."""


class PilotRun(NamedTuple):
    """A pilot run of a kernel.

    Attributes:
        kernel: the kernel.
        samples: the draws.
        report: the report of `check` on them; None if they could not be judged.
        num_steps: steps of each chain after its burn-in.
        data_passes: passes over the data of all chains, those of the check included.
        outside: the share of the draws at which the density is 0, which no gradient shows.
        tolerance: the tolerance of the check.
        why_not: why there is no report, in words.
        is_given_up: whether it was not continued because that takes longer than to try NUTS.
    """

    kernel: Kernel
    samples: Samples
    report: Report | None
    num_steps: int
    data_passes: float
    outside: Outside = NONE
    tolerance: float = 0.05
    why_not: str = ""
    is_given_up: bool = False

    @property
    def is_outside(self) -> bool:
        """Whether the density is 0 at too many draws. No step size cures it, as no gradient
        keeps chains inside.
        """
        return self.outside.matters(self.tolerance)

    @property
    def is_mistaken(self) -> bool:
        """Whether the gradient is not that of the density's values. No kernel cures it."""
        return self.report is not None and bool(self.report.mistaken)

    @property
    def is_wrong(self) -> bool:
        """Whether it is biased beyond Monte Carlo error, or chains diverged; a run whose chains do
        not agree yet is not.
        """
        if self.report is None or self.report.num_lost > 0 or self.is_outside:
            return True
        return (self.report.outcome == "wrong" or bool(self.unseen_bias)) and not self.is_short

    @property
    def unseen_bias(self) -> str:
        """Why not even a large bias would be seen, in words; empty if it would. Rare events, such
        as a steep edge that throws chains back, or excursions, make errors of Stein's identities as
        large as their effect.
        """
        report = self.report
        if report is not None and (excursions := texts(report.findings, "excursions")):
            return excursions
        # If the density ends among the draws, the identities do not hold.
        if report is None or report.cut_off:
            return ""
        if report.scores.distance > check_settings.NOTHING_KNOWN_SDS:
            return f"a bias of {report.scores.distance:.2g} sd would not be seen"
        return ""

    @property
    def is_short(self) -> bool:
        """Whether its chains do not agree yet, or its effective draws are too few to judge it."""
        return self.report is not None and (
            self.report.rhat > CONVERGED or self.report.scores.ess < settings.FEWEST_PILOT_ESS
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why it may not be trusted. Empty if it is within tolerance, or shows no bias with enough
        draws.
        """
        findings = []
        if self.is_outside:
            text = f"of the draws of its pilot run {self.outside.in_short}"
            findings.append(Finding("support", "error", text, SUPPORT_CURE))
        if self.report is None:
            text = f"its pilot run could not be judged: {self.why_not}"
            return (*findings, Finding("pilot_run", "doubt", text, ANOTHER_MODEL))
        if self.report.mistaken:
            return tuple(of_kinds(self.report.findings, "gradient"))
        for edge in of_kinds(self.report.findings, "edge"):
            text = f"its pilot run cannot be judged: {edge.text}"
            findings.append(replace(edge, severity="doubt", text=text))
        return (
            *findings,
            *(Finding("pilot_run", "doubt", text, ANOTHER_MODEL) for text in self._complaints),
        )

    @property
    def _complaints(self) -> list[str]:
        """What is wrong with the run itself, in words; its report is known."""
        report, complaints = self.report, []
        assert report is not None
        if report.num_lost:
            complaints.append(
                f"{report.num_lost} of {settings.NUM_PILOT_CHAINS} chains of its pilot run diverged"
            )
        if not report.rhat <= CONVERGED:
            most = MOST_RHAT_SHOWN
            rhat = f"{report.rhat:.3g}" if report.rhat < most else f"above {most:,.0f}"
            coordinates = f", {report.apart}" if report.apart else ""
            complaints.append(f"chains of its pilot run do not agree (R-hat {rhat}{coordinates})")
        elif report.outcome == "wrong":
            complaints.append(f"its pilot run is wrong: {report.verdict}")
        elif self.unseen_bias:
            complaints.append(f"its pilot run may be biased: {self.unseen_bias}")
        if report.scores.ess < settings.FEWEST_PILOT_ESS:
            complaints.append(
                f"its pilot run is worth {report.scores.ess:.0f} independent draws, and "
                f"{settings.FEWEST_PILOT_ESS:.0f} would judge it: an effective draw takes "
                f"{self.time:,.0f} steps or more"
            )
        return complaints

    @property
    def time(self) -> float:
        """Steps that one effective draw took, in the slowest direction, for its mean or its
        variance; infinite without a report.
        """
        if self.report is None:
            return float("inf")
        return settings.NUM_PILOT_CHAINS * self.num_steps / max(self.report.scores.ess, 1.0)

    @property
    def step_seconds(self) -> float:
        """Seconds that a step of all chains took."""
        return self.samples.run_seconds / self.samples.num_steps

    def places(self, count: int, center: Position) -> np.ndarray:
        """Return some of its draws less a center, shape (count or fewer, d)."""
        draws = draws_of(self.samples, None, count)
        return np.asarray(draws.flat - vector(center), np.float32)

    def start_among(self, whitening: Whitening) -> Among[Position]:
        """Return starts of chains at some of its draws."""
        return whitening.start_among(self._flat_draws)

    def whitening(self, previous: Whitening) -> Whitening:
        """Return coordinates by the covariance of its draws.

        Args:
            previous: the coordinates in which it was run, whose covariance is a matrix.
        """
        assert isinstance(previous.covariance, np.ndarray)
        flat = self._flat_draws
        ess = settings.NUM_PILOT_CHAINS * self.num_steps / self.time
        covariance = shrunk_covariance(flat, ess, previous.covariance)
        return Whitening.from_chains(previous.mode, previous.layout.tree(flat.mean(0)), covariance)

    @property
    def _flat_draws(self) -> np.ndarray:
        """Its draws as vectors, shape (draws, d)."""
        most = check_settings.DRAWS_TO_USE[0]
        return draws_of(self.samples, None, most).flat


def make_pilot_run(
    key: Key,
    request: PlanRequest,
    kernel: Kernel,
    time: float,
    start: Callable[[Key], Position],
    patience: float = float("inf"),
    slowest: float = float("inf"),
) -> PilotRun:
    """Run a kernel for some hundreds of effective draws, and judge them.

    A run takes a part of the seconds that the plan has left; the draws of one that is cut short are
    judged by themselves.

    Args:
        key: a typed PRNG key.
        request: the posterior, and how many passes over the data the run may take.
        kernel: the kernel.
        time: autocorrelation time that is predicted, in steps.
        start: a function of a key that returns the starts of all chains, with a leading axis.
        patience: autocorrelation times over the predicted one up to which a run that is too short
            is continued.
        slowest: autocorrelation time, in steps, above which it is continued only as long as that
            takes no longer than to try NUTS.
    """
    # A run that is too short is continued at most three times, by the same key: the noise of a step
    # depends on its number as well. Each part is checked by a key of its own.
    for_run, for_start, *for_checks = rng.keys_of(key, 6)
    # As many steps as the predicted time asks for, within the passes that are allowed.
    cost = kernel.evaluations(request.data).on_average
    most_steps = int(request.max_passes * num_rows(request.data) / max(1.0, cost))
    burn_in = burn_in_steps(time)
    steps = burn_in + steps_for_ess(time, settings.PILOT_ESS, settings.NUM_PILOT_CHAINS)
    steps = min(steps, max(most_steps, 32))
    with request.timed("trials"):
        request.compiling.wait("check")
        starts = start(for_start)
        try:
            samples = _run(for_run, request, kernel, steps, burn_in, start=starts)
        except ValueError:  # the time was up during the burn-in
            burn_in = 0
            samples = _run(for_run, request, kernel, steps, burn_in, start=starts)
        pilot = _judge(for_checks[0], request, kernel, samples, min(burn_in, steps // 2))

        for for_check in for_checks[1:]:
            # A longer run helps if this one is too short, may be longer, and has coordinates that
            # are not far off.
            longer = min(settings.PILOT_LENGTHENING * steps, most_steps - steps)
            if not pilot.is_short or longer < steps or pilot.time > patience * time:
                break
            seconds = longer * pilot.step_seconds
            if pilot.time > slowest and seconds > settings.NUTS_SECONDS:
                return pilot._replace(is_given_up=True)
            is_cut = samples.num_steps < steps
            if is_cut or not request.has_time_for(LONGER_PILOT_RUN, seconds):
                break
            # All that was run until now is burn-in.
            passes, steps = pilot.data_passes, longer
            samples = _run(for_run, request, kernel, steps, 0, state=samples.state)
            pilot = _judge(for_check, request, kernel, samples, 0)
            pilot = pilot._replace(data_passes=passes + pilot.data_passes)
        # A run that the clock has cut short is noted.
        if samples.num_steps < steps:
            request.has_time_for(LONGER_PILOT_RUN, float("inf"))
    return pilot


def _run(
    key: Key,
    request: PlanRequest,
    kernel: Kernel,
    steps: int,
    burn_in: int,
    *,
    start: Any = None,
    state: Any = None,
) -> Samples:
    """Return draws of all chains, from their starts or from the states of an earlier run."""
    burn_in, is_first = min(burn_in, steps // 2), start is not None
    return inner_run(
        key,
        kernel,
        start,
        request.data_for_runs,
        steps,
        stacked=is_first,
        num_chains=1 if is_first else settings.NUM_PILOT_CHAINS,
        burn_in=burn_in,
        thin=max(
            1, settings.NUM_PILOT_CHAINS * (steps - burn_in) // check_settings.DRAWS_TO_USE[0]
        ),
        state=state,
        moments=ALL_STEPS,
        seconds=request.seconds_of_a_run,
        # Minibatch noise is a small part of what moves chains: with the same minibatches for all
        # they are still nearly independent.
        shared_minibatch=uses_batches(kernel) and not is_ordered(kernel),
        mesh=request.mesh,
    )


def _judge(
    key: Key, request: PlanRequest, kernel: Kernel, samples: Samples, burn_in: int
) -> PilotRun:
    """Return a pilot run with the report of `check`, and the share of draws outside the support.

    Args:
        key: a typed PRNG key.
        request: the posterior.
        kernel: the kernel that was run.
        samples: its draws.
        burn_in: first steps of each chain, which were not kept.
    """
    tolerance = request.requirements.tolerance
    passes = settings.NUM_PILOT_CHAINS * samples.data_passes
    report, why_not = None, "all of its chains diverged"
    if samples.is_finite.any():
        try:
            report = check(
                key,
                samples,
                request.posterior,
                request.data_for_runs,
                tolerance=tolerance,
                shared_minibatch=False,
                mesh=request.mesh,
            )
            passes += report.data_passes
        except ValueError as error:
            # Chains that do not move, or went where the potential has no gradient.
            why_not = str(error)
    outside_support = NONE
    if samples.num_draws:
        outside_support = outside(request.posterior, _some_draws(samples), request.data)
    return PilotRun(
        kernel=kernel,
        samples=samples,
        report=report,
        num_steps=samples.num_steps - burn_in,
        data_passes=passes + outside_support.data_passes,
        outside=outside_support,
        tolerance=tolerance,
        why_not=why_not,
    )


def _some_draws(samples: Samples) -> Position:
    """Return draws of all chains, evenly spaced, at most `NUM_DENSITY_DRAWS`."""

    def evenly_spaced(x: Array) -> Array:
        flat = x.reshape(-1, *x.shape[2:])
        numbers = np.linspace(0, len(flat) - 1, settings.NUM_DENSITY_DRAWS)
        return flat[np.unique(numbers.astype(int))]

    return jax.tree.map(evenly_spaced, samples.draws)
