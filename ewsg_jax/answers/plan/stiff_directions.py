"""The largest curvature that chains meet, which may be far from the mode's: a step size is stable
only below the bound that it sets.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.forecast import stability
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.whitening import Whitening
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
from ewsg_jax.vectors.some_rows import VECTORISED_POSITIONS


class StiffDirection(NamedTuple):
    """The direction of the largest curvature.

    Attributes:
        curvature: in coordinates in which the posterior has sd 1.
        coordinates: the numbers of the coordinates along which it is large; empty if these are not
            known.
    """

    curvature: float
    coordinates: tuple[int, ...] = ()


def stiffest_direction(
    posterior: Posterior, whitening: Whitening, places: np.ndarray, data: Data
) -> StiffDirection:
    """Return the direction of the largest curvature over some positions.

    A model with one linear predictor for each row has an upper bound: each row has the largest
    curvature that it has anywhere between these positions, or within two sds of the center. Chains
    may stay on one side of a steep edge that few rows make.

    Args:
        posterior: the target.
        whitening: coordinates in which it is taken to be N(0, I).
        places: positions less the center, shape (places, d).
        data: all n rows.
    """
    predictor, leaves = posterior.predictor, jax.tree.leaves(whitening.center)
    if (
        predictor is not None
        and leaves[0].ndim == 1
        and not isinstance(whitening.inverse_mass, LowRank)
    ):
        count = settings.NUM_ROW_CURVATURE_PLACES
        few = places[:: max(1, len(places) // count)]
        around = whitening.draw_places(jax.random.key(3), count, settings.STIFF_WIDTH)
        return _bound_by_rows(posterior, predictor, whitening, np.concatenate([few, around]), data)
    potential = PotentialSpec(posterior, whitening.layout, CHUNK_SIZE, False)
    mass = Mass(given=whitening.inverse_mass, factor=whitening.factor)
    count, together = settings.NUM_CURVATURE_PLACES, VECTORISED_POSITIONS
    few = places[:: max(1, len(places) // count)][:count]
    groups = [few[k : k + together] for k in range(0, len(few), together)]
    largest = [
        stability.largest_curvature(potential, mass, whitening.center, group, data)
        for group in groups
    ]
    return StiffDirection(max(largest))


def stiffest_within_a_step(
    posterior: Posterior,
    whitening: Whitening,
    places: np.ndarray,
    data: Data,
    stiffest: StiffDirection,
) -> StiffDirection:
    """Return the direction that limits the step size if a step leads to higher curvature.

    Few draws are at an edge whose curvature rises within one step: chains step past its beginning
    and are thrown far back, in so few steps that no short run shows it. A step size is
    safe if it is stable at the positions that a step leads to.

    Args:
        posterior: the target.
        whitening: coordinates in which it is taken to be N(0, I).
        places: positions less the center, those of the largest gradients, shape (places, d).
        data: all n rows.
        stiffest: the largest curvature at these positions.
    """
    count = settings.NUM_CURVATURE_PLACES
    few = places[np.arange(count) % len(places)]
    moves = whitening.draw_places(jax.random.key(5), count, settings.STIFF_WIDTH)
    for _ in range(6):
        step = 2 * settings.STABLE_STEP_SHARE / max(stiffest.curvature, 1.0) ** 0.5
        reached = few + np.float32(step) * moves
        curvature = stiffest_direction(posterior, whitening, reached, data).curvature
        if curvature <= settings.STEEPER_RATIO * stiffest.curvature:
            break
        # A shorter step leads less far up the edge, so the curvature that limits it is between the
        # two. NaN counts as the largest ratio.
        # An overflow shows that a step is too long, not by how much.
        ratio = min(100.0, curvature / stiffest.curvature)
        stiffest = stiffest._replace(curvature=stiffest.curvature * ratio**0.5)
    return stiffest


def _bound_by_rows(
    posterior: Posterior,
    predictor: LinearPredictor,
    whitening: Whitening,
    places: np.ndarray,
    data: Data,
) -> StiffDirection:
    """Return the stiffest direction of the sum of all rows' largest curvatures and the prior's."""
    (center,) = jax.tree.leaves(whitening.center)
    likelihood = np.asarray(
        _row_bound(predictor, center, places, data, np.ones((), places.dtype)), np.float64
    )
    _, prior = prior_derivatives(posterior, whitening.layout, center[None])
    hessian = likelihood + np.asarray(prior, np.float64)[0]
    root = np.linalg.cholesky(np.asarray(whitening.inverse_mass, np.float64))
    values, vectors = np.linalg.eigh(root.T @ hessian @ root)
    is_stiff = values > settings.STIFF_CURVATURE
    correlations = np.abs(root @ vectors[:, is_stiff]) / whitening.sd[:, None]
    named = np.flatnonzero(correlations.max(1, initial=0.0) > settings.STIFF_CORRELATION)
    return StiffDirection(float(values[-1]), tuple(named.tolist()))


@functools.partial(jax.jit, static_argnums=0)
def _row_bound(
    predictor: LinearPredictor, center: Array, places: Array | np.ndarray, data: Data, one: Array
) -> Array:
    """Return Σᵢ wᵢ xᵢxᵢᵀ: wᵢ is the largest −∂²log p of row i over the positions.

    `one` is 1.0, an argument so that XLA does not work out n numbers while it compiles, if the
    curvature is constant.
    """
    rows = view(data)
    return rows.sum(
        lambda part: _row_bound_of_part(predictor, center, places, part, one), rows.length
    )


def _row_bound_of_part(
    predictor: LinearPredictor, center: Array, places: Array | np.ndarray, part: Data, one: Array
) -> Array:
    """Return the same sum over a part of the rows."""
    data = view(part).tree
    inputs = jax.vmap(predictor.inputs)(data)

    def of_group(largest: Array, group: Array) -> tuple[Array, None]:
        predictors = products.matmul(inputs, (center[None] + group).T)

        def residual(x: Array) -> Array:
            return jax.vmap(predictor.residual, in_axes=(1, None), out_axes=1)(x, data)

        second = differences.elementwise_derivative(
            residual, predictors, jnp.full_like(predictors, one)
        )
        return jnp.maximum(largest, jnp.max(-second, axis=1)), None

    # Positions in groups: rows are read once for all of a group.
    count = -(-len(places) // VECTORISED_POSITIONS)
    groups = jnp.resize(places, (count, VECTORISED_POSITIONS, places.shape[1]))
    zeros = jnp.zeros(inputs.shape[0], jnp.result_type(inputs, center))
    weights, _ = jax.lax.scan(of_group, zeros, groups)
    weights = jnp.maximum(weights, _steepest_between(predictor, data, inputs, center, groups))
    return products.matmul(inputs.T, view(part).only_counted(weights[:, None] * inputs))


def _steepest_between(
    predictor: LinearPredictor, data: Data, inputs: Array, center: Array, groups: Array
) -> Array:
    """Return −∂²log p of each row at the point between its least and its largest predictor at which
    its gradient changes most, shape (rows,).

    It is found by bisection: a steep edge may be narrower than the positions are apart.
    """

    def residual(x: Array) -> Array:
        return predictor.residual(x, data)

    def widened(carry: tuple[Array, Array], group: Array) -> tuple[tuple[Array, Array], None]:
        predictors = products.matmul(inputs, (center[None] + group).T)
        low, high = carry
        return (jnp.minimum(low, predictors.min(1)), jnp.maximum(high, predictors.max(1))), None

    infinite = jnp.full(inputs.shape[0], jnp.inf, jnp.result_type(inputs, center))
    (low, high), _ = jax.lax.scan(widened, (infinite, -infinite), groups)

    def halved(ends: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        low, high = ends
        middle = (low + high) / 2
        at_middle = residual(middle)
        is_below = jnp.abs(at_middle - residual(low)) > jnp.abs(residual(high) - at_middle)
        return (jnp.where(is_below, low, middle), jnp.where(is_below, middle, high)), None

    # To 1.5e-5 of the interval of predictors.
    (low, high), _ = jax.lax.scan(halved, (low, high), None, length=16)
    return -differences.elementwise_derivative(residual, (low + high) / 2, jnp.ones_like(low))
