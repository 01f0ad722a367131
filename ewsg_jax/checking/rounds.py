"""Draws that are far off, corrected again and again: moved to where they should be, and gradients made there.

Draws that are too wide see all of the target; those of its own width say by how much that matters.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.checking.affine import between
from ewsg_jax.checking.correction import Correction, Moments
from ewsg_jax.checking.draws import Draws
from ewsg_jax.checking.gradients import Fresh

WIDE, MOST_ROUNDS, SETTLED = 1.2, 4, 0.02
"""How wide draws are made, in the target's standard deviations; how often; and the change that does not matter."""


class End(NamedTuple):
    """Where the rounds end.

    Attributes:
        draws: moved to the target's mean and covariance.
        correction: of these.
        moments: of the target, by draws of both widths.
        slopes: gradients at the draws, shape (draws, d); None where these have none.
        data_passes: what the gradients of all rounds cost.
    """

    draws: Draws
    correction: Correction
    moments: Moments
    slopes: np.ndarray | None
    data_passes: float


def nearer(draws: Draws, gradients: Callable[[int, Draws], Fresh], correction: Correction) -> End:
    """Correct draws that are far off until nothing changes.

    Args:
        draws: which.
        gradients: of the potential, fresh ones for each number of a round, at draws.
        correction: of the draws as they are.
    """
    passes, found, end = 0.0, correction.moments, End(draws, correction, correction.moments, None, 0.0)

    def at(number: int, width: float) -> bool:
        nonlocal passes, found, end
        moved = draws.moved(between(draws.flat, found.mean, width**2 * found.covariance))
        fresh = gradients(number, moved)
        passes += fresh.data_passes
        if not fresh.is_finite:
            end = end._replace(slopes=None)
            return False
        next_one = Correction(moved.flat, fresh.first, fresh.second, 0.0, moved.num_groups)
        found = next_one.moments
        end = End(moved, next_one, found, fresh.mean, 0.0)
        return True

    for number in range(1, MOST_ROUNDS + 1):
        before = found
        if not at(number, WIDE) or found.is_like(before, SETTLED):
            break
    wide = found
    at(MOST_ROUNDS + 1, 1.0)
    return end._replace(moments=found.between(wide), data_passes=passes)
