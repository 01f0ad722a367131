"""Whether the density has a finite integral, and a standard deviation: by its values far from the
center.

A flat prior on a log scale, on degrees of freedom or on a length is improper if the data do not
bound both ends: the density tends to a constant there, and its integral is infinite. A density that
falls as |θ|⁻³ or more slowly, such as a Cauchy distribution's, has an integral and no variance.
Draws around a mode show neither.
"""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.ridges import find_ridges
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base.typing import Data
from ewsg_jax.draws.coordinates import flattened, named
from ewsg_jax.model_checks.densities import log_densities
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.posterior.transformed import LogPrior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.vectors.layout import vector
from ewsg_jax.vectors.some_rows import PADDED_POSITIONS, SomeRows

FASTER_PRIOR = "give one of them a prior that falls faster, or ask for quantiles"


class Tails(NamedTuple):
    """How a density falls far from its center.

    Attributes:
        level: numbers of the coordinates along which it does not fall, to either side.
        slow: numbers of those along which it falls too slowly for a standard deviation.
        is_slow: whether it falls so in all random directions.
    """

    level: list[int]
    slow: list[int]
    is_slow: bool = False


def look_at_tails(
    posterior: Posterior, whitening: Whitening, data: Data, _: np.ndarray | None
) -> list[Finding]:
    """Return findings if the density does not fall, or falls too slowly, along some coordinates, or
    along ridges of several.

    Args:
        posterior: the target.
        whitening: its center and standard deviations.
        data: all n rows.
    """
    tails, far = find_tails(posterior, whitening, data), settings.TAIL_DISTANCES[1]
    findings = []
    if tails.level:
        text = (
            f"the density does not fall along {_names(whitening, tails.level)}: {far:,.0f} "
            "standard deviations away it is about as high as at the center, so that it may have no "
            "finite integral"
        )
        cure = "give it a prior that falls to both sides"
        findings.append(Finding("improper", "doubt", text, cure))
    if tails.slow or tails.is_slow:
        along = f"along {_names(whitening, tails.slow)}" if tails.slow else "in all directions"
        text = (
            f"the density falls {along} as that of a distribution without a standard deviation, to "
            f"{far:,.0f} of those at the mode: none is known"
        )
        cure = "give it a prior that falls faster, or ask for quantiles"
        findings.append(Finding("heavy_tail", "doubt", text, cure))
    if isinstance(data, Spread):
        return findings
    ridges = find_ridges(posterior, whitening, data)
    if level := sorted({*ridges.level} - {*tails.level}):
        text = (
            f"the density does not fall along a ridge of {_names(whitening, level)} and what "
            "follows: it may have no finite integral"
        )
        cure = "give each of them a prior that falls to both sides"
        findings.append(Finding("improper", "doubt", text, cure))
    if slow := sorted({*ridges.slow} - {*tails.level, *tails.slow}):
        text = (
            f"the density falls along a ridge of {_names(whitening, slow)} as that of a "
            f"distribution without a standard deviation, to {settings.RIDGE_SDS[-1]:,.0f} of those "
            "at the mode: none is known"
        )
        findings.append(Finding("heavy_tail", "doubt", text, FASTER_PRIOR))
    prior = getattr(posterior.log_prior, "function", posterior.log_prior)
    if isinstance(prior, LogPrior):
        mapped = find_ridges(posterior, whitening, data, prior.bijector)
        known = {*ridges.level, *ridges.slow, *tails.level, *tails.slow}
        if slow := sorted({*mapped.level, *mapped.slow} - known):
            text = (
                f"{_names(whitening, slow)} mapped forward by the bijector has the tail of a "
                "distribution without a standard deviation: its mean and sd over draws say little"
            )
            findings.append(Finding("heavy_tail", "note", text, FASTER_PRIOR))
    return findings


