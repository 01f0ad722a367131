"""Whether a density does not fall along a coordinate, and is no posterior, or falls so slowly that
it has no standard deviation.

A flat prior of a log scale, of degrees of freedom or of a length, is such a prior where the data do
not bound both ends: the density tends to a constant, and its integral is infinite. One that falls
as |θ|⁻³ or more slowly, as a Cauchy law's does, has an integral, and no variance. Draws around a
mode show nothing of either.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.plan.other_modes import LOWER
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base.typing import Data
from ewsg_jax.model_checks.densities import log_densities
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.vectors.layout import vector
from ewsg_jax.vectors.some_rows import PADDED_POSITIONS, SomeRows

FAR = (100.0, 1_000.0)
"""Standard deviations from the center: a Cauchy law's log density is 9 and 14 lower there."""
WAYS = 2 * len(FAR)
"""Places along a coordinate: to both sides."""
LEVEL = 1.0
"""By how much it must still fall between the two, where it is not `LOWER` at the farther one."""
POWER, MORE = 2.0, 0.05
"""Of a distance, the power that is to have a mean: in d dimensions a density must fall as more than
the power d + 2 for that. And by how much more the logarithm must fall between the two.
"""
STILL = 25.0
"""By how much a log density may be lower than at the center to matter there."""
RAYS = 8
"""Directions at random that are looked along, too."""
MOST = 512
"""Coordinates that are looked along."""


class Tails(NamedTuple):
    """How a density falls, far from its center.

    Attributes:
        level: the numbers of coordinates along which it does not, to either side.
        slow: those along which it does as that of a law without a standard deviation, at most.
        is_slow: whether it does in all directions that were drawn at random.
    """

    level: list[int]
    slow: list[int]
    is_slow: bool = False


def tails(posterior: Posterior, frame: Frame, data: Data) -> Tails:
    """Return how a density falls along coordinates and directions, to either side.

    Args:
        posterior: of which.
        frame: its center and widths.
        data: the rows, of which some say where all are asked.
    """
    if isinstance(data, Spread):
        return Tails([], [])
    center, some = vector(frame.center), SomeRows.of(posterior, frame.layout, data)
    here, suspects = some.values(center[None]), []

    def seen(places: np.ndarray) -> np.ndarray:
        """Whether the density may be level, and slow, to either side along each of some ways."""
        values = some.values(places.reshape(-1, len(center)))
        dimension = len(center) if places is rays else 1
        with np.errstate(all="ignore"):
            # Of all rows, and of the prior alone: a proper one falls whatever the rows say.
            each = [(x[:, 0], x[:, 0] + some.stands_for * x[:, 1:].sum(1)) for x in (here, values)]
        return np.all([_kinds(h, v, dimension) for h, v in zip(*each, strict=True)], axis=0)

    def judged(places: np.ndarray, dimension: int = 1) -> np.ndarray:
        """The same by all rows, of one way."""
        every = np.concatenate([center[None], places]).astype(some.dtype)
        values = log_densities(posterior, frame.layout.tree(every), data)
        return _kinds(values[:1], values[1:], dimension)[:, 0]

    rays = _rays(frame, center)
    # A block at a time: places of all coordinates may be more than memory holds.
    for first in range(0, min(len(center), MOST), PADDED_POSITIONS // WAYS):
        number = np.arange(first, min(first + PADDED_POSITIONS // WAYS, len(center), MOST))
        suspects += number[seen(_along(frame, center, number)).any((0, 2))].tolist()
    # Some rows stand for all of them until it matters.
    found = {number: judged(_along(frame, center, np.array([number]))[0]) for number in suspects}
    level = [number for number, kinds in found.items() if kinds[0].any()]
    slow = [number for number, kinds in found.items() if kinds[1].any() and number not in level]
    is_slow = seen(rays)[1].all() and all(judged(ray, len(center))[1].all() for ray in rays)
    return Tails(level, slow, bool(is_slow))


def _rays(frame: Frame, center: np.ndarray) -> np.ndarray:
    """Return places far along directions at random, as `_along`."""
    ways = np.random.default_rng(0).normal(size=(RAYS, len(center)))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    away = np.array([sign * far for sign in (1, -1) for far in FAR])
    units = away[:, None] * ways[:, None]
    return frame.moved(units.reshape(-1, len(center))).reshape(RAYS, WAYS, -1)


def _along(frame: Frame, center: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return places far along coordinates of these numbers, shape (count, 4, d): both distances to
    one side, then to the other.
    """
    places = np.tile(center, (len(number), WAYS, 1))
    away = np.outer(frame.sd[number], [sign * far for sign in (1, -1) for far in FAR])
    places[np.arange(len(number))[:, None], np.arange(WAYS), number[:, None]] += away
    return places


def _kinds(here: np.ndarray, values: np.ndarray, dimension: int) -> np.ndarray:
    """Return whether log densities do not fall from the center, shape (1,), to places (count · 4,),
    and whether they fall as slowly as those of laws of this dimension without a variance, to either
    side, shape (2, count, 2).
    """
    near, far = np.moveaxis(values.reshape(-1, 2, len(FAR)), 2, 0)
    with np.errstate(invalid="ignore"):
        # What is not a number says nothing.
        is_level = (far > here - LOWER) & (far > near - LEVEL)
        is_slow = far > near - (dimension + POWER) * np.log(FAR[1] / FAR[0]) - MORE
        is_slow &= far > here - dimension * STILL
    return np.stack([is_level, is_slow])
