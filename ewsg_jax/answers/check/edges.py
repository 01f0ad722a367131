"""Whether the density ends at a wall among the draws, where it is not 0.

Stein's identities are integrals by parts, ∫ ∇(φ p) = 0. Where p does not fall to 0 towards the
boundary of its support, as of a normal law that is cut off, they lack the integral of φ p over the
boundary: right draws are off them, and what is corrected by them is wrong. So draws are moved a
little to either side. Of those that leave the support the density is followed up to the wall.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np

from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data, PyTree
from ewsg_jax.model_checks.support_ends import FAR
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.vectors.layout import log_prior
from ewsg_jax.vectors.row_subsets import evenly
from ewsg_jax.vectors.some_rows import SomeRows

MOST_DRAWS, STEP = 1_000, 0.2
"""Draws that are moved, and by how many of their standard deviations."""
PASSED = 0.4
"""Half of the mean length of a move: the share that leaves is this times the step times the height
of the density at the wall, where the draws' standard deviation is 1.
"""
MOST_WAYS, HALVINGS, FALLS = 40, 24, 2.0
"""Of those that leave, how many are followed, and how closely; and by how much the logarithm of the
density falls on the way where it falls to 0.
"""
BLOCK = 256
"""Places that one call of the program takes."""


def cut_off(
    posterior: Posterior, draws: Draws, data: Data, ends: tuple[bool, bool], tolerance: float
) -> str:
    """Return that draws lie at a wall where the density is not 0, in words; nothing where none is
    seen.

    Args:
        posterior: of which.
        draws: all where there is a density.
        data: all n rows, of which some are taken; of rows on several devices none.
        ends: whether log_prior and log_likelihood can be -inf (`preparation.support.can_end`).
        tolerance: how far off, relatively, a standard deviation may be.
    """
    of_prior = functools.partial(_priors, posterior, draws)
    looks = {"log_prior is -inf": of_prior} if ends[0] else {}
    # A likelihood without an end is not 0 at the prior's; one with an end may fall to 0 there.
    if ends[1] and not isinstance(data, Spread):
        some = SomeRows.of(posterior, draws.layout, data)

        def of_all(places: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore"):
                values = some.values(places)
                return values[:, 0] + some.stands_for * values[:, 1:].sum(1)

        looks = {"log_prior, or log_likelihood of a row, is -inf": of_all}
    for what, densities in looks.items():
        if _share(draws, densities) > PASSED * STEP * tolerance:
            return f"the density ends among the draws, and is not 0 where it ends (beyond, {what})"
    return ""


def _share(draws: Draws, densities: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return which share of moved draws leave by a wall where the density is not 0."""
    some = draws.flat[evenly(len(draws.flat), MOST_DRAWS)]
    # As wide in each direction as draws are: by their differences.
    moves = STEP * (np.random.default_rng(0).permutation(some) - some.mean(0))
    starts, ends = np.concatenate([some, some]), np.concatenate([some + moves, some - moves])
    least = np.max(densities(some)) - FAR
    # What is not a number is not above.
    left = np.flatnonzero(~(densities(ends) > least))
    if not len(left):
        return 0.0
    chosen = left[evenly(len(left), MOST_WAYS)]
    inside, outside = starts[chosen], ends[chosen]
    first = densities(inside)
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        is_inside = (densities(middle) > least)[:, None]
        inside = np.where(is_inside, middle, inside)
        outside = np.where(is_inside, outside, middle)
    stays = first - densities(inside) < FALLS
    return float(np.mean(stays)) * len(left) / len(ends)


def _priors(posterior: Posterior, draws: Draws, places: np.ndarray) -> np.ndarray:
    """Return the log prior at places, shape (count,), by one program for any number of them."""
    count, dtype = len(places), np.result_type(np.float32, *draws.layout.dtypes)
    padded = np.resize(places, (-(-count // BLOCK), BLOCK, places.shape[1])).astype(dtype)
    found = [np.asarray(_of_block(posterior, draws.layout, x), np.float64) for x in padded]
    return np.concatenate(found)[:count]


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _of_block(posterior: Posterior, layout: PyTree, places: Array) -> Array:
    return jax.vmap(lambda flat: log_prior(posterior, layout, flat))(places)