def find_tails(posterior: Posterior, whitening: Whitening, data: Data) -> Tails:
    """Return how a density falls along its coordinates, the first 512, and along random directions.

    Some rows stand for all of them first. What is suspected is compared again on all rows.

    Args:
        posterior: the target.
        whitening: its center and standard deviations.
        data: all n rows; nothing is evaluated if devices share them.
    """
    if isinstance(data, Spread):
        return Tails([], [])
    center, count = vector(whitening.center), 2 * len(settings.TAIL_DISTANCES)
    subset = SomeRows.of(posterior, whitening.layout, data)
    at_center, suspects = subset.values(center[None]), []

    def on_some_rows(places: np.ndarray, dimension: int = 1) -> np.ndarray:
        """Return whether the density may be level, and slow, shape (2, lines, 2 sides)."""
        values = subset.values(places.reshape(-1, len(center)))
        with np.errstate(all="ignore"):
            # The whole density and the prior alone: a proper prior falls whatever the rows are.
            pairs = [
                (x[:, 0], x[:, 0] + subset.stands_for * x[:, 1:].sum(1))
                for x in (at_center, values)
            ]
        kinds = [_kinds(here, there, dimension) for here, there in zip(*pairs, strict=True)]
        return np.all(kinds, axis=0)

    def on_all_rows(places: np.ndarray, dimension: int = 1) -> np.ndarray:
        """Return the same by all rows for one line, shape (2, 2 sides)."""
        points = np.concatenate([center[None], places]).astype(subset.dtype)
        values = log_densities(posterior, whitening.layout.tree(points), data)
        return _kinds(values[:1], values[1:], dimension)[:, 0]

    # A block of coordinates at a time: their places may be more than memory holds.
    most = min(len(center), 512)
    for first in range(0, most, PADDED_POSITIONS // count):
        numbers = np.arange(first, min(first + PADDED_POSITIONS // count, most))
        kinds = on_some_rows(_along_coordinates(whitening, center, numbers))
        suspects += numbers[kinds.any((0, 2))].tolist()
    kinds_of = {
        number: on_all_rows(_along_coordinates(whitening, center, np.array([number]))[0])
        for number in suspects
    }
    level = [number for number, kinds in kinds_of.items() if kinds[0].any()]
    slow = [number for number, kinds in kinds_of.items() if kinds[1].any() and number not in level]
    rays = _along_rays(whitening, center)
    is_slow = on_some_rows(rays, len(center))[1].all() and all(
        on_all_rows(ray, len(center))[1].all() for ray in rays
    )
    return Tails(level, slow, bool(is_slow))


def _signed_distances() -> list[float]:
    """Return the distances to one side, then those to the other, in sds."""
    return [sign * distance for sign in (1, -1) for distance in settings.TAIL_DISTANCES]


def _along_rays(whitening: Whitening, center: np.ndarray) -> np.ndarray:
    """Return positions along random directions, shape (rays, 4, d): both distances to one side,
    then to the other.
    """
    shape = (settings.NUM_TAIL_RAYS, len(center))
    rays = np.random.default_rng(0).normal(size=shape)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    distances = np.array(_signed_distances())
    whitened = distances[:, None] * rays[:, None]
    positions = whitening.positions(whitened.reshape(-1, len(center)))
    return positions.reshape(settings.NUM_TAIL_RAYS, len(distances), -1)


def _along_coordinates(whitening: Whitening, center: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return positions along the coordinates of these numbers, shape (count, 4, d): both distances
    to one side, then to the other.
    """
    distances = _signed_distances()
    places = np.tile(center, (len(numbers), len(distances), 1))
    away = np.outer(whitening.sd[numbers], distances)
    rows, columns = np.arange(len(numbers))[:, None], np.arange(len(distances))
    places[rows, columns, numbers[:, None]] += away
    return places


def _kinds(at_center: np.ndarray, values: np.ndarray, dimension: int) -> np.ndarray:
    """Return whether log densities do not fall from the center, and whether they fall as slowly as
    those of distributions of this dimension without a variance.

    Args:
        at_center: the log density there, shape (1,).
        values: at positions along lines, shape (lines · 4,).
        dimension: 1 along a coordinate, d along random directions.

    Returns:
        Two answers for each side of each line, shape (2, lines, 2).
    """
    distances = settings.TAIL_DISTANCES
    near, far = np.moveaxis(values.reshape(-1, 2, len(distances)), 2, 0)
    fall = (dimension + settings.TAIL_POWER) * np.log(distances[1] / distances[0])
    with np.errstate(invalid="ignore"):
        # NaN compares as False: neither.
        is_level = (far > at_center - settings.OTHER_MODE_DEPTH) & (far > near - 1)
        is_slow = far > near - fall - settings.TAIL_ROUNDING
        is_slow &= far > at_center - dimension * settings.TAIL_DEPTH
    return np.stack([is_level, is_slow])


def _names(whitening: Whitening, numbers: list[int]) -> str:
    """Return the names of coordinates, of the first three at most."""
    center = jax.tree.map(lambda x: np.asarray(x)[None, None], whitening.center)
    names = flattened(named(center, "position"))[1]
    return ", ".join(names[i] for i in numbers[:3]) + (", …" if len(numbers) > 3 else "")
