"""Whether there is another mode near the one that was found: draws around one show no other.

If the density is the same with parameters exchanged, as components of a mixture may be, or of the
other sign, as factors and their loadings, the image of the mode is another mode. Searches begin
at other such images, in coordinates that are exchanged too, and 3 to 100 posterior sds away. They
go downhill, in the units of the posterior around the mode, along the gradient of some rows. If a
search settles somewhere else, at a density that is not far lower, Newton's method on all rows
starts from there. What it finds is another mode. A far tail, whose gradients are small as well, is
none. It is no proof that there is no other mode: a narrow one, or one farther away, is missed.
"""

import itertools
import warnings
from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.mode.find_mode import find_mode
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.symmetries import SignedExchange, exact_symmetries, exchanges
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base import limits
from ewsg_jax.base.typing import Data
from ewsg_jax.model_checks.densities import log_densities
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.prior_derivatives import prior_derivatives
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.vectors.layout import vector
from ewsg_jax.vectors.some_rows import SomeRows

CURE = (
    "a parametrisation without it (components of a mixture in order, one loading positive), or a "
    "method for several modes"
)


class OtherMode(NamedTuple):
    """Another mode.

    Attributes:
        place: the mode as a vector, shape (d,).
        searches: how many searches settled there.
        exchange: the exchange that leads there and leaves the density as it is, in words; empty if
            none is known.
    """

    place: np.ndarray
    searches: int
    exchange: str = ""

    def is_visited(self, whitening: Whitening, draws: np.ndarray) -> bool:
        """Return whether each chain is sometimes nearer to this mode than to the first one.

        Args:
            whitening: coordinates around the first mode.
            draws: positions as vectors, shape (chain, draw, d).
        """
        to_first, to_this = (
            np.linalg.norm(whitening.whiten((draws - mode).reshape(-1, draws.shape[2])), axis=1)
            for mode in (vector(whitening.mode.position), self.place)
        )
        return bool((to_this < to_first).reshape(draws.shape[:2]).any(1).all())


def look_for_other_modes(
    posterior: Posterior, whitening: Whitening, data: Data, draws: np.ndarray | None
) -> list[Finding]:
    """Return a finding if there is another mode: a doubt, or a note if all chains have visited it.

    Args:
        posterior: the target.
        whitening: coordinates around the first mode.
        data: all n rows.
        draws: draws of a pilot run as vectors, shape (chain, draw, d); None without one.
    """
    modes = find_other_modes(posterior, whitening, data)
    if not modes:
        return []
    if modes[0].exchange:
        text = (
            f"there is another mode: the density is the same with {modes[0].exchange}, and the "
            "mode is elsewhere, "
        )
    else:
        settled = sum(mode.searches for mode in modes)
        number = len(_search_starts(whitening)[0])
        text = (
            f"there is another mode: {settled} of {number} searches that began some "
            "widths away, or with parameters exchanged or of the other sign, settled at one, "
        )
    if draws is not None and all(mode.is_visited(whitening, draws) for mode in modes):
        text += "and all chains of the pilot run have been there"
        return [Finding("other_mode", "note", text)]
    text += "and chains near the first do not visit it"
    return [Finding("other_mode", "doubt", text, CURE)]


def find_other_modes(posterior: Posterior, whitening: Whitening, data: Data) -> list[OtherMode]:
    """Return the images of the mode by exchanges that leave the density as it is; without one, the
    other modes at which some of 36 searches end; at most four. Nothing is searched if the density
    is log-concave, or if devices share the rows.

    Args:
        posterior: the target.
        whitening: coordinates around the first mode.
        data: all n rows.
    """
    if isinstance(data, Spread) or _is_log_concave(posterior, whitening):
        return []
    subset = SomeRows.of(posterior, whitening.layout, data)
    if images := _images(subset, whitening):
        return images
    ends, gradients = _search_ends(subset, whitening, *_search_starts(whitening))
    lengths = np.linalg.norm(ends, axis=1)
    is_other = (
        # In units of the posterior; by hand.
        (gradients <= 0.02) & (lengths > settings.OTHER_MODE_DISTANCE) & np.isfinite(lengths)
    )
    if not is_other.any():
        return []
    values = log_densities(posterior, whitening.layout.tree(whitening.positions(ends)), data)
    is_other &= values > values[0] - settings.OTHER_MODE_DEPTH
    # All searches that end at one place are judged together.
    left, modes = [k for k in np.argsort(-values) if is_other[k]], []
    for _ in range(settings.MOST_OTHER_MODES):
        if not left:
            break
        distances = {k: np.linalg.norm(ends[k] - ends[left[0]]) for k in left}
        same = [k for k in left if distances[k] <= settings.OTHER_MODE_DISTANCE]
        place = _mode_from(posterior, whitening, data, ends[left[0]])
        if place is not None:
            modes.append(OtherMode(place, len(same)))
        left = [k for k in left if k not in same]
    return modes


