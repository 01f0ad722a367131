"""The choice of a kernel by pilot runs, if the posterior is not near normal.

Chains warm up first. Minibatch noise, curvature and the metric are then those that chains met. Each
pilot run is judged; the next is made at half the step size until one is within tolerance. NUTS is
tried as well if that leaves doubts, or is slow.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.mode.start import Among
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidate_table import CandidateTable, best_of, table_for
from ewsg_jax.answers.plan.candidates import Candidate
from ewsg_jax.answers.plan.gaussian import Gaussian
from ewsg_jax.answers.plan.nuts_fallback import pilot_run_of_nuts, why_no_nuts
from ewsg_jax.answers.plan.pilot_run import ANOTHER_MODEL, PilotRun, make_pilot_run
from ewsg_jax.answers.plan.request import PlanRequest, PlanResult
from ewsg_jax.answers.plan.run_requirements import burn_in_steps
from ewsg_jax.answers.plan.stiff_directions import (
    StiffDirection,
    stiffest_direction,
    stiffest_within_a_step,
)
from ewsg_jax.answers.plan.warm_up import LONGER_WINDOWS, WarmUp, run_warm_up
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base import rng
from ewsg_jax.base.typing import Key, Position
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.rows._view import num_rows

MORE_TIME = "a larger seconds= of plan"
"""What helps if a plan had no time for what may be better."""


def choose_by_pilot_runs(
    key: Key,
    request: PlanRequest,
    normal: Gaussian | None,
    whitening: Whitening | None,
    second: Whitening | None = None,
) -> PlanResult:
    """Return the kernel whose pilot run is within tolerance, or the last one with its doubts.

    Args:
        key: a typed PRNG key.
        request: the posterior and the candidates.
        normal: the normal approximation at the mode, which is no answer; None without one.
        whitening: coordinates around which chains warm up; None: around the position where the
            search for a mode began.
        second: coordinates of another warm-up if the first does not settle; None for none.

    Raises:
        NothingFitsError: no candidate that is allowed is within tolerance.
        NoWidthsError: chains of a warm-up find no covariance, or curvatures beyond float32.
    """
    first_key, second_key, for_nuts, *keys = rng.keys_of(key, 3 + settings.MOST_PILOT_RUNS)
    warm = _warm_up(first_key, second_key, request, whitening, second)
    turn = _pilot_runs_in_turn(keys, request, warm, normal, hurries=not why_no_nuts(request))
    result = turn.result
    # With a gradient that is not the density's every kernel is wrong.
    if result.report is not None and result.report.mistaken:
        return result

    # NUTS is tried if the best kernel is in doubt, or so slow that the whole run takes far longer
    # than to try NUTS.
    is_slow = passes_per_draw(request, result) > settings.SLOW_PASSES
    run_steps = result.time * request.requirements.ess / request.requirements.num_chains
    is_long = run_steps * turn.step_seconds > settings.NUTS_RUN_RATIO * settings.NUTS_SECONDS
    if result.doubts or (is_slow and is_long):
        nuts = _try_nuts(for_nuts, request, warm.whitening, turn.starts)
        compared = compare_with_nuts(request, turn, nuts, warm.whitening)
        # Pilot runs that were given up for NUTS are made to their end if it is in doubt as well:
        # the same again, by the same keys, and what follows them.
        if turn.is_given_up and compared.doubts and request.has_time_for("longer pilot runs"):
            spent = result.data_passes - _passes_before(warm, normal)
            turn = _pilot_runs_in_turn(keys, request, warm, normal, hurries=False)
            result = replace(turn.result, data_passes=turn.result.data_passes + spent)
            turn = turn._replace(result=result)
            compared = compare_with_nuts(request, turn, nuts, warm.whitening)
        result = compared

    # If windows were cut short, nothing shows that longer ones would not have helped.
    if warm.why_not_settled and (result.doubts or LONGER_WINDOWS in request.left_out):
        text = f"the warm-up has not settled: {warm.why_not_settled}"
        result = _with_finding(result, Finding("warm_up", "doubt", text, ANOTHER_MODEL))
    if request.left_out and result.doubts:
        left_out = " and ".join(request.left_out)
        text = f"in {request.budget:,.0f} s there was no time for {left_out}"
        result = _with_finding(result, Finding("pilot_run", "doubt", text, MORE_TIME))
    return result


def _warm_up(
    first_key: Key,
    second_key: Key,
    request: PlanRequest,
    first: Whitening | None,
    second: Whitening | None,
) -> WarmUp:
    """Return a warm-up from the first coordinates; the better of two if that does not settle.

    Args:
        first_key: a typed PRNG key, for the first warm-up.
        second_key: a typed PRNG key, for the second.
        request: the posterior.
        first: coordinates around which chains start; None: around the position where the search for
            a mode began.
        second: coordinates of the second warm-up; None for none.
    """
    with request.timed("windows"):
        for program in ("gradients", "curvature"):
            request.compiling.wait(program)
        warm = run_warm_up(first_key, request, first)
        if (
            warm.why_not_settled
            and second is not None
            and request.has_time_for("a warm-up from the mode", share=settings.SECONDS_SHARE)
        ):
            warm = _better_of(warm, run_warm_up(second_key, request, second))
    return warm


class Turn(NamedTuple):
    """What a sequence of pilot runs has found.

    Attributes:
        result: the kernel of the last one.
        starts: starts of chains at draws.
        step_seconds: seconds that a step of all its chains took.
        is_given_up: whether NUTS is to be tried before they are continued.
    """

    result: PlanResult
    starts: Among[Position]
    step_seconds: float
    is_given_up: bool


def _better_of(first: WarmUp, second: WarmUp) -> WarmUp:
    """Return the one of two warm-ups that has settled, or whose last window changed less; with the
    passes of both.
    """
    is_second = not second.why_not_settled or second.variance_ratio < first.variance_ratio
    better = second if is_second else first
    return better._replace(data_passes=first.data_passes + second.data_passes)


def _pilot_runs_in_turn(
    keys: Sequence[Key],
    request: PlanRequest,
    warm: WarmUp,
    normal: Gaussian | None,
    *,
    hurries: bool,
) -> Turn:
    """Return the kernel of the last pilot run: each is at half the step size of the one before,
    until one is within tolerance.

    Args:
        keys: typed PRNG keys, one for each pilot run.
        request: the posterior and the candidates.
        warm: the warm-up.
        normal: the normal approximation at the mode; None without one.
        hurries: whether they are given up once an effective draw takes more than `SLOW_PASSES`
            passes over the data and what comes next takes longer than to try NUTS.
    """
    notes, whitening, data = warm.notes, warm.whitening, request.data
    count = settings.NUM_NOISE_PLACES
    places, stiff_places = warm.places(count), warm.stiff_places(count)
    starts, result = whitening.start_among(warm.draws), None
    spent = _passes_before(warm, normal)
    # An effective draw that takes this many times the predicted steps shows that the metric is too
    # narrow: the draws then give another one, once. A metric of low rank is kept.
    patience = settings.SLOW_PILOT_RATIO if isinstance(whitening.covariance, np.ndarray) else np.inf
    least_curvature, halvings, step_seconds, is_given_up = 0.0, 0, 0.0, False
    for number, key in enumerate(keys):
        if result is not None and not request.has_time_for("pilot runs at shorter steps"):
            break
        for_pilot, for_steps = rng.keys_of(key, 2)

        # The largest curvature that chains meet, or that one step leads to, bounds the step size.
        met = stiffest_direction(request.posterior, whitening, stiff_places, data)
        stiffest = stiffest_within_a_step(request.posterior, whitening, stiff_places, data, met)
        if number == 0 and stiffest.curvature > settings.STIFF_CURVATURE:
            notes.append(_step_size_note(stiffest, normal))
        curvature = max(least_curvature, stiffest.curvature)

        # Forecasts are for a normal distribution; the bias of this one may be larger. So less of it
        # may be predicted, and half of that after each run that was biased.
        requirements = replace(
            request.requirements,
            tolerance=request.requirements.tolerance / 2**halvings,
            bias_share=settings.PILOT_BIAS_SHARE,
        )
        with request.timed("candidates"):
            table = table_for(for_steps, request, whitening, places, curvature, requirements)
        if table.best is None and result is not None:
            notes.append(
                "no candidate is predicted to have half of that error: the last pilot run is the "
                "nearest to the tolerance"
            )
            break
        kernel, predicted_time = _kernel_to_try(request, table, whitening, curvature)

        # If NUTS may be tried, a run that is slower than this is not continued at any cost.
        evaluations = kernel.evaluations(data).on_average
        slowest = settings.SLOW_PASSES * num_rows(data) / evaluations if hurries else np.inf
        pilot = make_pilot_run(
            for_pilot,
            request,
            kernel,
            predicted_time,
            functools.partial(starts.subset, count=settings.NUM_PILOT_CHAINS),
            patience,
            slowest,
        )
        spent, step_seconds = spent + pilot.data_passes, pilot.step_seconds
        if not pilot.is_wrong:
            starts = pilot.start_among(whitening)
        result = PlanResult(
            kernel=kernel,
            start=starts,
            time=max(predicted_time, pilot.time),
            burn_in=burn_in_steps(predicted_time),
            table=table.forecasts,
            gaussian=normal,
            report=pilot.report,
            data_passes=spent,
            findings=pilot.findings,
            whitening=whitening,
        )

        # This run is the last if it is within tolerance, if no kernel cures what is wrong with it,
        # or if NUTS is to be tried before the next.
        is_slow = pilot.time > patience * predicted_time
        is_given_up = pilot.is_given_up
        if pilot.is_outside or pilot.is_mistaken or not (pilot.is_wrong or is_slow):
            break
        is_given_up = is_given_up or _is_next_too_long(pilot, slowest)
        if is_given_up:
            break

        # At four times the curvature a stable step is half as long.
        if pilot.is_wrong:
            least_curvature, halvings = 4 * curvature, halvings + 1
        else:
            # The posterior is much wider in some direction than the metric: its draws give another
            # one, once.
            whitening, patience = pilot.whitening(whitening), np.inf
        # Noise and curvature are measured where the run went.
        if pilot.report is not None and not (pilot.is_wrong and pilot.is_short):
            places = stiff_places = pilot.places(count, whitening.center)
    else:
        # All runs were made, and none ended the loop.
        notes.append(
            f"none of {settings.MOST_PILOT_RUNS} pilot runs was within tolerance: the last is the "
            "nearest to it"
        )
    assert result is not None
    return Turn(replace(result, notes=tuple(notes)), starts, step_seconds, is_given_up)


def _kernel_to_try(
    request: PlanRequest, table: CandidateTable, whitening: Whitening, curvature: float
) -> tuple[Kernel, float]:
    """Return the best kernel of a table, and the steps of an effective draw that are predicted; if
    none fits, and the user named no methods, a kernel without a forecast.

    Raises:
        NothingFitsError: no candidate that the user allows is within tolerance.
    """
    if table.best is None and not request.names_methods:
        return fallback_kernel(request, whitening, curvature)
    forecast = best_of(table)
    return table.kernel(forecast), forecast.time


def _passes_before(warm: WarmUp, normal: Gaussian | None) -> float:
    """Return the passes over the data before the first pilot run, the search for the mode apart."""
    return warm.data_passes + (0.0 if normal is None else normal.report.data_passes)


def _is_next_too_long(pilot: PilotRun, slowest: float) -> bool:
    """Return whether the pilot run after this one takes longer than to try NUTS, and is slower than
    `slowest`, in steps of an effective draw.

    After a run that was wrong the step is halved: an effective draw takes twice as many steps.
    """
    if pilot.report is None:
        return False
    ratio = 2 if pilot.is_wrong else 1
    seconds = ratio * pilot.num_steps * pilot.step_seconds
    return ratio * pilot.time > slowest and seconds > settings.NUTS_SECONDS


def passes_per_draw(request: PlanRequest, result: PlanResult) -> float:
    """Return the passes over the data of a chain that one effective draw takes."""
    evaluations = result.kernel.evaluations(request.data).on_average
    return result.time * evaluations / num_rows(request.data)


class NutsTried(NamedTuple):
    """What was seen of NUTS.

    Attributes:
        pilot: its pilot run; None if it was not made.
        passes_per_step: passes over the data that one of its steps takes.
        why_not: why there is no pilot run, in words.
    """

    pilot: PilotRun | None
    passes_per_step: float
    why_not: str = ""


def _try_nuts(
    key: Key, request: PlanRequest, whitening: Whitening, starts: Among[Position]
) -> NutsTried:
    """Return what a pilot run of NUTS shows, if it can be made.

    Args:
        key: a typed PRNG key.
        request: the posterior.
        whitening: coordinates by the chains of the warm-up.
        starts: the positions at which chains may start.
    """
    if reason := why_no_nuts(request):
        return NutsTried(None, 0.0, f"NUTS was not tried: {reason}")
    if not request.has_time_for("NUTS"):
        return NutsTried(None, 0.0, "NUTS was not tried: there was no time")
    pilot, passes_per_step = pilot_run_of_nuts(key, request, whitening, starts) or (None, 0.0)
    if pilot is None or pilot.report is None:
        return NutsTried(None, 0.0, "NUTS was tried, and its chains diverged")
    return NutsTried(pilot, passes_per_step)


def compare_with_nuts(
    request: PlanRequest, turn: Turn, nuts: NutsTried, whitening: Whitening
) -> PlanResult:
    """Return a result, or that of NUTS if its pilot run has no doubts and the other has, or if it
    takes fewer passes over the data.

    Args:
        request: the posterior.
        turn: what the pilot runs have found.
        nuts: what was seen of NUTS.
        whitening: coordinates by the chains of the warm-up.
    """
    pilot, passes_per_step, why_not = nuts
    result, starts = turn.result, turn.starts
    if pilot is None:
        is_said = result.doubts or "diverged" in why_not
        return _with_note(result, why_not) if is_said else result
    passes, passes_of_nuts = passes_per_draw(request, result), passes_per_step * pilot.time
    has_doubts = bool(pilot.findings)
    result = replace(result, data_passes=result.data_passes + pilot.data_passes)
    # If both are in doubt, or neither is, the quicker one is taken.
    is_worse = has_doubts and not result.doubts
    if is_worse or (has_doubts == bool(result.doubts) and passes_of_nuts > passes):
        text = f"NUTS was tried: {passes_of_nuts:.3g} passes an effective draw, for {passes:.3g}"
        return _with_note(result, text)
    if result.doubts and not has_doubts:
        why = f"its pilot run shows no bias, that of what was best before does: {result.doubts[0]}"
    else:
        before = f", for {passes:.3g} of what was best before" if np.isfinite(passes) else ""
        why = f"{passes_of_nuts:.3g} passes an effective draw{before}"
    return replace(
        _with_note(result, f"NUTS is the better tool here: {why}"),
        kernel=pilot.kernel,
        start=starts if pilot.is_wrong else pilot.start_among(whitening),
        time=pilot.time,
        burn_in=burn_in_steps(pilot.time),
        report=pilot.report,
        findings=pilot.findings,
    )


def fallback_kernel(
    request: PlanRequest, whitening: Whitening, curvature: float
) -> tuple[Kernel, float]:
    """Return a kernel for a posterior without a forecast within tolerance, and the steps of an
    effective draw that are expected of it.

    Args:
        request: the posterior.
        whitening: coordinates by the chains of the warm-up.
        curvature: the largest curvature, at which the step is stable.
    """
    n, shards = num_rows(request.data), request.num_row_shards
    few = max(shards, min(settings.ROWS_PER_DRAW, n // 2) // shards * shards)
    takes_all = n <= settings.MAX_FULL_BATCH_ROWS
    candidate = Candidate(
        "BAOAB", *(("full", "all") if takes_all else ("control_variate", "random"))
    )
    step_size = min(1.0, 2 * settings.STABLE_STEP_SHARE / max(curvature, 1.0) ** 0.5)
    kernel = candidate.make_kernel(
        request.posterior,
        step_size=step_size,
        friction=settings.WARM_UP_FRICTION,
        batch_size=request.requirements.batch_size or few,
        whitening=whitening,
        rows="random",
    )
    # At γ = 1 correlations fall as exp(−h/2) a step, so that an effective draw takes 4/h at most.
    return kernel, 4 / step_size


def _with_note(result: PlanResult, note: str) -> PlanResult:
    return replace(result, notes=(*result.notes, note))


def _with_finding(result: PlanResult, finding: Finding) -> PlanResult:
    return replace(result, findings=(*result.findings, finding))


def _step_size_note(stiffest: StiffDirection, normal: Gaussian | None) -> str:
    """Return what limits the step size, in words."""
    names = [] if normal is None else [normal.report.names[k] for k in stiffest.coordinates]
    along = f", along {', '.join(names)}" if names else ""
    return (
        f"stiff directions: the curvature reaches {stiffest.curvature:.3g} times the posterior's"
        f"{along}, and limits the step size"
    )
