"""The steepest curvature that chains meet, which may be far from the mode's: no step is stable
above its bound.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import products
from ewsg_jax._types import Array, Data
from ewsg_jax.checking.brascamp_lieb import prior_curvatures
from ewsg_jax.dynamics.mass import Mass
from ewsg_jax.factors import LowRank
from ewsg_jax.forecasting import stability
from ewsg_jax.linear import LinearPredictor
from ewsg_jax.planning.frame import Frame
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import differences
from ewsg_jax.preparation.programs import Of
from ewsg_jax.rows.view import CHUNK_SIZE, view

NUM_DENSE, NUM_PLACES = 128, 32
"""Places at which each row's own curvature is evaluated, or that of the whole."""
AT_ONCE = 8
"""Places that are evaluated together."""
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
    anywhere there.

    Args:
        posterior: of which.
        frame: its coordinates.
        places: positions less the center, shape (places, d).
        data: the rows.
    """
    places = places[:: max(1, len(places) // NUM_DENSE)]
    predictor, leaves = posterior.predictor, jax.tree.leaves(frame.center)
    if (
        predictor is not None
        and leaves[0].ndim == 1
        and not isinstance(frame.inverse_mass, LowRank)
    ):
        return _of_rows(posterior, predictor, frame, places, data)
    of = Of(posterior, frame.layout, CHUNK_SIZE, False)
    mass = Mass(given=frame.inverse_mass, factor=frame.factor)
    few = places[:: max(1, len(places) // NUM_PLACES)][:NUM_PLACES]
    groups = [few[k : k + AT_ONCE] for k in range(0, len(few), AT_ONCE)]
    return Wall(
        max(stability.largest_curvature(of, mass, frame.center, group, data) for group in groups),
        (),
    )


def _of_rows(
    posterior: Posterior, predictor: LinearPredictor, frame: Frame, places: np.ndarray, data: Data
) -> Wall:
    (center,) = jax.tree.leaves(frame.center)
    rows = np.asarray(
        _largest(predictor, center, places, data, np.ones((), places.dtype)), np.float64
    )
    whole = (
        rows + np.asarray(prior_curvatures(posterior, frame.layout, center[None]), np.float64)[0]
    )
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

        bend = differences.slopes(residual, predictors, jnp.full_like(predictors, one))
        return jnp.maximum(steepest, jnp.max(-bend, axis=1)), None

    # Some places together: rows are read once for all of them.
    count = -(-len(places) // AT_ONCE)
    some = jnp.resize(places, (count, AT_ONCE, places.shape[1]))
    none = jnp.zeros(inputs.shape[0], jnp.result_type(inputs, center))
    weights, _ = jax.lax.scan(of_some, none, some)
    return products.matmul(inputs.T, view(given).only_counted(weights[:, None] * inputs))
