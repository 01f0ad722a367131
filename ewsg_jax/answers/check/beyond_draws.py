"""What lies beyond the draws: gradients at draws that are moved there, and whether it is known.

Draws that lack a part of the target, such as the small values of a scale, violate identities, and a
regression at the draws continues what they show. It is right for a normal target, whose gradient is
linear, however much lies beyond. Elsewhere a share p of the target's probability beyond the draws
adds at most √p times the sd of a residual to its mean (Cauchy and Schwarz), as far as the residual
beyond is like that at the draws. If the gradient beyond is another one, it is not, and nothing is
corrected.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.correction import Correction
from ewsg_jax.answers.check.crossfit import TINY, CrossFit
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.answers.check.gradients import FreshGradients
from ewsg_jax.answers.check.marginals import (
    Beyond,
    draws_of_groups,
    has_bins,
    marginal_of,
    places_beyond,
)
from ewsg_jax.answers.check.moved_draws import Analysis


class Missing(NamedTuple):
    """The part of the target that all draws lack.

    Attributes:
        share: its probability, the largest beyond the draws of a coordinate.
        unknown: how much more it is than a regression at the draws has there.
        distance: how far the target is from draws among them, as `Marginal.distance`.
        coordinate: the number of the coordinate of which most is unknown.
        passes: passes over the data that it took to find out.
    """

    share: float = 0.0
    unknown: float = 0.0
    distance: float = 0.0
    coordinate: int = 0
    passes: float = 0.0

    def widened(self, correction: Correction) -> Correction:
        """Return a correction with errors that hold for this part."""
        beyond = self.share**0.5 / settings.BIAS_SHARE
        return correction.with_distance(float(np.hypot(self.distance, beyond)))


def usual_share_beyond(count: int) -> float:
    """Return the share of a target that may lie beyond all of `count` exact draws.

    It is Beta(2, n − 1), whatever the distribution: at most 10/n in all but one of 2,000 runs.
    """
    return 10 / count


def missing_part(analysis: Analysis, gradients_at: Callable[[Draws], FreshGradients]) -> Missing:
    """Return which part of the target draws lack; nothing if no identity is violated, or if there
    are too few draws for a regression.

    Args:
        analysis: draws that were not moved, and gradients at them.
        gradients_at: evaluates gradients at draws.
    """
    draws, gradients, flat = analysis.draws, analysis.gradients, analysis.draws.flat
    # The scales of a hierarchy in such coordinates have their own marginals.
    is_asked = bool(analysis.scores.distance) and draws.centring is None
    if not (is_asked and has_bins(len(flat)) and CrossFit.has_room(*flat.shape)):
        return Missing()
    # What a regression at the draws has for the gradients.
    center, sd = flat.mean(0), np.maximum(flat.std(0), TINY)
    units, level = (flat - center) / sd, gradients.mean(0)
    coefficients = np.linalg.lstsq(units, gradients - level)[0]

    def linear(points: np.ndarray, k: int) -> np.ndarray:
        return level[k] + (points - center) / sd @ coefficients[:, k]

    # Draws that lack a tail end within two or three sds, or the gradient is not linear: half of the
    # coordinates that are looked at for each.
    curvature_change = np.mean(
        (gradients - level - units @ coefficients) * sd * (units**2 - 1), axis=0
    )
    ends = np.minimum(units.max(0), -units.min(0))
    half = settings.MAX_SCALES // 2
    chosen = np.unique(
        [np.argsort(x, kind="stable")[:half] for x in (ends, -np.abs(curvature_change))]
    )
    beyond, moved, passes = beyond_draws(draws, chosen, np.zeros(0, int), gradients_at)
    shares = np.empty((2, len(chosen)))
    for place, k in enumerate(chosen):
        along_line = beyond[place]._replace(gradients=linear(moved[place], k))
        for row, score, there in (
            (0, gradients[:, k], beyond[place]),
            (1, linear(flat, k), along_line),
        ):
            shares[row, place] = marginal_of(flat[:, k], score, draws.num_groups, there).beyond
    # A share that no marginal gives may be all; if a line has none either, nothing is known of it.
    known, by_line = np.nan_to_num(shares[0], nan=1.0), np.nan_to_num(shares[1], nan=1.0)
    unknown = known - by_line
    worst = int(np.argmax(unknown))
    most = float(np.max(shares[0], initial=0.0, where=np.isfinite(shares[0])))
    return Missing(most, float(unknown[worst]), coordinate=int(chosen[worst]), passes=passes)


def beyond_draws(
    draws: Draws,
    coordinates: np.ndarray,
    effects: np.ndarray,
    gradients_at: Callable[[Draws], FreshGradients],
) -> tuple[list[Beyond], np.ndarray, float]:
    """Return gradients beyond the draws of each coordinate, and passes over the data for them; in
    between the moved draws at which they are, shape (k, places, groups, draws, d).

    Args:
        draws: the draws.
        coordinates: the numbers of the coordinates, shape (k,).
        effects: the numbers of coordinates that are not moved.
        gradients_at: evaluates gradients at draws.
    """
    flat = draws.flat
    chosen = draws_of_groups(len(flat), draws.num_groups)
    places = [places_beyond(flat[:, k]) for k in coordinates]
    shape = (len(places[0]), *chosen.shape)
    moved = np.broadcast_to(flat[chosen], (len(coordinates), *shape, draws.size)).copy()
    for values, k, at in zip(moved, coordinates, places, strict=True):
        # What is no effect, such as another scale, goes along as it does among the draws.
        off = flat - flat.mean(0)
        follows = (off * off[:, [k]]).mean(0) / np.maximum((off[:, k] ** 2).mean(), TINY**2)
        follows[effects] = 0.0
        most = settings.SDS_FOLLOWED * flat[:, k].std()
        away = at[:, None, None] - values[..., k]
        values += np.clip(away, -most, most)[..., None] * follows
        values[..., k] = at[:, None, None]
    there = draws._replace(values=moved.reshape(1, -1, draws.size), shared=False)
    fresh = gradients_at(there)
    gradients = fresh.mean.reshape(moved.shape)
    beyond = [
        Beyond(at, values[..., k])
        for values, k, at in zip(gradients, coordinates, places, strict=True)
    ]
    return beyond, moved, fresh.data_passes
