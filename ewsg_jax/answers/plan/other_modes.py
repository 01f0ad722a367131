"""Whether there is another mode near the one that was found: draws around one show no other.

Searches begin 3 to 100 widths away and go downhill, in the units of the posterior around the mode,
along the gradient of some rows. More begin at what may be the same by symmetry: where neighbours
among the parameters have changed places, as components of a mixture may, whose labels say nothing;
and where leaves have the other sign, as factors and their loadings may. Where a search settles
somewhere else, at a density that is not far lower, there may be another mode: there is where
Newton's method ends at one from there, on all rows. A far tail, where slopes are small as well, is
none. It is no proof that there is none: a narrow one, or one farther away, is missed.
"""

import itertools
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.mode.find_mode import find_mode
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.model_checks.densities import log_densities
from ewsg_jax.model_checks.prior_derivatives import prior_derivatives
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.vectors.layout import vector
from ewsg_jax.vectors.some_rows import SomeRows

WIDTHS, EACH = (3.0, 10.0, 30.0, 100.0), 6
"""Of the draws at which searches begin, and how many of each."""
SWAPS, TURNS = 6, 6
"""Searches that begin where two parameters have changed places, and where signs are turned."""
NUM_SEARCHES = len(WIDTHS) * EACH + SWAPS + TURNS
STEPS, DAMPING, LESS, MORE = 60, 0.3, 0.5, 1.1
"""Of a search, the part of a step of Newton's method that it begins with, and how that changes
where the slope grows, and where it does not.
"""
SETTLED, APART, LOWER = 0.02, 1.0, 12.0
"""Slope, in standard deviations, that may be that of a mode; how far from the first one, in the
same, it is another; and by how much its log density may be lower to matter.
"""
MOST_ENDS, NEWTON_STEPS = 4, 20
"""Different ends from which Newton's method begins, the highest first, and its steps at most."""


class Other(NamedTuple):
    """Another mode.

    Attributes:
        place: where, shape (d,).
        searches: how many settled there.
    """

    place: np.ndarray
    searches: int

    def is_visited(self, frame: Frame, draws: np.ndarray) -> bool:
        """Return whether each chain of draws (chain, draw, d) is sometimes nearer to this mode than
        to that of the frame.
        """
        away, near = (
            np.linalg.norm(frame.unit((draws - place).reshape(-1, draws.shape[2])), axis=1)
            for place in (vector(frame.mode.position), self.place)
        )
        return bool((near < away).reshape(draws.shape[:2]).any(1).all())


def elsewhere(posterior: Posterior, frame: Frame, data: Data) -> list[Other]:
    """Return the other modes at which some of 36 searches end, at most four; none without a search
    where there can be none.

    Args:
        posterior: of which.
        frame: the units around its mode.
        data: the rows.
    """
    if isinstance(data, Spread) or _is_concave(posterior, frame):
        return []
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
    is_other = (slopes <= SETTLED) & (lengths > APART) & np.isfinite(lengths)
    if not is_other.any():
        return []
    values = log_densities(posterior, frame.layout.tree(frame.moved(ends)), data)
    is_other &= values > values[0] - LOWER
    # All that end at one place are judged together.
    left, found = [k for k in np.argsort(-values) if is_other[k]], []
    for _ in range(MOST_ENDS):
        if not left:
            break
        same = [k for k in left if np.linalg.norm(ends[k] - ends[left[0]]) <= APART]
        place = _mode_from(posterior, frame, data, ends[left[0]])
        if place is not None:
            found.append(Other(place, len(same)))
        left = [k for k in left if k not in same]
    return found


def _is_concave(posterior: Posterior, frame: Frame) -> bool:
    """Return whether the log density is concave: where the likelihood is, and the prior a normal or
    a flat one, whose curvature is the same everywhere. Above 1,000 numbers priors are not judged.
    """
    if not posterior.log_concave or len(frame.sd) > check_settings.MAX_DENSE_DIMENSION:
        return posterior.log_concave
    two = vector(frame.center) + frame.places(jax.random.key(0), 2, WIDTHS[0])
    points = two.astype(np.result_type(np.float32, *frame.layout.dtypes))
    _, hessians = prior_derivatives(posterior, frame.layout, points)
    here, there = np.asarray(hessians, np.float64)
    values = np.linalg.eigvalsh(here)
    rounding = check_settings.SAME_CURVATURE * np.abs(values).max()
    return bool(values[0] >= -rounding and np.abs(here - there).max() <= rounding)


def _mode_from(
    posterior: Posterior, frame: Frame, data: Data, end: np.ndarray
) -> np.ndarray | None:
    """Return the mode that Newton's method finds from an end; None where it finds none, or that of
    the frame.
    """
    position = jax.device_put(frame.layout.tree(frame.moved(end[None])[0]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = find_mode(
                jax.random.key(0),
                posterior,
                position,
                data,
                max_steps=NEWTON_STEPS,
                rank=0,
                progress=False,
                check_data=False,
            )
    except ValueError:  # no derivatives there
        return None
    place = vector(found.position)
    away = frame.unit((place - vector(frame.mode.position))[None])
    return place if found.converged and float(np.linalg.norm(away)) > APART else None


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
