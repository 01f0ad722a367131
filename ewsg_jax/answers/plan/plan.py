"""Plan a run: which kernel, from where and how long; and whether a chain is needed at all."""

import dataclasses
import math
import time
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from ewsg_jax.answers.mode.find_mode import find_mode
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.mode.potential import is_newton_quick
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidate_table import NothingFitsError
from ewsg_jax.answers.plan.candidates import candidates_for, plannable_methods
from ewsg_jax.answers.plan.gaussian import NoGradientError
from ewsg_jax.answers.plan.hierarchy import hierarchy_of, plan_in_coordinates
from ewsg_jax.answers.plan.pilot_run import ANOTHER_MODEL
from ewsg_jax.answers.plan.pilot_search import choose_by_pilot_runs
from ewsg_jax.answers.plan.precompile import start_compiling
from ewsg_jax.answers.plan.request import PlanRequest, PlanResult
from ewsg_jax.answers.plan.result import Plan
from ewsg_jax.answers.plan.run_requirements import (
    RunRequirements,
    check_note,
    ess_for_tolerance,
)
from ewsg_jax.answers.plan.search import choose_around_mode
from ewsg_jax.answers.plan.whitening import NoWidthsError, Whitening
from ewsg_jax.base import checks, numeric, pytrees, rng
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.memory import free_on_the_host
from ewsg_jax.base.progress import Clock
from ewsg_jax.base.typing import Data, Key, P, Position
from ewsg_jax.base.warn import warn
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.gradient import wrong_gradient_at
from ewsg_jax.model_checks.precision import check_digits
from ewsg_jax.model_checks.support import SUPPORT_CURE
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows import _spread as spread
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.data_digest import model_origin


