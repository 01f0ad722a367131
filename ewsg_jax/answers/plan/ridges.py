"""Whether a density falls fast enough along ridges: parameters that grow together, as two of which
the data know the ratio or the product alone.

Along a coordinate with the others fixed such a density falls fast. Here the others follow: with
coordinate k at t, Newton's method finds the highest density, exp(−V(t)), and with the Hessian of
the others, H(t), the marginal density of the coordinate is by Laplace's method

    m(t) ∝ exp(−V(t)) det H(t)^−½.

The determinant counts how much wider, or narrower, a ridge becomes. If the ridge has one shape at
all scales, as a power of t has, its error is one factor at all t. A variance needs an m that falls
faster than |t|⁻³, an integral one that falls faster than 1/|t|.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.mode import settings as mode_settings
from ewsg_jax.answers.mode.potential import HostPotential, Point, is_newton_quick
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base import limits
from ewsg_jax.base.compiling import UNOPTIMISED, in_float64
from ewsg_jax.base.factors import LowRank
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.bijectors._protocol import Transform
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.vectors.layout import Layout, vector


class Ridges(NamedTuple):
    """Along which coordinates a density falls too slowly, if all others follow.

    Attributes:
        level: numbers of the coordinates along which its integral may not be finite.
        slow: numbers of those along which it has an integral and no standard deviation.
    """

    level: list[int]
    slow: list[int]


class Profile(NamedTuple):
    """The highest density with one coordinate fixed.

    Attributes:
        flat: where it is, shape (d,).
        height: the logarithm of the marginal density there, by Laplace's method.
    """

    flat: np.ndarray
    height: float


class Track(NamedTuple):
    """Values of a coordinate, at distances to one side of its center.

    Attributes:
        number: the number k of the coordinate.
        values: its values at the center and at `_distances()`, shape (places,).
        log_rates: log |dθₖ/dxₖ| there, of the coordinate by the number x whose tail is asked about.
        follow: how the coordinates follow near the center, by regression, shape (d,).
    """

    number: int
    values: np.ndarray
    log_rates: np.ndarray
    follow: np.ndarray


def find_ridges(
    posterior: Posterior, whitening: Whitening, data: Data, bijector: Transform | None = None
) -> Ridges:
    """Return the coordinates along which a density falls too slowly if all others follow.

    Nothing is evaluated with more parameters, or rows, than Newton's method is quick for, or if the
    model cannot be given float64.

    Args:
        posterior: the target.
        whitening: its center and covariance.
        data: all n rows, in one place.
        bijector: maps positions to the parameters whose tails are asked about, each from a number
            of its own; None for the positions themselves.
    """
    center, covariance = vector(whitening.center), whitening.covariance
    size = len(center)
    if (
        not 1 < size <= mode_settings.NEWTON_DIMENSION
        or isinstance(covariance, LowRank)
        or not is_newton_quick(posterior, whitening.center, data)
    ):
        return Ridges([], [])
    potential = HostPotential(posterior, whitening.center, data, CHUNK_SIZE, lazy=False)
    if not potential.of.wide:
        return Ridges([], [])
    at_center = potential.at(center)
    try:
        at_center = at_center._replace(hessian=potential.hessian(at_center))
    except ValueError:
        return Ridges([], [])  # no second derivatives
    most = min(settings.MOST_RIDGE_PASSES, settings.MOST_RIDGE_ROWS / num_rows(data))
    # Those that depend on the others first: they lie along ridges.
    precision = np.linalg.pinv(covariance, hermitian=True)
    maps = None if bijector is None else _maps(whitening.layout, bijector)
    level, slow = [], []
    for k in np.argsort(-np.diag(covariance) * np.diag(precision), kind="stable").tolist():
        for side in (1.0, -1.0):
            if potential.data_passes > most:
                break
            follow = covariance[:, k] / covariance[k, k]
            sd = side * float(whitening.sd[k])
            line = _line(center, k, sd, maps)
            if line is None:
                continue
            try:
                heights = _heights(potential, at_center, Track(k, *line, follow), most)
            except ValueError:
                continue  # no second derivatives at some place
            kinds = _kinds(heights)
            level += [k] * kinds[0]
            slow += [k] * kinds[1]
    level = sorted(set(level))
    return Ridges(level, sorted(set(slow) - set(level)))


def _distances() -> np.ndarray:
    """Return distances from the center, in sds: all of `RIDGE_SDS`, and some between them."""
    first, last = 1.0, settings.RIDGE_SDS[-1]
    # Two places for a factor of ten: so near a search finds the ridge again.
    count = round(2 * np.log10(last / first))
    return np.geomspace(first, last, count + 1)


class _Maps(NamedTuple):
    """A bijector as compiled programs of vectors (places, d).

    Attributes:
        forward: returns values and derivatives along a direction (d,).
        inverse: returns vectors.
    """

    forward: Callable[..., Any]
    inverse: Callable[..., Any]


def _maps(layout: Layout, bijector: Transform) -> _Maps:
    """Return the programs, which all coordinates share."""

    def mapped(function: Callable[[Any], Any], flat: Array) -> Array:
        return jnp.concatenate(
            [jnp.ravel(x) for x in jax.tree.leaves(function(layout.tree(flat, flat.dtype)))]
        )

    def forward(flat: Array, direction: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda x: mapped(bijector.forward, x), (flat,), (direction,))

    def inverse(flat: Array) -> Array:
        return mapped(bijector.inverse, flat)  # pyright: ignore[reportAttributeAccessIssue]

    compiled = functools.partial(jax.jit, compiler_options=UNOPTIMISED)
    return _Maps(
        compiled(jax.vmap(forward, (0, None))),
        compiled(jax.vmap(inverse)),
    )


def _line(
    center: np.ndarray, k: int, sd: float, maps: _Maps | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return values of a coordinate and logarithms of rates, as in `Track`; None if the bijector
    does not map this coordinate by itself, or only to other units.

    Args:
        center: the center as a vector, shape (d,).
        k: the number of the coordinate.
        sd: its sd, negative for the other side.
        maps: map positions to parameters, or None.
    """
    distances = np.concatenate([[0.0], _distances()])
    if maps is None:
        return center[k] + sd * distances, np.zeros(len(distances))
    unit = np.eye(len(center))[k]
    try:
        with in_float64():
            # At as many places as below: by the same program.
            centers = np.tile(center, (len(distances), 1))
            middle, rate = (np.asarray(x)[0] for x in maps.forward(centers, unit))
            if middle.shape != center.shape or np.any(rate[unit == 0]) or not rate[k]:
                return None
            places = middle + np.outer(distances, sd * rate[k] * unit)
            inverse = np.asarray(maps.inverse(places))
            rates = np.asarray(maps.forward(inverse, unit)[1])[:, k]
    except Exception:
        return None  # What has no inverse of this kind is not judged.
    log_rates = -np.log(np.abs(rates))
    if np.ptp(log_rates) < settings.RIDGE_ROUNDING:
        return None
    return inverse[:, k], log_rates


