"""One attempt of a check: gradients at some of the draws, and the report that follows from them.

A check makes a second attempt, with more draws, only if the first one decides nothing.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ewsg_jax.answers.check import settings, stein
from ewsg_jax.answers.check.affine import ModeMetric, metric_of
from ewsg_jax.answers.check.beyond_draws import Missing, missing_part, usual_share_beyond
from ewsg_jax.answers.check.brascamp_lieb import as_wide, far_out, prior_moments, too_wide
from ewsg_jax.answers.check.centred import (
    in_centred,
    in_position,
    moments_of_position,
    pulled_back,
    scales_of,
)
from ewsg_jax.answers.check.correction import Correction, TargetMoments
from ewsg_jax.answers.check.crossfit import TINY
from ewsg_jax.answers.check.draws import Draws, draws_of
from ewsg_jax.answers.check.excursions import excursions
from ewsg_jax.answers.check.gradients import FreshGradients, fresh_gradients
from ewsg_jax.answers.check.mixing import worst_rhat
from ewsg_jax.answers.check.moved_draws import Analysis, move_draws
from ewsg_jax.answers.check.report import Corrected, Report
from ewsg_jax.answers.check.verdict import Measured
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import checks, limits, rng
from ewsg_jax.base.typing import Data, Key, PyTree
from ewsg_jax.draws.convergence import CONVERGED
from ewsg_jax.draws.coordinates import Names
from ewsg_jax.draws.mean_and_sd import mean_of, sd_of
from ewsg_jax.model_checks.edges import cut_off
from ewsg_jax.model_checks.finding import Finding, texts
from ewsg_jax.model_checks.precision import lost_to_rounding
from ewsg_jax.model_checks.support import outside_by_batches
from ewsg_jax.model_checks.support_structure import can_end
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.posterior.random import known
from ewsg_jax.rows import _spread as spread
from ewsg_jax.rows._named import Rows
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import vector

KEYS_PER_ATTEMPT = 16
"""Random keys of an attempt: one for each set of gradients, and the last for densities."""


@dataclass(frozen=True, eq=False)
class CheckRequest:
    """What a check is asked; the arguments of `check`, each of them checked.

    Attributes:
        key: a typed PRNG key.
        samples: a run, or a pytree of draws with leading axes (chain, draw).
        posterior: the target.
        data: all n rows, on the device or spread over several.
        mode: the mode whose covariance gives directions; None: the draws' own halves do.
        temperature: T of the target exp(−V/T).
        tolerance: the largest relative error allowed of a standard deviation; twice that of a mean,
            in sds.
        error_rate: the probability that a right run is called wrong.
        batch_size: rows for the gradient at each draw, in two minibatches.
        rows: the sampling scheme of these rows; None: the model decides.
        names: names of the coordinates; None: their places in the pytree.
        shared_minibatch: whether chains share their minibatches; None: as the samples say.
        of: the function of a position that is judged; None: the coordinates are.
    """

    key: Key
    samples: Samples | PyTree
    posterior: Posterior
    data: Data
    mode: Mode | None
    temperature: float
    tolerance: float
    error_rate: float
    batch_size: int
    rows: Rows | None
    names: Names
    shared_minibatch: bool | None
    of: Callable[[Any], PyTree] | None = None


def attempt(request: CheckRequest, number: int, max_draws: int) -> Report:
    """Return the report from at most `max_draws` draws of all chains together.

    Args:
        request: what is asked.
        number: how many attempts there were before; each has random keys of its own.
        max_draws: the largest number of draws at which gradients are evaluated.
    """
    draws, first = checked_gradients(request, number, max_draws, request.names)
    # Moments are those of all draws; gradients are evaluated at some of them.
    tree = request.samples.draws if isinstance(request.samples, Samples) else request.samples
    mean = mean_of(tree, draws.chains)
    sd = vector(sd_of(tree, draws.chains, mean))
    prior = prior_moments(request.posterior, draws, request.temperature)
    findings = support_findings(request, number, draws)
    findings += excursions(request.samples, draws)
    if request.posterior.log_concave:
        findings += too_wide(draws, prior, request.tolerance, request.error_rate)
    report = _report(request, number, draws, (vector(mean), sd), first, findings)
    # What identities cannot see: a coordinate far beyond the prior, or as wide as it.
    notes = far_out(vector(mean), prior, draws.names)
    if report.outcome != "wrong" and report.corrected is not None:
        # The sds of a wrong run, or of one far from its target, say nothing of the data.
        notes += as_wide(sd, prior, draws.names)
    return replace(report, findings=(*report.findings, *notes))


def checked_gradients(
    request: CheckRequest, number: int, max_draws: int, names: Names
) -> tuple[Draws, FreshGradients]:
    """Return at most `max_draws` draws of all chains together, and gradients at them.

    Args:
        request: what is asked.
        number: how many attempts there were before.
        max_draws: the largest number of draws.
        names: names of the coordinates; None: their places in the pytree.

    Raises:
        TypeError, ValueError: they are no draws of positions, or a gradient is not finite.
    """
    draws = draws_of(request.samples, names, max_draws, request.shared_minibatch)
    draws.check_chains()
    if request.mode is not None:
        draws.check_mode(request.mode)
    first = _gradients(request, number, 0, draws)
    if not first.is_finite and not isinstance(request.data, spread.Spread):
        # If the data are the reason, the error names them.
        checks.finite("data", request.data)
        if known(request.posterior) is None:
            first.check()
        lost = draws.position(draws.flat[np.argmin(np.isfinite(first.mean).all(1))])
        first.check("; ".join(map(str, lost_to_rounding(request.posterior, lost, request.data))))
    first.check()
    return draws, first


def _gradients(request: CheckRequest, attempt: int, moves: int, draws: Draws) -> FreshGradients:
    """Return gradients at draws; no noise is used twice.

    Args:
        request: what is asked.
        attempt: the number of the attempt.
        moves: how often the draws were moved.
        draws: the positions at which gradients are evaluated.
    """
    fresh = fresh_gradients(
        rng.folded(request.key, KEYS_PER_ATTEMPT * attempt + moves),
        request.posterior,
        in_position(draws),
        request.data,
        request.batch_size,
        request.rows,
        request.temperature,
    )
    return pulled_back(draws, fresh)


def support_findings(request: CheckRequest, attempt: int, draws: Draws) -> list[Finding]:
    """Return that draws lie outside the support, or else that the density ends among them.

    If no density can end by its structure, nothing is evaluated: what overflows shows in the
    gradient.
    """
    posterior, data = request.posterior, request.data
    if known(posterior) is None:
        return []  # without values none is known to be 0
    ends = can_end(posterior, draws.layout.tree(draws.flat[0]), data)
    if not any(ends):
        return []
    key = rng.folded(request.key, KEYS_PER_ATTEMPT * (attempt + 1) - 1)
    outside = outside_by_batches(key, posterior, draws.layout, draws.flat, data, request.batch_size)
    return outside.findings or cut_off(
        posterior, draws.layout, draws.flat, data, ends, request.tolerance
    )


def analyse(
    error_rate: float, draws: Draws, fresh: FreshGradients, metric: ModeMetric | None = None
) -> Analysis:
    """Return the identities at draws, and the correction of their moments.

    Args:
        error_rate: the probability that identities of a right run are called violated.
        draws: the draws.
        fresh: gradients at them.
        metric: a mode and a root of its covariance, for directions; None: halves of the draws give
            directions to each other.
    """
    gradients = draws.in_chains(fresh.mean)
    noise = None
    if fresh.first is not fresh.second:
        noise = draws.in_chains((fresh.first - fresh.second) / 2)
    if metric is not None:
        directions = stein.by_root(draws.values, gradients, noise, *metric)
    else:
        # A covariance matrix needs some draws for each parameter; by hand.
        most = len(draws.flat) // 8
        is_dense = draws.size <= min(limits.MAX_DENSE_DIMENSION, most)
        directions = stein.by_halves(draws.values, gradients, noise, is_dense, draws.shared)
    scores = stein.scores_of(directions, error_rate, draws.shared)
    if draws.shared:
        # Chains that share minibatches are not independent, so groups are cut in time.
        draws = draws._replace(num_groups=min(draws.num_groups, scores.num_blocks))
    distance = float(np.hypot(scores.distance, scores.hidden))
    correction = Correction(draws.flat, fresh.first, fresh.second, distance, draws.num_groups)
    return Analysis(draws, fresh.mean, scores, correction)


def _report(
    request: CheckRequest,
    number: int,
    draws: Draws,
    overall: tuple[np.ndarray, np.ndarray],
    first: FreshGradients,
    findings: list[Finding],
) -> Report:
    """Return the report on draws from the gradients at them.

    Args:
        request: what is asked.
        number: the number of the attempt.
        draws: the draws that are used.
        overall: mean and standard deviation of all draws, unused ones too, shape (d,) each.
        first: gradients at the draws that are used.
        findings: what is known of the places of the draws.
    """
    judged, gradients_there = in_centred(request.posterior, draws, first, request.temperature)
    metric = None
    if request.mode is not None and judged is draws:
        metric = metric_of(request.mode, request.temperature)
    here = analyse(request.error_rate, judged, gradients_there, metric)
    rhat, worst = worst_rhat(draws.values)
    apart = np.zeros((2, draws.size))
    if rhat > CONVERGED:
        # Groups of draws of one chain are then not independent; chains are.
        apart = here.correction.apart(draws.in_chains)
    is_apart = bool(np.max(apart) > settings.CHAINS_APART)
    edge = texts(findings, "edge")
    # If the density ends among the draws, or chains are apart when corrected, no correction holds.
    gradients = functools.partial(_gradients, request, number)
    end, passes, missing = here, 0.0, Missing()
    scales = scales_of(
        here, request.posterior, functools.partial(gradients, settings.MAX_MOVES + 2)
    )
    here = here._replace(correction=scales.missing(len(draws.flat)).widened(here.correction))
    if not (edge or is_apart):
        missing = missing_part(here, functools.partial(gradients, settings.MAX_MOVES + 1))
        here = here._replace(correction=missing.widened(here.correction))
        end, passes = move_draws(here, gradients, functools.partial(analyse, request.error_rate))
        passes += missing.passes
    moments = moments_of_position(end)
    if end is not here:
        # The answer must not depend on the draws that it is computed from.
        moments = moments.with_doubt_of(moments_of_position(here))
    moments = scales.replaced(moments)
    if rhat > CONVERGED:
        moments = moments.with_chains_apart(apart, len(draws.values))
    # Impossible draws first: then no number that follows means anything.
    reason = texts(findings, "support") or edge
    if not reason and is_apart:
        reason = (
            f"their means are {np.max(apart):.2g} sd apart when they are corrected too, as in "
            "several modes"
        )
    # Three sds out, such a share is the tolerance of a variance.
    share = missing.unknown - usual_share_beyond(len(draws.flat))
    if not reason and 9 * share > 2 * request.tolerance:
        reason = (
            f"some {100 * missing.unknown:.2g} % of the target seem to lie beyond all draws of "
            f"{draws.names[missing.coordinate]}, which no correction knows"
        )
    reason = reason or why_not(moments, here.scores.distance, draws.names)
    corrected = None if reason else corrected_moments(draws, moments, end.correction.by)
    ratio, shift = against_target(overall, moments)
    if edge or (reason and rhat > CONVERGED):
        # Errors are from how groups of draws differ: meaningless for chains that have not mixed.
        if rhat > CONVERGED:
            reason = f"chains do not agree, so that shifts and ratios are not known; {reason}"
        ratio, shift, moments = nothing_known(moments)
    elif reason:
        ratio, shift = _as_far_as_measured(ratio, shift)
    return Report(
        sd_ratio=draws.as_position(ratio.value),
        sd_ratio_error=draws.as_position(ratio.error),
        mean_shift=draws.as_position(shift.value),
        mean_shift_error=draws.as_position(shift.error),
        corrected=corrected,
        not_corrected=reason,
        scores=here.scores,
        rest=None if end is here else end.scores,
        rhat=rhat,
        apart=draws.names[worst],
        data_passes=first.data_passes + passes + scales.passes,
        tolerance=request.tolerance,
        draws=draws,
        analyses=(here,) if end is here else (here, end),
        moments=moments,
        findings=tuple(findings),
    )


def corrected_moments(draws: Draws, moments: TargetMoments, by: str) -> Corrected:
    """Return moments of the target like the position, in float64; `by` names their functions."""
    return Corrected(
        mean=draws.numbers(moments.mean),
        sd=draws.numbers(moments.sd),
        mean_error=draws.numbers(moments.mean_error),
        sd_error=draws.numbers(moments.sd * moments.sd_error),
        covariance=moments.covariance,
        by=by,
    )


def against_target(
    overall: tuple[np.ndarray, np.ndarray], moments: TargetMoments
) -> tuple[Measured, Measured]:
    """Return sds over those of the target, and means less them in sds, with standard errors of the
    target's side.

    Args:
        overall: mean and standard deviation of all draws, shape (d,) each.
        moments: the target's.
    """
    mean, sd = overall[0], np.maximum(overall[1], TINY)
    ratio = sd / moments.sd
    shift = (mean - moments.mean) / moments.sd
    return (
        Measured(ratio, ratio * moments.sd_error),
        Measured(shift, moments.mean_error / moments.sd),
    )


def nothing_known(moments: TargetMoments) -> tuple[Measured, Measured, TargetMoments]:
    """Return ratios, shifts and the errors of moments as NaN."""
    unknown = np.full(moments.mean.shape, np.nan)
    measured = Measured(unknown, unknown)
    return measured, measured, moments._replace(mean_error=unknown, sd_error=unknown)


def _as_far_as_measured(ratio: Measured, shift: Measured) -> tuple[Measured, Measured]:
    """Return ratios and shifts with infinite errors if one correction does not reach so far."""
    far_ratio, far_shift = settings.max_measured_ratio(), settings.max_measured_shift()
    return (
        ratio._replace(error=beyond_measure(*ratio, far_ratio)),
        shift._replace(error=beyond_measure(np.abs(shift.value), shift.error, far_shift)),
    )


def beyond_measure(sizes: np.ndarray, errors: np.ndarray, largest: float) -> np.ndarray:
    """Return the errors, infinite for sizes that seem to be known and are not measured so large.

    One correction moves draws by so much at most: that they are farther off is all that is known.

    Args:
        sizes: ratios of sds, or absolute shifts in sds, shape (d,).
        errors: their standard errors, shape (d,).
        largest: the size from which on only that it is larger is known.
    """
    is_unmeasured = (sizes >= largest) & (errors < settings.NOTHING_KNOWN_SDS)
    return np.where(is_unmeasured, np.inf, errors)


def why_not(moments: TargetMoments, distance: float, names: tuple[str, ...]) -> str:
    """Return why moments are not known well enough to be reported, or an empty string if they are.

    Args:
        moments: the target's moments with their standard errors.
        distance: the distance of the draws from the target, in sds of a Stein function.
        names: names of the coordinates.
    """
    errors = np.maximum(moments.mean_error / moments.sd, moments.sd_error)
    # The least known number decides: one wrong number of many makes a wrong report.
    k = int(np.argmax(errors))
    if errors[k] <= settings.MAX_CORRECTED_ERROR:
        return ""
    size = f"up to {errors[k]:.2g}" if errors[k] < 10 else "beyond 10"
    why = "too few draws, or gradients too noisy"
    if distance > settings.NEAR_TARGET:
        most = settings.max_measured_shift()
        far = f"at least {distance:.2g}" if distance < most else f"more than {most:g}"
        why = f"the draws are {far} sd from a target that is not normal"
    return f"corrected moments have errors {size} sd ({names[k]}): {why}"