def _is_log_concave(posterior: Posterior, whitening: Whitening) -> bool:
    """Return whether the log density is concave: if the likelihood is, and the prior is normal or
    flat, with the same curvature everywhere. In more than 1,000 dimensions the prior is not judged.
    """
    if not posterior.log_concave or len(whitening.sd) > limits.MAX_DENSE_DIMENSION:
        return posterior.log_concave
    width = settings.OTHER_MODE_WIDTHS[0]
    two = vector(whitening.center) + whitening.draw_places(jax.random.key(0), 2, width)
    points = two.astype(np.result_type(np.float32, *whitening.layout.dtypes))
    _, hessians = prior_derivatives(posterior, whitening.layout, points)
    here, there = np.asarray(hessians, np.float64)
    values = np.linalg.eigvalsh(here)
    rounding = check_settings.SAME_CURVATURE * np.abs(values).max()
    return bool(values[0] >= -rounding and np.abs(here - there).max() <= rounding)


def _images(subset: SomeRows, whitening: Whitening) -> list[OtherMode]:
    """Return the images of the mode, away from it, by exchanges that leave the density as it is; at
    most four. Without a mode no image is one.
    """
    if not whitening.mode.converged:
        return []
    mode = vector(whitening.mode.position)
    near = mode + whitening.draw_places(jax.random.key(1), 2, 1.0)
    modes: list[OtherMode] = []
    for exchange, name in exact_symmetries(subset, whitening.layout, near):
        image = exchange(mode)
        # Away from the first mode and from all images before.
        others = np.stack([mode, *(one.place for one in modes)])
        distances = np.linalg.norm(whitening.whiten(image - others), axis=1)
        if distances.min() > settings.OTHER_MODE_DISTANCE:
            modes.append(OtherMode(image, 1, name))
        if len(modes) == settings.MOST_OTHER_MODES:
            break
    return modes


def _search_starts(whitening: Whitening) -> tuple[np.ndarray, list[SignedExchange]]:
    """Return the positions at which searches begin, whitened, shape (36, d), and the exchange in
    whose image of the coordinates each is made.
    """
    count = settings.SEARCHES_OF_A_KIND
    widths = np.repeat(settings.OTHER_MODE_WIDTHS, count)
    number = len(widths) + 2 * count
    normals = np.random.default_rng(0).normal(size=(number, len(whitening.sd)))
    starts = np.resize(widths, number)[:, None] * normals
    same = SignedExchange(np.arange(len(whitening.sd)), np.ones(len(whitening.sd)))
    # Draws stay if there are fewer exchanges than searches for them.
    maps = [same] * len(widths)
    maps += [one for one, _ in itertools.islice(exchanges(whitening.layout), 2 * count)]
    starts[len(widths) : len(maps)] = 0.0
    return starts, maps + [same] * (number - len(maps))


def _mode_from(
    posterior: Posterior, whitening: Whitening, data: Data, end: np.ndarray
) -> np.ndarray | None:
    """Return the mode that Newton's method finds from the end of a search, as a vector; None if it
    finds none, or the first one.
    """
    position = jax.device_put(whitening.layout.tree(whitening.positions(end[None])[0]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            mode = find_mode(
                jax.random.key(0),
                posterior,
                position,
                data,
                max_steps=20,
                rank=0,
                progress=False,
                check_data=False,
            )
    except ValueError:  # no derivatives there
        return None
    place = vector(mode.position)
    away = whitening.whiten((place - vector(whitening.mode.position))[None])
    is_apart = float(np.linalg.norm(away)) > settings.OTHER_MODE_DISTANCE
    return place if mode.converged and is_apart else None


def _search_ends(
    row_subset: SomeRows, whitening: Whitening, starts: np.ndarray, maps: list[SignedExchange]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions at which searches end, whitened, and the norm of the whitened gradient
    there; those of the center come first.

    Args:
        row_subset: rows that stand for all.
        whitening: coordinates around the first mode.
        starts: positions of the searches, whitened, shape (count, d).
        maps: the exchange whose image of the coordinates each search is made in, so that components
            take their widths with them.
    """
    weights = np.full(row_subset.size, row_subset.stands_for)
    # The first search stays at the center. Its gradient is not 0 on some of the rows and is
    # subtracted from the others'.
    y = np.concatenate([np.zeros((1, starts.shape[1])), starts])
    maps = [maps[0], *maps]
    # The part of a Newton step to begin with; by hand.
    previous, damping = np.full(len(y), np.inf), np.full(len(y), 0.3)

    def mapped(vectors: np.ndarray) -> np.ndarray:
        return np.stack([one(vector) for one, vector in zip(maps, vectors, strict=True)])

    for _ in range(60):
        with np.errstate(all="ignore"):
            places = mapped(whitening.positions(y))
            densities = mapped(row_subset.gradients(places, weights).sum(1))
            gradients = -whitening.whiten_gradients(densities)
            gradients = gradients - gradients[0]
            norms = np.linalg.norm(gradients, axis=1)
            damping = np.where(
                norms > previous,
                damping / 2,
                np.minimum(1.1 * damping, 0.5),
            )
            # No step is longer than the way that is left: beyond a steep edge a gradient may have
            # any size.
            longest = np.linalg.norm(y, axis=1) + y.shape[1] ** 0.5
            part = damping * np.minimum(1.0, longest / np.maximum(norms, 1e-30))
            y, previous = y - part[:, None] * gradients, norms
    ends = mapped(whitening.positions(y)) - vector(whitening.center)
    with np.errstate(all="ignore"):
        return whitening.whiten(ends), previous
