"""What every plan compiles, compiled by a thread while the mode is searched for.

Its programs are known by the shapes of position and data alone. Most are run once, where a chain
may start and on few places: that costs little beside compiling them.
"""

import jax
import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.brascamp_lieb import prior_moments
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.answers.check.gradients import fresh_gradients
from ewsg_jax.answers.forecast import stability
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan.candidates import Way
from ewsg_jax.answers.plan.choice import Choice
from ewsg_jax.answers.plan.gaussian import ROWS
from ewsg_jax.answers.plan.metric import DENSE
from ewsg_jax.answers.plan.run_size import Wanted
from ewsg_jax.answers.plan.stiff_directions import AT_ONCE
from ewsg_jax.answers.plan.whitening import Frame
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

MOST_NUMBERS = 2**26
"""Rows times parameters above which a pass takes long beside compiling."""


def compile_ahead(
    posterior: Posterior, position: Position, data: Data, ways: list[Way], wanted: Wanted
) -> Ahead:
    """Begin, and return what is waited for: `"gradients"`, `"check"`, `"walls"`, `"noise"`.

    Args:
        posterior: which.
        position: where the search for its mode begins.
        data: the rows.
        ways: that may be taken.
        wanted: of the run.
    """
    ahead, layout, flat = Ahead(), Layout.of(position), vector(position)
    if isinstance(data, Spread) or num_rows(data) * len(flat) > MOST_NUMBERS:
        return ahead
    key, size = jax.random.key(0), len(flat)
    units = np.eye(size) if size <= DENSE else LowRank(np.ones(size), np.eye(size, 1), np.ones(1))  # pyright: ignore[reportArgumentType]
    frame = Frame.at(Mode(position, False, 0.0, 0.0, 0.0, 0, 0.0), position, units)
    here = Draws.at(np.stack([flat, flat + 1])[None], layout)
    by_leverage = (
        posterior.predictor is not None and num_rows(data) > check_settings.FULL_DATA_BATCHES * ROWS
    )

    def gradients() -> None:
        rows = frame.leverage(posterior, data) if by_leverage else "random"
        fresh_gradients(key, posterior, here, data, ROWS, rows, 1.0)

    def check() -> None:
        if any(can_end(posterior, position, data)):
            outside_by_batches(key, posterior, layout, here.flat, data, ROWS)
        prior_moments(posterior, here, 1.0)
        wrong_gradient(posterior, layout, here.flat, (), data)

    def walls() -> None:
        of = PotentialSpec(posterior, layout, CHUNK_SIZE, False)
        if posterior.predictor is None or isinstance(frame.inverse_mass, LowRank):
            stability.compile_ahead(of, frame.factor, position, AT_ONCE, data)

    def noise() -> None:
        full = [way for way in ways if way.estimator == "full"]
        choice = Choice(posterior, frame, data, np.zeros((1, size), np.float32), full, 1.0, wanted)
        if choice.is_cheap:
            return
        for estimator, rows in {(way.estimator, way.rows) for way in ways} & {
            ("control_variate", "random"),
            ("control_variate", "leverage"),
        }:
            choice.noise(estimator, rows)

    ahead.add("gradients", gradients)
    ahead.add("check", check)
    ahead.add("noise", noise)
    ahead.add("walls", walls)
    return ahead
