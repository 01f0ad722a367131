"""Each coordinate's own slope, row by row: one wrong derivative of many is lost in their sum.

Along a line between draws all d derivatives are added up, and over rows as well, where most of them
cancel. So each coordinate is moved alone, and rows get random signs sᵢ:

    Σᵢ sᵢ (log pᵢ(a + h eⱼ) − log pᵢ(a − h eⱼ)) ≈ 2 h ∂ⱼ Σᵢ sᵢ log pᵢ(a)

This only finds whom to suspect, for two values and one derivative do not show whether a wall lies
between them: `slopes` decides.
"""

import itertools
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.vectors.row_subsets import evenly
from ewsg_jax.vectors.some_rows import BLOCK, SomeRows

MOST_COORDINATES = 512
"""Coordinates that are moved; of more, as many drawn at random."""
PLACES, EACH = 8, 2
"""Draws at which coordinates are moved, and at how many of these each is."""
SIGNS = BLOCK // PLACES
"""Random signs of the rows at each."""
STEP = 0.15
"""Of the standard deviation of draws, to either side."""
ULPS = 4
"""Roundings of a position by which log densities are moved, to see what rounding does to them."""
TOO_FAR, BY_ROUNDING = 0.05, 3.0
"""Relative difference, and how many times that by rounding, from which on one is suspected."""


class Suspect(NamedTuple):
    """A coordinate whose derivative is not what values say.

    Attributes:
        number: of the coordinate.
        step: by which it was moved to either side.
    """

    number: int
    step: float


def coordinates(d: int) -> np.ndarray:
    """Return the numbers of those that are moved, sorted: all d, or 512 drawn at random."""
    if d <= MOST_COORDINATES:
        return np.arange(d)
    return np.sort(np.random.default_rng(d).choice(d, MOST_COORDINATES, replace=False))


def suspects(some: SomeRows, draws: Draws, most: int) -> list[Suspect]:
    """Return at most `most` coordinates, those that differ most first.

    Args:
        some: rows on which both functions are compared.
        draws: around which.
        most: how many.
    """
    flat, chosen = draws.flat, coordinates(draws.size)
    places = np.resize(flat[evenly(len(flat), PLACES)], (PLACES, draws.size)).astype(some.dtype)
    steps = (STEP * flat.std(0)).astype(some.dtype)
    signs = some.signs(BLOCK).reshape(PLACES, SIGNS, -1)
    # The places themselves, and a few roundings off.
    nudged = places * (1 + ULPS * np.finfo(some.dtype).eps).astype(some.dtype)
    here, near = np.split(some.values(np.concatenate([places, nudged])), 2)
    with np.errstate(invalid="ignore"):
        rounding = np.hypot(near - here, np.finfo(some.dtype).eps * here)
        # A row beyond a wall says nothing.
        known = np.isfinite(rounding)
        signs = np.where(known[:, None, 1:], signs, 0)
        slopes = some.gradients(np.repeat(places, SIGNS, 0), signs.reshape(BLOCK, -1)).reshape(
            PLACES, SIGNS, 2, -1
        )
        # Of log prior and log likelihood: squares of the difference, of the larger, of rounding.
        found = np.zeros((3, 2, len(chosen)))
        # A block at a time: places of all coordinates may be more than memory holds.
        for turn, first in itertools.product(range(EACH), range(0, len(chosen), BLOCK // 2)):
            part = np.arange(first, min(first + BLOCK // 2, len(chosen)))
            at, number = (part + turn * (PLACES // EACH)) % PLACES, np.arange(len(part))
            own = chosen[part]
            sides = np.repeat(places[at][None], 2, 0)
            sides[0, number, own] += steps[own]
            sides[1, number, own] -= steps[own]
            up, down = np.split(some.values(np.concatenate(sides)), 2)
            rise = np.where(known[at], up - down, 0)
            way = sides[0, number, own] - sides[1, number, own]
            slope = way[:, None, None] * slopes[at, :, :, own]
            signed = np.einsum("cr,csr->cs", rise[:, 1:], signs[at])
            each = np.stack([np.repeat(rise[:, :1], SIGNS, 1), signed], axis=2)
            parts = np.where(known[at], rounding[at], 0), rise
            both = [np.stack([x[:, 0] ** 2, np.sum(x[:, 1:] ** 2, axis=1)]) for x in parts]
            off, by_slope = (np.mean(x**2, axis=1).T for x in (each - slope, slope))
            told = np.stack([off, np.maximum(both[1], by_slope), both[0]])
            found[..., part] += np.where(np.isfinite(told).all(0), told, 0)
        off, whole, rounded = np.sqrt(found)
    share = np.where(off > BY_ROUNDING * rounded, off / np.where(whole > 0, whole, 1), 0).max(0)
    order = np.argsort(-share, kind="stable")[:most]
    return [Suspect(int(chosen[k]), float(steps[chosen[k]])) for k in order if share[k] > TOO_FAR]
