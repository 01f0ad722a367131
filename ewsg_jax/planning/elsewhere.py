"""Whether there is another mode near the one that was found: draws around one show no other.

Searches begin 3 to 100 widths away and go downhill, in the units of the posterior around the mode,
along the gradient of some rows. More begin at what may be the same by symmetry: where neighbours
among the parameters have changed places, as components of a mixture may, whose labels say nothing;
and where leaves have the other sign, as factors and their loadings may. Where a search settles
somewhere else, at a density that is not far lower, the posterior has another mode. It is no proof
that there is none: a narrow one, or one farther away, is missed.
"""

import itertools
from collections.abc import Iterator

import jax
import numpy as np

from ewsg_jax._base._types import Data, Position
from ewsg_jax.checking.some_rows import SomeRows
from ewsg_jax.planning.frame import Frame
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation.programs import vector
from ewsg_jax.preparation.support import log_densities
from ewsg_jax.rows.spread import Spread

WIDTHS, EACH = (3.0, 10.0, 30.0, 100.0), 6
"""Of the draws at which searches begin, and how many of each."""
SWAPS, TURNS = 6, 6
"""Searches that begin where two parameters have changed places, and where signs are turned."""
NUM_SEARCHES = len(WIDTHS) * EACH + SWAPS + TURNS
STEPS, DAMPING, LESS, MORE = 60, 0.3, 0.5, 1.1
"""Of a search, the part of a step of Newton's method that it begins with, and how that changes
where the slope grows, and where it does not.
"""
SETTLED, FAR, LOWER = 0.02, 3.0, 12.0
"""Slope, in standard deviations, that is that of a mode; how far beyond the radius of the posterior
it is another; and by how much its log density may be lower to matter.
"""


def elsewhere(posterior: Posterior, frame: Frame, data: Data) -> int:
    """Return how many of 36 searches end at another mode; 0 without a search where there can be
    none.

    Args:
        posterior: of which.
        frame: the units around its mode.
        data: the rows.
    """
    if posterior.log_concave or isinstance(data, Spread):
        return 0
    size = len(frame.sd)
    normal = np.random.default_rng(0).normal(size=(NUM_SEARCHES, size))
    widths = np.repeat(WIDTHS, EACH)
    places = np.resize(widths, NUM_SEARCHES)[:, None] * normal
    alike = [*itertools.islice(_swapped(frame.center), SWAPS)]
    alike += itertools.islice(_turned(frame.center), TURNS)
    away = np.stack([vector(each) for each in alike]) - vector(frame.center)
    places[len(widths) :][: len(alike)] = frame.unit(away)
    ends, slopes = _ends(SomeRows.of(posterior, frame.layout, data), frame, places)
    lengths = np.linalg.norm(ends, axis=1)
    # Of N(0, I) hardly a draw lies farther out than this.
    is_other = (slopes <= SETTLED) & (lengths > size**0.5 + FAR) & np.isfinite(lengths)
    if not is_other.any():
        return 0
    positions = frame.layout.tree(frame.moved(ends))
    values = log_densities(posterior, positions, data)
    return int(np.sum(is_other & (values > values[0] - LOWER)))


def _swapped(position: Position) -> Iterator[Position]:
    """Yield positions where two neighbours along the first axis have changed places, in all leaves
    that are as long; short leaves first.
    """
    leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, position))
    for length in sorted({x.shape[0] for x in leaves if x.ndim and x.shape[0] > 1}):
        for first in range(length - 1):
            order = np.arange(length)
            order[[first, first + 1]] = first + 1, first
            yield structure.unflatten(
                [x[order] if x.ndim and x.shape[0] == length else x for x in leaves]
            )


def _turned(position: Position) -> Iterator[Position]:
    """Yield positions of which one leaf, or two, have the other sign."""
    leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, position))
    numbers = range(len(leaves))
    for turned in itertools.chain(
        itertools.combinations(numbers, 1), itertools.combinations(numbers, 2)
    ):
        yield structure.unflatten([-x if i in turned else x for i, x in enumerate(leaves)])


def _ends(some: SomeRows, frame: Frame, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where searches end, in units of the frame, and how steep that is, in standard
    deviations; the center comes first.
    """
    weights = np.full(some.size, some.stands_for)
    # The first search stays at the center, whose gradient is not 0 on some of the rows: others are
    # less it.
    y = np.concatenate([np.zeros((1, places.shape[1])), places])
    before, damping = np.full(len(y), np.inf), np.full(len(y), DAMPING)
    for _ in range(STEPS):
        with np.errstate(all="ignore"):
            every = -frame.whitened(some.gradients(frame.moved(y), weights).sum(1))
            g = every - every[0]
            length = np.linalg.norm(g, axis=1)
            damping = np.where(length > before, LESS * damping, np.minimum(MORE * damping, 0.5))
            # No farther than the way that is left: beyond a wall a slope is of any size.
            most = np.linalg.norm(y, axis=1) + y.shape[1] ** 0.5
            part = damping * np.minimum(1.0, most / np.maximum(length, 1e-30))
            y, before = y - part[:, None] * g, length
    return y, before