def _kinds(heights: list[float]) -> tuple[bool, bool]:
    """Return whether a marginal density may have no integral, and whether it has no variance, by
    its logarithm at the first of `RIDGE_SDS`; neither if it is not known at two.

    A power is believed if it is the same at the last two distances and at those before: that of a
    lognormal tail grows.
    """
    # A density that falls as t⁻ᵖ falls by p times this from one distance to the next.
    decade = np.log(settings.RIDGE_SDS[1] / settings.RIDGE_SDS[0])
    falls, rounding = -np.diff(heights), settings.RIDGE_ROUNDING
    if not len(falls):
        return False, False
    if len(falls) == 1:
        return bool(abs(falls[0]) <= rounding), False
    if falls[-1] - falls[-2] > settings.RIDGE_POWER_CHANGE * decade:
        return False, False
    is_level = falls[-1] <= decade + rounding
    is_slow = falls[-1] <= (1 + settings.TAIL_POWER) * decade + rounding
    return bool(is_level), bool(is_slow and len(heights) == len(settings.RIDGE_SDS))


def _heights(potential: HostPotential, center: Point, line: Track, most: float) -> list[float]:
    """Return the logarithm of the marginal density of a coordinate at `RIDGE_SDS` sds to one side,
    as far as it is known with `most` passes over the data, or until it is too low.
    """
    middle = _profile(potential, center, line.number, -np.inf)
    if middle is None or not np.isfinite([line.values, line.log_rates]).all():
        return []
    # From the center outwards: each search begins where the ridge leads by the places before.
    lowest = middle.height + line.log_rates[0] - settings.TAIL_DEPTH
    known, heights = [middle.flat], []
    for distance, value, log_rate in zip(
        _distances(), line.values[1:], line.log_rates[1:], strict=True
    ):
        if potential.data_passes > most:
            break
        start = _next_point(potential, known, line, value)
        # Near the center a tail this low holds too little to matter; farther out a slow tail is as
        # low, and is followed.
        is_near = distance <= settings.TAIL_DISTANCES[0] * 1.001
        least = lowest - log_rate if is_near else -np.inf
        here = None if start is None else _profile(potential, start, line.number, least)
        if here is None:
            break
        known.append(here.flat)
        if np.isclose(distance, settings.RIDGE_SDS, rtol=1e-3).any():
            heights.append(here.height + log_rate)
    return heights


