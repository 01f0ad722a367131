"""The steepest curvature that chains meet, which may be far from the mode's: no step is stable
above its bound.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.forecast import stability
from ewsg_jax.answers.plan.scheme_errors import STABLE
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base import products
from ewsg_jax.base.factors import LowRank
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.dynamics._mass import Mass
from ewsg_jax.model_checks.prior_derivatives import prior_derivatives
from ewsg_jax.posterior.linear import LinearPredictor
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import CHUNK_SIZE, view
from ewsg_jax.vectors import differences
from ewsg_jax.vectors.potential import PotentialSpec

NUM_DENSE, NUM_PLACES = 64, 32
"""Places at which each row's own curvature is evaluated, and as many around the center; or that of
the whole.
"""
WIDE = 2.0
"""Widths of the posterior at which walls are looked for."""
HALVINGS = 16
"""Of a row's predictors, where its slope changes most."""
AT_ONCE = 8
"""Places that are evaluated together."""
AHEAD, MOST_LOOKS = 32, 6
"""Places that a step leads to, and how often, each time for a shorter step."""
RISES, MOST_RISE = 1.5, 100.0
"""How much steeper they may be, and how much steeper is much: beyond, a number may overflow."""
STEEP, ALONG = 4.0, 0.5
"""The curvature from which a direction is a wall, and the correlation with it from which a
coordinate is named.
"""


class Wall(NamedTuple):
    """The steepest place.

    Attributes:
        curvature: in coordinates in which the posterior is of width 1.
        coordinates: the numbers of those along which it is steep; none where these are not known.
    """

    curvature: float
    coordinates: tuple[int, ...]


