"""Whether a density does not fall along a coordinate: then it is no posterior.

A flat prior of a log scale, of degrees of freedom or of a length, is such a prior where the data do
not bound both ends: the density tends to a constant, and its integral is infinite. Draws around a
mode show nothing of it.
"""

import numpy as np

from ewsg_jax._types import Data
from ewsg_jax.checking.some_rows import SomeRows
from ewsg_jax.planning.frame import Frame
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation.programs import vector
from ewsg_jax.preparation.support import log_densities
from ewsg_jax.rows.spread import Spread

FAR = (100.0, 1_000.0)
"""Standard deviations from the center: a Cauchy law's density is 9 and 14 lower there."""
LOWER, LEVEL = 12.0, 1.0
"""By how much it must be lower at the farther one, or still fall between the two."""
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
    center, size = vector(frame.center), len(frame.sd)
    number = np.arange(min(size, MOST))
    some = SomeRows.of(posterior, frame.layout, data)
    places = np.tile(center, (2, len(FAR), len(number), 1))
    for side, sign in enumerate((1, -1)):
        for turn, far in enumerate(FAR):
            places[side, turn, number, number] += sign * far * frame.sd[number]
    with np.errstate(all="ignore"):
        values = some.values(np.concatenate([center[None], places.reshape(-1, size)]))
        # In units of all rows, and of the prior alone: a proper one falls whatever the rows say.
        prior, total = values[:, 0], values[:, 0] + some.stands_for * values[:, 1:].sum(1)
    falls = _falls(prior[1:], prior[0], len(number)) | _falls(total[1:], total[0], len(number))
    sides, found = np.nonzero(~falls)
    if not found.size:
        return []
    # Some rows stand for all of them until it matters.
    chosen = places[sides, :, found].reshape(-1, size)
    every = frame.layout.tree(np.concatenate([center[None], chosen]).astype(some.dtype))
    values = log_densities(posterior, every, data)
    near, far = values[1:].reshape(-1, len(FAR)).T
    with np.errstate(invalid="ignore"):
        is_level = (far > values[0] - LOWER) & (far > near - LEVEL)
    return sorted(set(found[is_level].tolist()))


def _falls(values: np.ndarray, at_center: float, count: int) -> np.ndarray:
    """Return whether values fall along each coordinate, shape (2, count)."""
    near, far = np.moveaxis(values.reshape(2, len(FAR), count), 1, 0)
    # What is not a number there says nothing.
    return ~((far > at_center - LOWER) & (far > near - LEVEL))
