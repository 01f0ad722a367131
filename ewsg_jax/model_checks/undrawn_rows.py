"""Rows that no batch has, because their probability is 0, though their gradient is not."""

import numpy as np

from ewsg_jax.base.modules import Part
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._probability import ByProbability
from ewsg_jax.rows._scheme import schemes_of
from ewsg_jax.vectors.row_subsets import evenly, take_rows

MAX_ROWS = 64
"""Rows whose gradients are evaluated; bounds the time, set by hand."""


def undrawn_rows(estimator: Part, posterior: Posterior, at: Position, rows: Data) -> list[Finding]:
    """Return that rows of weight 0 have a gradient at a position, if some do.

    Args:
        estimator: an estimator, whose schemes may have probabilities.
        posterior: its posterior.
        at: a position.
        rows: all n rows.
    """
    schemes = [scheme for scheme in schemes_of(estimator) if isinstance(scheme, ByProbability)]
    if not schemes:
        return []
    # As the scheme draws them: a weight below the smallest float is 0 too.
    never = np.flatnonzero(np.asarray(schemes[0].weight) == 0)
    if not len(never):
        return []
    places = never[evenly(len(never), MAX_ROWS)]
    gradients = np.asarray(posterior.flat_row_gradients(at, take_rows(rows, places)))
    moving = places[np.any(gradients != 0, axis=1)]
    if not len(moving):
        return []
    text = (
        f"the weights of rows are 0 for {len(never)} of them, which no batch has, and their "
        f"gradients are not (row {moving[0]}), so that the draws are those of the other rows"
    )
    return [Finding("undrawn", "error", text, "give every row a weight above 0, or leave it out")]
