"""What every plan compiles, compiled by a thread while the mode is searched for.

These programs depend on the shapes of position and data alone. They are traced here, at a position
where a chain may start, and not run.
"""

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
from ewsg_jax.base import limits
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

    Args:
        posterior: the target.
        position: the position at which the search for its mode begins.
        data: all n rows.
        candidates: the kernels that may be taken.
        requirements: what the run must achieve.
    """
    compiling, layout, flat = Ahead(), Layout.of(position), vector(position)
    numbers = num_rows(data) * len(flat)
    if isinstance(data, Spread) or numbers > settings.MOST_COMPILE_NUMBERS:
        return compiling
    key, size, batch_size = jax.random.key(0), len(flat), settings.ROWS_PER_DRAW
    is_dense = size <= limits.MAX_DENSE_DIMENSION
    low_rank = LowRank(np.ones(size), np.eye(size, 1), np.ones(1))  # pyright: ignore[reportArgumentType]
    mode = Mode(position, False, 0.0, 0.0, 0.0, 0, 0.0)
    whitening = Whitening.of_covariance(mode, position, np.eye(size) if is_dense else low_rank)
    draws = Draws.at(np.stack([flat, flat + 1])[None], layout)
    by_leverage = posterior.predictor is not None and not takes_all_rows(data)

    def gradients() -> None:
        rows = whitening.leverage(posterior, data) if by_leverage else "random"
        fresh_gradients(key, posterior, draws, data, batch_size, rows, 1.0)

    def check() -> None:
        if any(can_end(posterior, position, data)):
            # How many draws share rows depends on their number.
            many = np.resize(draws.flat, (num_draws(size), size))
            outside_by_batches(key, posterior, layout, many, data, batch_size)
        prior_moments(posterior, draws, 1.0)
        wrong_gradient(posterior, layout, draws.flat, (), data)

    def curvature() -> None:
        potential = PotentialSpec(posterior, layout, CHUNK_SIZE, False)
        if posterior.predictor is None or isinstance(whitening.inverse_mass, LowRank):
            together = VECTORISED_POSITIONS
            stability.compile_ahead(potential, whitening.factor, position, together, data)

    def noise() -> None:
        full = [candidate for candidate in candidates if candidate.estimator == "full"]
        place = np.zeros((1, size), np.float32)
        table = CandidateTable(posterior, whitening, data, place, full, 1.0, requirements)
        if table.is_cheap:
            return
        for estimator, rows in {(item.estimator, item.rows) for item in candidates} & {
            ("control_variate", "random"),
            ("control_variate", "leverage"),
        }:
            table.noise(estimator, rows)

    compiling.add("gradients", gradients)
    compiling.add("check", check)
    compiling.add("noise", noise)
    compiling.add("curvature", curvature)
    return compiling