def _next_point(
    potential: HostPotential, known: list[np.ndarray], line: Track, value: float
) -> Point | None:
    """Return the next point of a ridge, as far as it is known: the lowest of three extrapolations,
    by the same numbers, a line and powers of the distance; None if no potential is finite.

    Args:
        potential: the potential.
        known: places on the ridge so far, shape (d,) each.
        line: the coordinate.
        value: its value at the next place.
    """
    k, here = line.number, known[-1]
    guesses = [here]
    if len(known) < 3:
        guesses.append(here + line.follow * (value - here[k]))
    else:
        before = known[-2]
        guesses.append(here + (here - before) * (value - here[k]) / (here[k] - before[k]))
        # A coordinate that is a power of the distance grows by a power of the ratio of distances.
        far, last, first = (abs(x - line.values[0]) for x in (value, here[k], before[k]))
        with np.errstate(all="ignore"):
            power = np.log(far / last) / np.log(last / first)
            guesses.append(np.where(here * before > 0, here * (here / before) ** power, here))
    points = []
    for guess in guesses:
        flat = np.array(guess)
        flat[k] = value
        point = potential.at(flat, may_be_rejected=True) if np.isfinite(flat).all() else None
        if point is not None and point.is_finite():
            points.append(point)
    return min(points, key=lambda point: point.value, default=None)


def _profile(potential: HostPotential, point: Point, k: int, least: float) -> Profile | None:
    """Return the highest density with coordinate k fixed, by Newton's method; None if it is not
    found, or if the logarithm of the marginal density is below `least`.
    """
    for _ in range(30):
        if not point.is_finite():
            return None
        step, decrease, log_determinant = _newton_step(potential, point, k)
        # A rise of the log density that may be left; by hand.
        if decrease <= 1e-4:
            height = -point.value - log_determinant / 2
            is_known = np.isfinite(log_determinant) and height >= least
            return Profile(point.flat, float(height)) if is_known else None
        # The step is halved until the potential falls.
        for halvings in range(12):
            lower = potential.at(point.flat + 0.5**halvings * step, may_be_rejected=True)
            if lower.is_finite() and lower.value < point.value:
                break
        else:
            return None
        point = lower
    return None


def _newton_step(potential: HostPotential, point: Point, k: int) -> tuple[np.ndarray, float, float]:
    """Return the step of Newton's method with coordinate k fixed, shape (d,), by how much a
    quadratic falls with it, and the log determinant of the others' Hessian; infinite if that is not
    positive definite, and then the step is along its eigenvectors all the same.
    """
    others = np.arange(len(point.flat)) != k
    gradient = point.gradient[others]
    matrix = potential.hessian(point) if point.hessian is None else point.hessian
    hessian = matrix[np.ix_(others, others)]
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(hessian)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(hessian * np.outer(scale, scale))
    sizes = np.maximum(np.abs(values), limits.FLOAT64_ROUNDING * np.abs(values).max())
    along = vectors.T @ (gradient * scale)
    step = np.zeros(len(point.flat))
    step[others] = -scale * (vectors @ (along / sizes))
    is_convex = values[0] > limits.FLOAT64_ROUNDING * values[-1]
    log_determinant = np.sum(np.log(sizes)) - 2 * np.sum(np.log(scale)) if is_convex else np.inf
    return step, float(np.sum(along**2 / sizes) / 2), float(log_determinant)