@reads_now("posterior")
def plan(
    key: Key,
    posterior: Posterior[P],
    position: P,
    data: Data,
    *,
    tolerance: float = 0.05,
    num_chains: int = 8,
    mode: Mode[P] | None = None,
    methods: Collection[str] | None = None,
    batch_size: int | None = None,
    memory_limit: int | None = None,
    max_passes: float | None = None,
    seconds: float | None = None,
    by: Literal["rows", "passes", "seconds"] = "rows",
    mesh: Mesh | None = None,
    check_data: bool = True,
    progress: bool = True,
) -> Plan:
    """Choose a kernel, its start and the length of a run: the cheapest run whose means and standard
    deviations are within tolerance.

    The mode is searched for, and the normal approximation there is judged. If it is within
    tolerance after correction, `plan.gaussian` is an answer without a chain. Then the bias and the
    autocorrelation of each dynamics with each estimator are predicted, for each batch and step
    size. Step sizes stay below the stability limit at the largest curvature that chains meet. If
    the posterior is not near normal, or has no mode, chains warm up in windows, whose draws and
    gradients give a metric; then pilot runs are made until `ewsg_jax.check` finds one within
    tolerance.

    Args:
        key: a typed PRNG key.
        posterior: the target.
        position: the position at which the search for its mode begins, a pytree of floating-point
            arrays. Lower precision than float32 is widened to it, for the plan and for the run.
        data: all n rows.
        tolerance: the largest relative error of a standard deviation, Monte Carlo error included.
            A mean may be off by twice as many standard deviations.
        num_chains: number of chains of the run.
        mode: the mode, as `find_mode` returned it for this posterior and these data; None: it is
            searched for.
        methods: names of the methods that may be taken; None: BAOAB, which is exact on a normal
            posterior, with full, control-variate, SVRG, SAGA and uniform estimates. The error of
            another dynamics is counted, as far as many effects add it up in a scale they share.
        batch_size: rows of a step, at most n; None: what costs least.
        memory_limit: bytes that the states of all chains may take; None: a quarter of what is free.
        max_passes: passes over the data that each chain of a pilot run may take. Default: 2,000, or
            40 million evaluations of a row if that is more.
        seconds: what the plan may take, but for the work under way then. Default: 90; in
            proportion for more than two million rows times parameters. What there was no time for
            is said.
        by: what a run costs: `"rows"` evaluated, and 64 more for each step; `"passes"`, rows alone,
            for likelihoods that take much longer than a step; or `"seconds"`: the best candidate of
            each estimator is run for some steps on this machine (or mesh), a program for each, and
            the quickest is taken.
        mesh: several devices, as for `ewsg_jax.sample`, by which the plan is made and is to be run:
            along `"data"` each has a part of the rows and its share of every batch, whose size they
            divide; rows by leverage are then left out.
        check_data: look once for NaN and infinity in the data, and for labels that the model does
            not know; False if the likelihood masks what is missing.
        progress: show on a terminal what is under way, and for how long.

    Returns:
        The plan: `sample(key, plan, data)` carries it out, and with
        `**plan.sample_options(ess=1_000)` a shorter run of it. If nothing shows that the kernel is
        within tolerance `plan.is_trusted` is False and `plan.doubts` has the reasons; a
        RuntimeWarning says so, and so does the verdict of `check` on a run of its kernel.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; nothing that is allowed
            fits; no mode is found, and at the position the gradient is not that of the density.
        KeyboardInterrupt: one of its runs was interrupted (Ctrl-C).

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> x = jax.random.normal(jax.random.key(0), (400, 2))
        >>> plan = ewsg.plan(
        ...     jax.random.key(1), ewsg.models.gaussian_location(), jnp.zeros(2), {"x": x}["x"]
        ... )
        >>> plan.gaussian.is_right, plan.report is None
        (True, True)
        >>> samples = ewsg.sample(jax.random.key(2), plan, x)
        >>> bool(jnp.allclose(samples.sd, 400**-0.5, rtol=0.1))
        True
    """
    # Two options are checked only if they are given, for they have no default that is a number.
    bounds = {"max_passes": max_passes, "seconds": seconds}
    options = {"tolerance": tolerance} | {k: x for k, x in bounds.items() if x is not None}
    _check_on_host({"key": key, "position": position, "data": data, "mode": mode} | options)
    checks.key(key)
    check_posterior(posterior)
    position = checks.position(position)
    checks.not_empty("position", position)
    checks.finite("position", position)
    data = numeric.native(data)
    n = checks.data(data)
    checks.boolean("check_data", check_data)
    checks.boolean("progress", progress)
    if check_data:
        checks.finite("data", data)
    data, data_for_runs, num_row_shards = _placed(data, mesh)
    posterior.check(position, data if check_data else checks.shapes(data))
    posterior.check_gradient(position, data)
    for name, value in options.items():
        checks.positive(name, value)
    checks.decay("tolerance", tolerance)
    checks.integer("num_chains", num_chains)
    if mode is not None:
        mode = _checked_mode(mode, posterior, position, data_for_runs)
    checks.one_of("by", by, ("rows", "passes", "seconds"))
    if methods is not None:
        _check_methods(methods)
    if batch_size is not None:
        _check_batch_size(batch_size, n, num_row_shards)
    if memory_limit is not None:
        checks.integer("memory_limit", memory_limit)

    # A half-precision number has fewer digits than a tolerance needs, if the mode is some sds from
    # 0.
    position = pytrees.widened(position)
    call = PlanCall(
        data=data,
        data_for_runs=data_for_runs,
        requirements=RunRequirements(
            tolerance=float(tolerance),
            ess=ess_for_tolerance(tolerance),
            num_chains=num_chains,
            batch_size=batch_size,
            # States may take a quarter of the memory that is free.
            memory_limit=(
                memory_limit if memory_limit is not None else (free_on_the_host() or 2**32) // 4
            ),
            by=by,
            num_row_shards=num_row_shards,
            is_restricted=methods is not None or batch_size is not None or by != "rows",
        ),
        methods=methods,
        max_passes=float(
            max_passes or max(settings.PASSES_PER_PILOT_CHAIN, settings.ROWS_PER_PILOT_CHAIN / n)
        ),
        budget=float(seconds or _seconds_for(n, position)),
        started=time.perf_counter(),
        mesh=mesh,
        check_data=check_data,
        progress=progress,
    )

    # A hierarchy is planned in coordinates in which it may be near normal. A mode that is given is
    # in those of the position, and the plan is made in them.
    centring = hierarchy_of(posterior, position) if mode is None else None
    if centring is None:
        planned = _planned(key, posterior, position, call, mode)
    else:
        # In other coordinates the data are the same, and they have been checked.
        call = dataclasses.replace(call, check_data=False)
        planned = plan_in_coordinates(
            key,
            posterior,
            position,
            centring,
            partial(_mode, call=call),
            partial(_planned, call=call),
        )
    if not planned.is_trusted:
        doubts = "; ".join(planned.doubts)
        warn(f"the plan is not trusted: {_with_full_stop(doubts)} What to do: {planned.advice}")
    return planned


