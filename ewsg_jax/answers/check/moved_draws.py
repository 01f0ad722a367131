"""Draws that are far off: moved by the affine map to where they should be, with gradients made
there, repeatedly.

A regression says less the farther the draws are off. Of all moves that one is taken after which the
draws' own identities, by gradients made there, are nearest; where none brings them nearer the
answer is that of the draws. It ends with a round that is not nearer than those before and changes
the answer by as much as the last one did.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check.affine import between
from ewsg_jax.answers.check.correction import Correction
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.answers.check.gradients import Fresh
from ewsg_jax.answers.check.stein import Scores

MOST_ROUNDS, SETTLED = 4, 0.02
"""How often draws are moved; and the change of the answer that does not matter."""
MOST_SLOPE = 1e100
"""Of the potential at a draw, above which it is nowhere near the target."""
NEARER = 0.7
"""Part of their distance that moved draws may keep and still be nearer beyond a better fit."""


class Reckoning(NamedTuple):
    """What draws and the gradients at them say.

    Attributes:
        draws: which.
        scores: their identities.
        correction: of them.
    """

    draws: Draws
    scores: Scores
    correction: Correction


def nearer(
    first: Reckoning,
    gradients: Callable[[int, Draws], Fresh],
    reckoned: Callable[[Draws, Fresh], Reckoning],
    near: float,
) -> tuple[Reckoning, float]:
    """Return the reckoning of draws moved to where they should be, and its gradients' cost.

    Args:
        first: of the draws as they are; it is returned where no move brings them nearer.
        gradients: of the potential, fresh ones for each number of a round, at draws.
        reckoned: of draws and gradients.
        near: the distance at which draws are near enough.
    """
    here, best, passes, change = first, first, 0.0, np.inf
    for number in range(1, MOST_ROUNDS + 1):
        found = here.correction.moments
        if here.scores.distance <= near or found.covariance is None:
            break
        draws = here.draws.moved(between(here.draws.flat, found.mean, found.covariance))
        fresh = gradients(number, draws)
        passes += fresh.data_passes
        if not fresh.is_finite or np.abs(fresh.mean).max() > MOST_SLOPE:
            break
        here = reckoned(draws, fresh)
        is_nearer = here.scores.distance < best.scores.distance
        if is_nearer:
            best = here
        if number == MOST_ROUNDS:
            break
        # The answer settles, or it does not: rounds that neither come nearer nor change less than
        # the one before.
        largest, average = here.correction.moments.differs(found)
        if largest < SETTLED or not (is_nearer or average < change):
            break
        change = average
    return (best if best.scores.distance < NEARER * first.scores.distance else first), passes
