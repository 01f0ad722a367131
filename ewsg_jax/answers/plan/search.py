"""The search for the kernel that costs least: by forecasts if the posterior is near normal,
otherwise by pilot runs.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidate_table import best_of, table_for
from ewsg_jax.answers.plan.gaussian import (
    Gaussian,
    NoGradientError,
    gaussian_at_mode,
    takes_all_rows,
)
from ewsg_jax.answers.plan.other_modes import look_for_other_modes
from ewsg_jax.answers.plan.pilot_search import choose_by_pilot_runs
from ewsg_jax.answers.plan.request import PlanRequest, PlanResult
from ewsg_jax.answers.plan.run_requirements import burn_in_steps
from ewsg_jax.answers.plan.stiff_directions import stiffest_direction
from ewsg_jax.answers.plan.tails import look_at_tails
from ewsg_jax.answers.plan.warm_up import far_from_normal
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base import rng
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.spacing import coarse_numbers
from ewsg_jax.model_checks.support import SUPPORT_CURE
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import num_rows
from ewsg_jax.vectors.layout import vector

ModelQuestion = Callable[[Posterior, Whitening, Data, np.ndarray | None], list[Finding]]


def look_at_spacing(
    posterior: Posterior, whitening: Whitening, data: Data, draws: np.ndarray | None
) -> list[Finding]:
    """Return a finding if the position's dtypes are too coarse for the posterior."""
    layout = whitening.layout
    return coarse_numbers(layout, vector(whitening.center), whitening.sd, layout.names)


MODEL_QUESTIONS: tuple[tuple[ModelQuestion, bool], ...] = (
    (look_at_tails, False),
    (look_for_other_modes, True),
    (look_at_spacing, False),
)
"""What is asked about the model once a kernel is chosen, of coordinates and of the draws of a pilot
run (None without one); and whether the coordinates are those around the mode, even if chains found
others. Answers are findings, which the plan carries.
"""


def choose_around_mode(key: Key, request: PlanRequest) -> PlanResult:
    """Return the kernel that costs least, by forecasts around a mode; by pilot runs if the normal
    approximation there is no answer.

    Args:
        key: a typed PRNG key.
        request: the posterior, with a mode whose curvature is positive definite.

    Raises:
        NothingFitsError: no candidate that is allowed is within tolerance.
        NoGradientError: the potential has no gradient at many draws around the mode.
    """
    for_look, for_gaussian, for_forecast, for_pilots = rng.keys_of(key, 4)
    posterior, data = request.posterior, request.data
    at_mode = Whitening.at_mode(request.mode)
    has_predictor, is_shared = posterior.predictor is not None, request.num_row_shards > 1
    if not has_predictor and not is_shared:
        with request.timed("gaussian"):
            request.compiling.wait("gradients")
            far = far_from_normal(for_look, request, at_mode)
        if far:
            # The mode of a joint posterior with an unknown scale may be at a scale of 0, where
            # there is hardly any mass: chains leave it slowly, and find the posterior soon from
            # anywhere else. Very tall data need the mode, as minibatches are centered there.
            is_tall = num_rows(data) > settings.MAX_ROWS_WITHOUT_MODE
            first, second = (at_mode, None) if is_tall else (None, at_mode)
            result = choose_by_pilot_runs(for_pilots, request, None, first, second)
            note = f"the normal approximation at the mode is no answer: {far}"
            result = replace(result, notes=(note, *result.notes))
            return ask_about_model(request, result, at_mode)
    # A check of rows on several devices draws them uniformly from each.
    if has_predictor and not takes_all_rows(data) and not is_shared:
        at_mode = replace(at_mode, row_probabilities=at_mode.leverage(posterior, data))
    tolerance, rows = request.requirements.tolerance, at_mode.row_probabilities
    try:
        with request.timed("gaussian"):
            for program in ("gradients", "check"):
                request.compiling.wait(program, meanwhile=("noise", "curvature"))
            normal = gaussian_at_mode(
                for_gaussian, posterior, request.mode, data, tolerance, rows, request.mesh
            )
    except NoGradientError as error:
        if error.share > 0.1:
            raise
        # Only far out: the approximation is too wide, and chains may never come there.
        return choose_by_pilot_runs(for_pilots, request, None, None)
    if normal.outside.matters(tolerance):
        # No pilot run cures it: no gradient shows chains where the density is 0.
        result = choose_by_forecast(for_forecast, request, normal, at_mode)
        text = f"of draws of the normal approximation {normal.outside.in_short}"
        return replace(result, findings=(Finding("support", "error", text, SUPPORT_CURE),))
    whitening = at_mode.corrected(normal)
    if normal.is_right and normal.is_normal:
        result = choose_by_forecast(for_forecast, request, normal, whitening)
    else:
        result = choose_by_pilot_runs(for_pilots, request, normal, whitening)
    return ask_about_model(request, result, whitening)


def choose_by_forecast(
    key: Key, request: PlanRequest, normal: Gaussian, whitening: Whitening
) -> PlanResult:
    """Return the kernel that costs least by forecasts for a normal posterior.

    Args:
        key: a typed PRNG key.
        request: the posterior and the candidates.
        normal: the normal approximation at the mode.
        whitening: its center and covariance, corrected.

    Raises:
        NothingFitsError: no candidate that is allowed is within tolerance.
    """
    for_noise, for_curvature, for_steps = rng.keys_of(key, 3)
    count = settings.NUM_NOISE_PLACES
    places = whitening.draw_places(for_noise, count, 1.0)
    with request.timed("candidates"):
        request.compiling.wait("curvature")
        wide = whitening.draw_places(for_curvature, count, settings.STIFF_WIDTH)
        curvature = stiffest_direction(request.posterior, whitening, wide, request.data).curvature
        table = table_for(for_steps, request, whitening, places, curvature, request.requirements)
    forecast = best_of(table)
    return PlanResult(
        kernel=table.kernel(forecast),
        start=whitening.start,
        time=forecast.time,
        burn_in=burn_in_steps(forecast.time),
        table=table.forecasts,
        gaussian=normal,
        report=None,
        data_passes=normal.report.data_passes,
    )


def ask_about_model(request: PlanRequest, result: PlanResult, whitening: Whitening) -> PlanResult:
    """Return a result with the findings of all `MODEL_QUESTIONS`.

    Args:
        request: the posterior.
        result: the kernel that was chosen.
        whitening: coordinates around the mode.
    """
    draws = None if result.report is None else result.report.draws.values
    # A mode that is no answer may be a place where the density is a rounding error.
    by_chains = result.whitening or whitening
    with request.timed("modes"):
        findings = tuple(
            finding
            for question, is_around_mode in MODEL_QUESTIONS
            for finding in question(
                request.posterior,
                whitening if is_around_mode else by_chains,
                request.data,
                draws,
            )
        )
    gaussian = result.gaussian
    if gaussian is not None and findings:
        gaussian = replace(gaussian, findings=findings)
    notes = [finding.text for finding in findings if finding.severity == "note"]
    return replace(
        result,
        gaussian=gaussian,
        findings=(*result.findings, *findings),
        notes=(*result.notes, *notes),
    )