@dataclass(frozen=True)
class PlanCall:
    """The arguments of `plan` that do not depend on coordinates, checked.

    Attributes:
        data: all n rows, on the devices of a mesh if there is one.
        data_for_runs: all n rows, as runs take them.
        requirements: what a run must meet.
        methods: names of the methods that may be taken; None for the default.
        max_passes: passes over the data that each chain of a pilot run may take.
        budget: what the plan may take, s.
        started: the time at which it began, by `time.perf_counter`, s.
        mesh: devices with the rows; None for one.
        check_data: whether values of the data are checked.
        progress: whether progress is shown.
    """

    data: Data
    data_for_runs: Data
    requirements: RunRequirements
    methods: Collection[str] | None
    max_passes: float
    budget: float
    started: float
    mesh: Mesh | None
    check_data: bool
    progress: bool


def _mode(key: Key, posterior: Posterior, position: Position, call: PlanCall) -> Mode:
    """Return the mode that a search finds from a position."""
    is_quick = is_newton_quick(posterior, position, call.data)
    return find_mode(
        key,
        posterior,
        position,
        call.data_for_runs,
        max_steps=settings.NEWTON_MODE_STEPS if is_quick else settings.MODE_STEPS,
        progress=False,
        mesh=call.mesh,
        check_data=call.check_data,
    )


