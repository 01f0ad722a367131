"""What every plan compiles, compiled by a thread while the mode is searched for.

These programs depend on the shapes of position and data alone. They are traced here, at a position
where a chain may start, and not run.
"""

from functools import partial

import jax
import numpy as np

from ewsg_jax.answers.check.brascamp_lieb import prior_moments
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.answers.check.gradients import fresh_gradients
from ewsg_jax.answers.forecast import stability
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidate_table import CandidateTable
from ewsg_jax.answers.plan.candidates import Candidate
from ewsg_jax.answers.plan.gaussian import num_draws, takes_all_rows
from ewsg_jax.answers.plan.run_requirements import RunRequirements
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.compiling import Ahead
from ewsg_jax.base.factors import LowRank
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.model_checks.gradient import wrong_gradient
from ewsg_jax.model_checks.support import outside_by_batches
from ewsg_jax.model_checks.support_structure import can_end
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.potential import PotentialSpec
from ewsg_jax.vectors.some_rows import VECTORISED_POSITIONS


def start_compiling(
    posterior: Posterior,
    position: Position,
    data: Data,
    candidates: list[Candidate],
    requirements: RunRequirements,
) -> Ahead:
    """Start to compile, and return what is waited for: `"gradients"`, `"check"`, `"noise"`,
    `"curvature"`.

    Nothing is compiled if devices share the rows, or if there are more than `MOST_COMPILE_NUMBERS`
    numbers in rows and parameters.

    Args:
        posterior: the target.
        position: the position at which the search for its mode begins.
        data: all n rows.
        candidates: the kernels that may be taken.
        requirements: what the run must achieve.
    """
    compiling, size = Ahead(), pytrees.size(position)
    if isinstance(data, Spread) or num_rows(data) * size > settings.MOST_COMPILE_NUMBERS:
        return compiling
    whitening = _any_whitening(position)
    compiling.add("gradients", partial(_trace_gradients, posterior, whitening, data))
    compiling.add("check", partial(_trace_check, posterior, position, data))
    noise = partial(_trace_noise, posterior, whitening, data, candidates, requirements)
    compiling.add("noise", noise)
    compiling.add("curvature", partial(_trace_curvature, posterior, whitening, data))
    return compiling


def _any_whitening(position: Position) -> Whitening:
    """Return coordinates around a position, of the kind that a plan has: programs depend on whether
    the covariance is a matrix or of low rank, and not on its numbers.
    """
    size = pytrees.size(position)
    if size <= limits.MAX_DENSE_DIMENSION:
        covariance = np.eye(size)
    else:
        covariance = LowRank(np.ones(size), np.eye(size, 1), np.ones(1))  # pyright: ignore[reportArgumentType]
    mode = Mode(
        position,
        converged=False,
        distance=0.0,
        potential=0.0,
        gradient_norm=0.0,
        num_steps=0,
        data_passes=0.0,
    )
    return Whitening.of_covariance(mode, position, covariance)


def _two_draws(position: Position) -> Draws:
    """Return two draws of one chain."""
    flat = vector(position)
    return Draws.at(np.stack([flat, flat + 1])[None], Layout.of(position))


def _trace_gradients(posterior: Posterior, whitening: Whitening, data: Data) -> None:
    """Trace what evaluates gradients at draws, on batches drawn as a plan draws them."""
    by_leverage = posterior.predictor is not None and not takes_all_rows(data)
    rows = whitening.leverage(posterior, data) if by_leverage else "random"
    draws, size = _two_draws(whitening.center), settings.ROWS_PER_DRAW
    fresh_gradients(jax.random.key(0), posterior, draws, data, size, rows, 1.0)


def _trace_check(posterior: Posterior, position: Position, data: Data) -> None:
    """Trace what `check` evaluates at draws, gradients apart."""
    draws, layout = _two_draws(position), Layout.of(position)
    if any(can_end(posterior, position, data)):
        # How many draws share rows depends on their number.
        many = np.resize(draws.flat, (num_draws(layout.size), layout.size))
        size = settings.ROWS_PER_DRAW
        outside_by_batches(jax.random.key(0), posterior, layout, many, data, size)
    prior_moments(posterior, draws, 1.0)
    wrong_gradient(posterior, layout, draws.flat, (), data)


def _trace_noise(
    posterior: Posterior,
    whitening: Whitening,
    data: Data,
    candidates: list[Candidate],
    requirements: RunRequirements,
) -> None:
    """Trace what measures the noise of control variates, unless full gradients are cheap."""
    full = [candidate for candidate in candidates if candidate.estimator == "full"]
    place = np.zeros((1, len(whitening.sd)), np.float32)
    table = CandidateTable(posterior, whitening, data, place, full, 1.0, requirements)
    if table.is_cheap:
        return
    # Their noise stands for that of estimators whose reference points move.
    kinds = {(candidate.estimator, candidate.rows) for candidate in candidates}
    for rows in ("random", "leverage"):
        if ("control_variate", rows) in kinds:
            table.noise("control_variate", rows)


def _trace_curvature(posterior: Posterior, whitening: Whitening, data: Data) -> None:
    """Trace what finds the largest curvature by products; with linear predictors a bound by rows is
    found instead, if the metric is a matrix.
    """
    if posterior.predictor is not None and not isinstance(whitening.inverse_mass, LowRank):
        return
    potential = PotentialSpec(posterior, whitening.layout, CHUNK_SIZE, False)
    stability.compile_ahead(
        potential, whitening.factor, whitening.center, VECTORISED_POSITIONS, data
    )
