"""Each coordinate's own gradient, row by row: one wrong derivative of many is lost in their sum.

Along a line between draws all d derivatives are added up, and over rows as well, so that most of
them cancel. So each coordinate is moved alone, and rows get random signs sᵢ:

    Σᵢ sᵢ (log pᵢ(a + h eⱼ) − log pᵢ(a − h eⱼ)) ≈ 2 h ∂ⱼ Σᵢ sᵢ log pᵢ(a)

This only says which coordinates to suspect, for two values and one derivative do not show whether a
steep edge lies between them: `gradient` decides.
"""

import itertools
from typing import NamedTuple

import numpy as np

from ewsg_jax.vectors.row_subsets import evenly
from ewsg_jax.vectors.some_rows import PADDED_POSITIONS, SomeRows

MAX_MOVED = 512
"""Coordinates that are moved; of more, this many at random. Each costs two evaluations a place."""
NUM_MOVED_DRAWS, DRAWS_PER_COORDINATE = 8, 2
"""Draws at which coordinates are moved, and at how many of these each is moved; set by hand."""
SIGNS_PER_DRAW = PADDED_POSITIONS // NUM_MOVED_DRAWS
"""Random signs of the rows at each place: what one call of the program holds."""
MOVE = 0.15
"""How far a coordinate is moved to either side, in standard deviations of the draws: the third
derivative of a normal's log density is 0, and rounding in float32 is 1e-7; set by hand."""
ULPS = 4
"""Roundings of a position by which log densities are moved, to see what rounding does to them."""
SUSPECT_DIFFERENCE, SUSPECT_ROUNDING = 0.05, 3.0
"""Relative difference, and how many times that by rounding, from which on a coordinate is
suspected; less certain than `gradient` asks for, which then decides."""


class Suspect(NamedTuple):
    """A coordinate whose derivative is not what values say.

    Attributes:
        number: the number of the coordinate.
        step: by which it was moved to either side.
    """

    number: int
    step: float


def coordinates(d: int) -> np.ndarray:
    """Return the numbers of those that are moved, sorted: all d, or 512 drawn at random."""
    if d <= MAX_MOVED:
        return np.arange(d)
    return np.sort(np.random.default_rng(d).choice(d, MAX_MOVED, replace=False))


def suspects(subset: SomeRows, flat: np.ndarray, most: int) -> list[Suspect]:
    """Return at most `most` coordinates, those whose derivatives differ most first.

    Args:
        subset: the rows on which both functions are compared.
        flat: draws around which they are, shape (draws, d).
        most: the largest number of coordinates.
    """
    chosen = coordinates(flat.shape[1])
    places = np.resize(flat[evenly(len(flat), NUM_MOVED_DRAWS)], (NUM_MOVED_DRAWS, flat.shape[1]))
    places, steps = places.astype(subset.dtype), (MOVE * flat.std(0)).astype(subset.dtype)
    signs = subset.signs(PADDED_POSITIONS).reshape(NUM_MOVED_DRAWS, SIGNS_PER_DRAW, -1)
    # The places themselves, and a few roundings off.
    nudged = places * (1 + ULPS * np.finfo(subset.dtype).eps).astype(subset.dtype)
    here, near = np.split(subset.values(np.concatenate([places, nudged])), 2)
    with np.errstate(invalid="ignore"):
        rounding = np.hypot(near - here, np.finfo(subset.dtype).eps * here)
        # A row beyond an edge of the support says nothing.
        known = np.isfinite(rounding)
        signs = np.where(known[:, None, 1:], signs, 0)
        gradients = subset.gradients(
            np.repeat(places, SIGNS_PER_DRAW, 0), signs.reshape(PADDED_POSITIONS, -1)
        )
        gradients = gradients.reshape(NUM_MOVED_DRAWS, SIGNS_PER_DRAW, 2, -1)
        # Of log prior and log likelihood: squares of the difference, of the larger, of rounding.
        squares = np.zeros((3, 2, len(chosen)))
        # A block at a time: places of all coordinates may be more than memory holds.
        for turn, first in itertools.product(
            range(DRAWS_PER_COORDINATE), range(0, len(chosen), PADDED_POSITIONS // 2)
        ):
            part = np.arange(first, min(first + PADDED_POSITIONS // 2, len(chosen)))
            at, number = (
                (part + turn * (NUM_MOVED_DRAWS // DRAWS_PER_COORDINATE)) % NUM_MOVED_DRAWS,
                np.arange(len(part)),
            )
            moved = chosen[part]
            sides = np.repeat(places[at][None], 2, 0)
            sides[0, number, moved] += steps[moved]
            sides[1, number, moved] -= steps[moved]
            up, down = np.split(subset.values(np.concatenate(sides)), 2)
            rise = np.where(known[at], up - down, 0)
            way = sides[0, number, moved] - sides[1, number, moved]
            by_gradient = way[:, None, None] * gradients[at, :, :, moved]
            signed = np.einsum("cr,csr->cs", rise[:, 1:], signs[at])
            by_values = np.stack([np.repeat(rise[:, :1], SIGNS_PER_DRAW, 1), signed], axis=2)
            terms = np.where(known[at], rounding[at], 0), rise
            rounded, size = (np.stack([x[:, 0] ** 2, np.sum(x[:, 1:] ** 2, axis=1)]) for x in terms)
            difference, by_gradients = (
                np.mean(x**2, axis=1).T for x in (by_values - by_gradient, by_gradient)
            )
            of_part = np.stack([difference, np.maximum(size, by_gradients), rounded])
            squares[..., part] += np.where(np.isfinite(of_part).all(0), of_part, 0)
        difference, size, rounded = np.sqrt(squares)
    is_clear = difference > SUSPECT_ROUNDING * rounded
    share = np.where(is_clear, difference / np.where(size > 0, size, 1), 0).max(0)
    order = np.argsort(-share, kind="stable")[:most]
    return [
        Suspect(int(chosen[k]), float(steps[chosen[k]]))
        for k in order
        if share[k] > SUSPECT_DIFFERENCE
    ]