def _mode_with_findings(
    key: Key, posterior: Posterior, position: Position, call: PlanCall
) -> tuple[Mode, list[Finding]]:
    """Return the mode that a search finds from a position, and what the search warned of.

    Raises:
        ValueError: no mode is found, and the gradient at the position is not that of the density.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        mode = _mode(key, posterior, position, call)
    # A search by another gradient fails in many ways, none of which says so.
    if not mode.converged and (wrong := wrong_gradient_at(posterior, position, call.data)):
        raise ValueError(
            f"posterior must have the gradient of its density; got one of which "
            f"no mode is found, and around the position where the search began "
            f"{wrong[0].text}: {wrong[0].cure}"
        )
    return mode, _as_findings(caught)


def _planned(
    key: Key,
    posterior: Posterior,
    position: Position,
    call: PlanCall,
    mode: Mode | None = None,
) -> Plan:
    """Return a plan in the coordinates of a posterior.

    Args:
        key: a typed PRNG key.
        posterior: the target.
        position: the position at which the search for its mode begins.
        call: the other arguments of `plan`.
        mode: the mode; None: it is searched for.

    Raises:
        ValueError: nothing that is allowed fits, no covariance or gradient is found around the
            mode, or as `_mode_with_findings`.
    """
    for_mode, for_search = rng.keys_of(key, 2)
    data, requirements = call.data, call.requirements
    candidates = candidates_for(
        posterior, call.methods, by_leverage=requirements.num_row_shards == 1
    )
    mode_findings: list[Finding] = []
    passes_for_mode = 0.0
    # What any search runs is compiled by a thread while the mode is searched for.
    with (
        Clock(call.progress) as clock,
        start_compiling(posterior, position, data, candidates, requirements) as compiling,
    ):
        clock.says("plan: the mode is searched for")
        if mode is None:
            mode, mode_findings = _mode_with_findings(for_mode, posterior, position, call)
            passes_for_mode = mode.data_passes
        # Without a mode chains begin around the position.
        centers = [mode.position] if mode.converged else [mode.position, position]
        check_digits(posterior, centers, data)

        request = PlanRequest(
            posterior=posterior,
            data=data,
            start_position=position,
            mode=mode,
            candidates=candidates,
            requirements=requirements,
            max_passes=call.max_passes,
            budget=call.budget,
            started=call.started,
            data_for_runs=call.data_for_runs,
            mesh=call.mesh,
            names_methods=call.methods is not None,
            seconds={"mode": time.perf_counter() - call.started},
            compiling=compiling,
            clock=clock,
        )
        try:
            result = _search(for_search, request)
        except (NoGradientError, NothingFitsError, NoWidthsError) as error:
            # No other kernel is left to try. If the search for the mode warned, that may be why.
            reasons = [_with_full_stop(finding.text) for finding in mode_findings]
            raise ValueError(" And ".join([*reasons, str(error)])) from error
    request.seconds["all"] = time.perf_counter() - call.started
    return _plan_of(request, result, mode_findings, passes_for_mode)


def _seconds_for(n: int, position: Position) -> float:
    """Return the seconds that a plan may take, if none are given."""
    numbers = n * pytrees.size(position)
    return settings.PLAN_SECONDS * max(1.0, numbers / settings.PLAN_NUMBERS)


def _search(key: Key, request: PlanRequest) -> PlanResult:
    """Return the kernel that a search chose: around the mode, or by pilot runs if the curvature
    there is not positive definite.
    """
    try:
        # In float32 a covariance may be rounded to a matrix that is not positive definite, which
        # has no factor.
        at_mode = Whitening.at_mode(request.mode)
        _ = at_mode.factor, at_mode.host_factor
    except ValueError:
        return choose_by_pilot_runs(key, request, None, None)
    return choose_around_mode(key, request)


def _plan_of(
    request: PlanRequest, result: PlanResult, mode_findings: list[Finding], passes_for_mode: float
) -> Plan:
    """Return the plan of a search.

    Args:
        request: what was searched for.
        result: the kernel that was chosen.
        mode_findings: what the search for the mode met.
        passes_for_mode: passes over the data that it took.
    """
    # A pilot run that was not judged has an infinite time: the predicted one is then taken, which
    # the burn-in is a multiple of.
    predicted = result.burn_in / settings.BURN_IN_TIMES
    steps_per_draw = result.time if math.isfinite(result.time) else predicted
    reports = [result.gaussian and result.gaussian.report, result.report]
    of_reports = dict.fromkeys(report.note for report in reports if report)
    notes = [finding.text for finding in mode_findings] + list(result.notes)
    # What the search for the mode warned of may be why the plan is in doubt; alone it is no doubt.
    if not result.doubts:
        mode_findings = []
        notes += check_note(result.report, ess_for_tolerance(request.requirements.tolerance))
    return Plan(
        kernel=result.kernel,
        start=result.start,
        burn_in=result.burn_in,
        autocorrelation_time=steps_per_draw,
        table=tuple(result.table),
        gaussian=result.gaussian,
        mode=request.mode,
        report=result.report,
        notes=tuple(notes + [note for note in of_reports if note]),
        tolerance=request.requirements.tolerance,
        num_chains=request.requirements.num_chains,
        data_passes_spent=passes_for_mode + result.data_passes,
        seconds_spent=request.seconds,
        cost=result.kernel.evaluations(request.data),
        num_rows=num_rows(request.data_for_runs),
        by=request.requirements.by,
        findings=(*result.findings, *mode_findings),
    )


def _as_findings(caught: list[warnings.WarningMessage]) -> list[Finding]:
    """Return what `find_mode` warned of as findings."""
    messages = [str(item.message) for item in caught if issubclass(item.category, RuntimeWarning)]
    return [
        Finding("support", "doubt", message, SUPPORT_CURE)
        if "-inf" in message
        else Finding("mode", "doubt", message, ANOTHER_MODEL)
        for message in messages
    ]


def _with_full_stop(text: str) -> str:
    """Return a sentence with a full stop, unless it is a question."""
    return text if text.endswith((".", "?")) else f"{text}."


def _placed(data: Data, mesh: Mesh | None) -> tuple[Data, Data, int]:
    """Return the rows as the plan reads them, as its runs take them, and the number of devices that
    share them.

    Runs place the rows on the devices of a mesh themselves, and take them from the host.
    """
    on_devices = spread.over(mesh, data)
    if isinstance(on_devices, spread.Spread):
        for_runs = jax.tree.map(spread.on_host, data)
        return on_devices, for_runs, on_devices.mesh.shape[spread.DATA]
    in_one_place = jax.tree.map(jnp.asarray, data)
    return in_one_place, in_one_place, 1


def _checked_mode(mode: Mode, posterior: Posterior, position: Position, data: Data) -> Mode:
    """Return the mode that the user gave, at least in float32, if it is one of this posterior."""
    checks.instance("mode", mode, Mode, "made by ewsg_jax.find_mode")
    checks.same_tree("mode must be of these positions", "mode.position", mode.position, position)
    checks.finite("mode.position", mode.position)
    mode.check_origin(model_origin(posterior, data))
    return mode._replace(position=pytrees.widened(mode.position))


def _check_batch_size(batch_size: int, n: int, num_row_shards: int) -> None:
    """Check that a batch has at most n rows, which the devices can share equally."""
    checks.integer("batch_size", batch_size, maximum=n)
    if batch_size % num_row_shards:
        raise ValueError(
            f"batch_size must be a multiple of {num_row_shards}, the parts into which mesh "
            f"cuts the rows, for each has its share of every batch; got {batch_size}"
        )


def _check_on_host(arguments: Mapping[str, object]) -> None:
    """Check that no argument is traced: a plan depends on values."""
    checks.on_host("plan", ())
    for name, value in arguments.items():
        if any(map(checks.is_traced, jax.tree.leaves(value))):
            raise TypeError(
                f"{name} must be known: call plan outside of jit, vmap and grad; got a traced one"
            )


def _check_methods(methods: Collection[str]) -> None:
    """Check names of methods that can be planned."""
    checks.texts("methods", methods)
    if not methods:
        raise ValueError(
            "methods must name a method, or be None for all that can be planned; got none"
        )
    for name in methods:
        checks.one_of("methods", name, plannable_methods())
