"""Draws that are far from the target, moved towards it by affine maps.

A regression on Stein functions says less the farther draws are from the target. So draws are moved
to the mean and the covariance that the last regression gave, gradients are evaluated there, and the
regression is repeated. The result is the move after which Stein's identities, by gradients at the
moved draws, show the smallest distance; if no move brings the draws nearer it is that of the
original draws. Moves end when one neither comes nearer nor changes the answer by less than the one
before.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.affine import between
from ewsg_jax.answers.check.correction import Correction
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.answers.check.gradients import FreshGradients
from ewsg_jax.answers.check.stein import Scores


class Analysis(NamedTuple):
    """What follows from draws and the gradients at them.

    Attributes:
        draws: the draws, as they are or moved.
        gradients: gradients of V/T at them, shape (draws, d), in the order of `draws.flat`.
        scores: Stein's identities at them.
        correction: the regression that gives moments of the target.
    """

    draws: Draws
    gradients: np.ndarray
    scores: Scores
    correction: Correction


def move_draws(
    first: Analysis,
    gradients: Callable[[int, Draws], FreshGradients],
    analyse: Callable[[Draws, FreshGradients], Analysis],
) -> tuple[Analysis, float]:
    """Return the analysis of draws moved towards the target, and the cost of its gradients.

    Args:
        first: the analysis of the original draws, which is returned if no move brings them nearer.
        gradients: evaluates gradients at draws, with noise of their own for each number of a move.
        analyse: gives the analysis of draws and the gradients at them.
    """
    here, best, passes, change = first, first, 0.0, np.inf
    for move in range(1, settings.MAX_MOVES + 1):
        moments = here.correction.moments
        if here.scores.distance <= settings.NEAR_TARGET or moments.covariance is None:
            break
        draws = here.draws.moved(between(here.draws.flat, moments.mean, moments.covariance))
        fresh = gradients(move, draws)
        passes += fresh.data_passes
        if not fresh.is_finite or np.abs(fresh.mean).max() > settings.MAX_SQUARABLE:
            break
        here = analyse(draws, fresh)
        is_nearer = here.scores.distance < best.scores.distance
        if is_nearer:
            best = here
        if move == settings.MAX_MOVES:
            break
        # The answer settles, or it does not: then moves neither come nearer nor change it less.
        largest, average = here.correction.moments.differs(moments)
        # In sds; by hand.
        if largest < 0.02 or not (is_nearer or average < change):
            break
        change = average
    is_better = best.scores.distance < settings.NEARER_SHARE * first.scores.distance
    return (best if is_better else first), passes
