"""Whether the density ends at an edge among the draws, where it is not 0.

Stein's identities are integrals by parts, ∫ ∇(φ p) = 0. If p does not fall to 0 towards the
boundary of its support, as that of a truncated normal, they lack the integral of φ p over the
boundary: right draws do not fulfil them, and what is corrected by them is wrong. So draws are moved
a little to either side. For those that leave the support the density is followed up to the edge.
"""

import math
from collections.abc import Callable

import numpy as np

from ewsg_jax.base import limits
from ewsg_jax.base.typing import Data
from ewsg_jax.model_checks.densities import log_priors
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.support import SUPPORT_CURE
from ewsg_jax.model_checks.support_structure import ZERO_DENSITY_GAP
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.row_subsets import evenly
from ewsg_jax.vectors.some_rows import SomeRows

MOVE_SDS = 0.2
"""How far a draw is moved, in standard deviations of the draws; set by hand."""
MEAN_HALF_MOVE = math.sqrt(2 / math.pi) / 2
"""E|z|/2 for a standard normal z: the share of moves that leave is this times `MOVE_SDS` times the
height of the density at the edge, if the draws' standard deviation is 1."""


def cut_off(
    posterior: Posterior,
    layout: Layout,
    flat: np.ndarray,
    data: Data,
    ends: tuple[bool, bool],
    tolerance: float,
) -> list[Finding]:
    """Return one finding if draws lie at an edge where the density is not 0, and none if none is
    seen.

    Args:
        posterior: the model.
        layout: how d numbers are a position.
        flat: draws, shape (draws, d), at all of which there is a density.
        data: all n rows, of which some are taken; none of rows on several devices.
        ends: whether log_prior and log_likelihood can be -inf, as
            `model_checks.support_structure.can_end` returns it.
        tolerance: the largest relative error of a standard deviation.
    """

    def of_prior(places: np.ndarray) -> np.ndarray:
        # By one program for any number of places.
        count, block = len(places), limits.POSITIONS_AT_ONCE
        dtype = np.result_type(np.float32, *layout.dtypes)
        blocks = np.resize(places, (-(-count // block), block, places.shape[1]))
        priors = [log_priors(posterior, layout.tree(x)) for x in blocks.astype(dtype)]
        return np.concatenate(priors)[:count]

    functions = {"log_prior is -inf": of_prior} if ends[0] else {}
    # A likelihood without an end is not 0 at the prior's; one with an end may fall to 0 there.
    if ends[1] and not isinstance(data, Spread):
        subset = SomeRows.of(posterior, layout, data)

        def of_all(places: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore"):
                values = subset.values(places)
                return values[:, 0] + subset.stands_for * values[:, 1:].sum(1)

        functions = {"log_prior, or log_likelihood of a row, is -inf": of_all}
    for what, log_density in functions.items():
        if _share(flat, log_density) > MEAN_HALF_MOVE * MOVE_SDS * tolerance:
            text = f"the density ends among the draws, and is not 0 where it ends (beyond, {what})"
            return [Finding("edge", "doubt", text, SUPPORT_CURE)]
    return []


def _share(flat: np.ndarray, log_density: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return which share of moved draws leave by an edge where the density is not 0."""
    # At a tolerance of 5 %, eight of 2,000 moves that leave are enough.
    moving = flat[evenly(len(flat), 1_000)]
    # As wide in each direction as draws are: by their differences.
    moves = MOVE_SDS * (np.random.default_rng(0).permutation(moving) - moving.mean(0))
    starts, ends = (
        np.concatenate([moving, moving]),
        np.concatenate([moving + moves, moving - moves]),
    )
    least = np.max(log_density(moving)) - ZERO_DENSITY_GAP
    # What is not a number is not above.
    left = np.flatnonzero(~(log_density(ends) > least))
    if not len(left):
        return 0.0
    # A few moves show where the edge is.
    chosen = left[evenly(len(left), 40)]
    inside, outside = starts[chosen], ends[chosen]
    first = log_density(inside)
    # float32 has 24 bits.
    for _ in range(24):
        middle = (inside + outside) / 2
        is_inside = (log_density(middle) > least)[:, None]
        inside = np.where(is_inside, middle, inside)
        outside = np.where(is_inside, outside, middle)
    # If the log density falls by more nats on the way, it falls to 0 there.
    stays = first - log_density(inside) < 2.0
    return float(np.mean(stays)) * len(left) / len(ends)