def steepest(posterior: Posterior, frame: Frame, places: np.ndarray, data: Data) -> Wall:
    """Return the largest curvature over some places.

    Of a model of linear predictors, one for each row, an upper bound: each row is as steep as it is
    anywhere there, or two widths around the center, for chains may stay on one side of a wall that
    few rows make.

    Args:
        posterior: of which.
        frame: its coordinates.
        places: positions less the center, shape (places, d).
        data: the rows.
    """
    predictor, leaves = posterior.predictor, jax.tree.leaves(frame.center)
    if (
        predictor is not None
        and leaves[0].ndim == 1
        and not isinstance(frame.inverse_mass, LowRank)
    ):
        few = places[:: max(1, len(places) // NUM_DENSE)]
        around = frame.places(jax.random.key(3), NUM_DENSE, WIDE)
        return _of_rows(posterior, predictor, frame, np.concatenate([few, around]), data)
    of = PotentialSpec(posterior, frame.layout, CHUNK_SIZE, False)
    mass = Mass(given=frame.inverse_mass, factor=frame.factor)
    few = places[:: max(1, len(places) // NUM_PLACES)][:NUM_PLACES]
    groups = [few[k : k + AT_ONCE] for k in range(0, len(few), AT_ONCE)]
    return Wall(
        max(stability.largest_curvature(of, mass, frame.center, group, data) for group in groups),
        (),
    )


def led_into(
    posterior: Posterior, frame: Frame, places: np.ndarray, data: Data, wall: Wall
) -> Wall:
    """Return the wall that bounds the step where a step leads into a steeper one.

    Draws seldom lie on a wall that rises within a step: chains jump over its foot, and are thrown
    far back, in so few steps that no short run shows it. A step is safe where the places that it
    leads to are as steep as it allows.

    Args:
        posterior: of which.
        frame: its coordinates.
        places: the steepest of the draws, less the center, shape (places, d).
        data: the rows.
        wall: at these places.
    """
    few = places[np.arange(AHEAD) % len(places)]
    moves = frame.places(jax.random.key(5), AHEAD, WIDE)
    for _ in range(MOST_LOOKS):
        length = 2 * STABLE / max(wall.curvature, 1.0) ** 0.5
        ahead = steepest(posterior, frame, few + np.float32(length) * moves, data).curvature
        if ahead <= RISES * wall.curvature:
            break
        # A shorter step leads less far up: the wall that bounds it is between the two. What is not
        # a number is as steep as can be.
        rise = min(MOST_RISE, ahead / wall.curvature)
        wall = wall._replace(curvature=wall.curvature * rise**0.5)
    return wall


def _of_rows(
    posterior: Posterior, predictor: LinearPredictor, frame: Frame, places: np.ndarray, data: Data
) -> Wall:
    (center,) = jax.tree.leaves(frame.center)
    rows = np.asarray(
        _largest(predictor, center, places, data, np.ones((), places.dtype)), np.float64
    )
    _, of_prior = prior_derivatives(posterior, frame.layout, center[None])
    whole = rows + np.asarray(of_prior, np.float64)[0]
    root = np.linalg.cholesky(np.asarray(frame.inverse_mass, np.float64))
    values, vectors = np.linalg.eigh(root.T @ whole @ root)
    correlations = np.abs(root @ vectors[:, values > STEEP]) / frame.sd[:, None]
    named = np.flatnonzero(correlations.max(1, initial=0.0) > ALONG)
    return Wall(float(values[-1]), tuple(named.tolist()))


@functools.partial(jax.jit, static_argnums=0)
def _largest(
    predictor: LinearPredictor, center: Array, places: Array | np.ndarray, data: Data, one: Array
) -> Array:
    """Return Σᵢ wᵢ xᵢxᵢᵀ, wᵢ the largest −∂²log p over the places.

    The one is an argument: of a curvature that is constant XLA would work out n numbers while it
    compiles.
    """
    rows = view(data)
    return rows.sum(lambda part: _largest_of(predictor, center, places, part, one), rows.length)


def _largest_of(
    predictor: LinearPredictor, center: Array, places: Array | np.ndarray, given: Data, one: Array
) -> Array:
    data = view(given).tree
    inputs = jax.vmap(predictor.inputs)(data)

    def of_some(steepest: Array, some: Array) -> tuple[Array, None]:
        predictors = products.matmul(inputs, (center + some).T)

        def residual(x: Array) -> Array:
            return jax.vmap(predictor.residual, in_axes=(1, None), out_axes=1)(x, data)

        ones = jnp.full_like(predictors, one)
        bend = differences.elementwise_derivative(residual, predictors, ones)
        return jnp.maximum(steepest, jnp.max(-bend, axis=1)), None

    # Some places together: rows are read once for all of them.
    count = -(-len(places) // AT_ONCE)
    some = jnp.resize(places, (count, AT_ONCE, places.shape[1]))
    none = jnp.zeros(inputs.shape[0], jnp.result_type(inputs, center))
    weights, _ = jax.lax.scan(of_some, none, some)
    weights = jnp.maximum(weights, _steepest_between(predictor, data, inputs, center, some))
    return products.matmul(inputs.T, view(given).only_counted(weights[:, None] * inputs))


def _steepest_between(
    predictor: LinearPredictor, data: Data, inputs: Array, center: Array, places: Array
) -> Array:
    """Return −∂²log p of each row where it changes most between the least and the largest of its
    predictors, shape (rows,): by halving, for a wall may be narrower than places are apart.
    """

    def residual(x: Array) -> Array:
        return predictor.residual(x, data)

    def widened(carry: tuple[Array, Array], some: Array) -> tuple[tuple[Array, Array], None]:
        predictors = products.matmul(inputs, (center + some).T)
        low, high = carry
        return (jnp.minimum(low, predictors.min(1)), jnp.maximum(high, predictors.max(1))), None

    far = jnp.full(inputs.shape[0], jnp.inf, jnp.result_type(inputs, center))
    (low, high), _ = jax.lax.scan(widened, (far, -far), places)

    def halved(ends: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        low, high = ends
        middle = (low + high) / 2
        at = residual(middle)
        is_below = jnp.abs(at - residual(low)) > jnp.abs(residual(high) - at)
        return (jnp.where(is_below, low, middle), jnp.where(is_below, middle, high)), None

    (low, high), _ = jax.lax.scan(halved, (low, high), None, length=HALVINGS)
    return -differences.elementwise_derivative(residual, (low + high) / 2, jnp.ones_like(low))
