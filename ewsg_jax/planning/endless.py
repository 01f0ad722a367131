"""Whether a density does not fall along a coordinate: then it is no posterior.

A flat prior of a log scale, of degrees of freedom or of a length, is such a prior where the data do
not bound both ends: the density tends to a constant, and its integral is infinite. Draws around a
mode show nothing of it.
"""

import numpy as np

from ewsg_jax._base._types import Data
from ewsg_jax.checking.some_rows import BLOCK, SomeRows
from ewsg_jax.planning.elsewhere import LOWER
from ewsg_jax.planning.frame import Frame
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation.programs import vector
from ewsg_jax.preparation.support import log_densities
from ewsg_jax.rows.spread import Spread

FAR = (100.0, 1_000.0)
"""Standard deviations from the center: a Cauchy law's density is 9 and 14 lower there."""
WAYS = 2 * len(FAR)
"""Places along a coordinate: to both sides."""
LEVEL = 1.0
"""By how much it must still fall between the two, where it is not `LOWER` at the farther one."""
MOST = 512
"""Coordinates that are looked along."""


def endless(posterior: Posterior, frame: Frame, data: Data) -> list[int]:
    """Return the numbers of coordinates along which the density does not fall, to either side.

    Args:
        posterior: of which.
        frame: its center and widths.
        data: the rows, of which some say where all are asked.
    """
    if isinstance(data, Spread):
        return []
    center, some = vector(frame.center), SomeRows.of(posterior, frame.layout, data)
    here = some.values(center[None])
    suspects = []
    # A block at a time: places of all coordinates may be more than memory holds.
    for first in range(0, min(len(center), MOST), BLOCK // WAYS):
        number = np.arange(first, min(first + BLOCK // WAYS, len(center), MOST))
        values = some.values(_along(frame, center, number).reshape(-1, len(center)))
        with np.errstate(all="ignore"):
            # Of all rows, and of the prior alone: a proper one falls whatever the rows say.
            each = [(x[:, 0], x[:, 0] + some.stands_for * x[:, 1:].sum(1)) for x in (here, values)]
        level = [_is_level(*at) for at in zip(*each, strict=True)]
        suspects += number[(level[0] & level[1]).any(1)].tolist()
    if not suspects:
        return []
    # Some rows stand for all of them until it matters.
    found = []
    for number in suspects:
        places = np.concatenate([center[None], _along(frame, center, np.array([number]))[0]])
        tree = frame.layout.tree(places.astype(some.dtype))
        values = log_densities(posterior, tree, data)
        if _is_level(values[:1], values[1:]).any():
            found.append(number)
    return found


def _along(frame: Frame, center: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return places far along coordinates of these numbers, shape (count, 4, d): both distances to
    one side, then to the other.
    """
    places = np.tile(center, (len(number), WAYS, 1))
    away = np.outer(frame.sd[number], [sign * far for sign in (1, -1) for far in FAR])
    places[np.arange(len(number))[:, None], np.arange(WAYS), number[:, None]] += away
    return places


def _is_level(here: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return whether log densities do not fall from the center, shape (1,), to places (count · 4,),
    to either side, shape (count, 2).
    """
    near, far = np.moveaxis(values.reshape(-1, 2, len(FAR)), 2, 0)
    with np.errstate(invalid="ignore"):
        # What is not a number says nothing.
        return (far > here - LOWER) & (far > near - LEVEL)
