"""The noise of batches: gradient estimates on drawn batches, at points near the mode."""

import functools
from typing import NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.forecast import settings
from ewsg_jax.answers.forecast.dynamics_step import QuadraticWeight
from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.modules import Part, made_by
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.gradients._protocol import (
    GradientEstimator,
    NoiseModel,
    OfRows,
    no_weight,
    noise_model_of,
)
from ewsg_jax.gradients._svrg import SVRG, SVRGMemory
from ewsg_jax.rows._scheme import lists_batches
from ewsg_jax.rows._spread import Spread
from ewsg_jax.rows._view import num_rows


def uniform_lags(period: int) -> np.ndarray:
    """Return ages of SVRG's anchors in steps: all of 0 … K − 1, or the middles of equal parts."""
    if period <= settings.ANCHOR_AGES:
        return np.arange(period)
    middles = (np.arange(settings.ANCHOR_AGES) + 0.5) / settings.ANCHOR_AGES
    return np.floor(middles * period).astype(int)


def geometric_lags(rate: float) -> np.ndarray:
    """Return ages of SAGA's anchors in steps: the middles of parts of equal probability."""
    if rate >= 1:
        return np.ones(1, int)
    middles = (np.arange(settings.ANCHOR_AGES) + 0.5) / settings.ANCHOR_AGES
    return np.ceil(np.log1p(-middles) / np.log1p(-rate)).astype(int)


def known(estimator: GradientEstimator, data: Data) -> NoiseModel:
    """Return the noise model of an estimator.

    Raises:
        ValueError: the noise is unknown.
    """
    model = noise_model_of(estimator, data)
    if model.unknown:
        raise _unknown(estimator, model.unknown)
    if model.anchor in ("refreshed", "table") and not isinstance(model.measured_on, SVRG):
        raise _unknown(
            estimator, "a noise_model with an anchor that moves, measured on no svrg estimator"
        )
    return model


def _unknown(estimator: Part, why: str) -> ValueError:
    return ValueError(
        "kernel must have an estimator whose noise is known (full, uniform, stratified, "
        "control_variate, svrg with option II, saga, covariance_tracking, kept_covariance, "
        "exponentially_weighted around one without a memory, or one of your own that has a "
        f"noise_model) for a forecast; got {why}: {made_by(estimator)}. Run it for some steps "
        "and check the draws instead"
    )


def anchor_ages(model: NoiseModel) -> np.ndarray | None:
    """Return ages of the anchors in steps, equally probable; None if no anchor moves."""
    if model.anchor == "refreshed":
        return uniform_lags(model.period)
    return geometric_lags(model.rate) if model.anchor == "table" else None


def source_of_noise(model: NoiseModel) -> str:
    """Return what a forecast knows the noise by, in words."""
    if model.measured_on is None:
        return "the step alone: there are no batches"
    if model.chain_length is not None:
        return "the index chain on batches drawn around the mode"
    drawn = "batches drawn around the mode"
    if model.structure is not None:
        return f"{drawn}, the covariance taken to be exact at every step"
    method = {"refreshed": "SVRG", "table": "SAGA"}.get(model.anchor)
    return drawn if method is None else f"{drawn}, at anchors as old as {method}'s"


class BatchNoise(NamedTuple):
    """What batches add to the gradient at points z, in the coordinates of these.

    Attributes:
        covariance: the covariance of an estimate at a point, averaged over the points, shape (d,
            d).
        shift: the mean of what weights add to the gradient, shape (d,); 0 without weights.
        force: what weights add, as a linear function of z, shape (d, m).
    """

    covariance: np.ndarray
    shift: np.ndarray
    force: np.ndarray


@functools.partial(jax.jit, static_argnames="count", compiler_options=QUICK)
def estimates(
    estimator: GradientEstimator,
    position: Position,
    points: Array,
    anchors: Array | None,
    count: int | None,
    data: Data,
) -> Array:
    """Return estimates of the gradient on batches, shape (points, count, d).

    Args:
        estimator: the estimator.
        position: the mode.
        points: points less the mode, shape (points, d).
        anchors: the anchors of SVRG less the mode, shape (points, d); None for no anchors.
        count: the number of batches drawn at each point; None for all batches that there are.
        data: the rows.
    """
    flat, unravel = ravel_pytree(position)
    memory = None if anchors is not None else estimator.init(jax.random.key(1), position, data)
    rows = estimator.evaluations(data).per_step

    def moved(shift: Array) -> Position:
        return unravel((flat + shift).astype(flat.dtype))

    def at_point(inputs: tuple[Array, Array, Array | None]) -> Array:
        key, shift, anchor = inputs
        point = moved(shift)
        kept = memory if anchor is None else anchored(estimator, moved(anchor))
        if count is None:
            randomness = estimator.batches(data)
        else:
            randomness = jax.vmap(lambda k: estimator.draw(k, data))(jax.random.split(key, count))

        def on_batch(drawn: PyTree) -> Array:
            estimate, _ = estimator.propose(drawn, kept, point, data, no_weight)
            return ravel_pytree(pytrees.widened(estimate.gradient))[0]

        together = max(1, limits.POSITIONS_AT_ONCE // rows)
        return jax.lax.map(on_batch, randomness, batch_size=together)

    keys = jax.random.split(jax.random.key(2), points.shape[0])
    if not isinstance(data, Spread):
        return jax.lax.map(at_point, (keys, points, anchors))
    # Devices give each other so many rows at once.
    together = max(1, 2**14 // (rows * (count or num_rows(data))))
    return jax.lax.map(at_point, (keys, points, anchors), batch_size=together)


def anchored(estimator: GradientEstimator, anchor: Position) -> SVRGMemory:
    """Return the memory of SVRG with an anchor, without its full gradient: all batches share it."""
    assert isinstance(estimator, SVRG)
    zero = pytrees.widened(pytrees.zeros_like(anchor))
    return SVRGMemory(anchor, zero, ())


def noise_of(
    gradients: np.ndarray,
    points: np.ndarray,
    weight: QuadraticWeight | None,
    chain_length: float | None,
    hessian: np.ndarray,
    drawn: bool,
) -> BatchNoise:
    """Return the noise that estimates on batches show.

    To first order in the noise S, weights add S ∂ℓ/∂g to the mean gradient, with ℓ the log weight
    at the mean gradient. The direction of that force is known; its size is fitted to what an index
    chain on these batches does.

    Args:
        gradients: estimates on batches, shape (points, count, d).
        points: z, of mean 0, shape (points, m).
        weight: the log weight; None without weights.
        chain_length: proposals of the index chain; None without weights.
        hessian: the matrix by which the mean gradient depends on z, shape (d, m).
        drawn: whether the batches are drawn, and so are few of many.
    """
    count, d = gradients.shape[1:]
    mean = gradients.mean(1, keepdims=True)
    errors = gradients - mean
    # The mean of few batches takes a part of the noise with it.
    correction = count / (count - 1) if drawn else 1.0
    if weight is None or chain_length is None:
        flat = errors.reshape(-1, d)
        no_force = np.zeros((d, points.shape[1]))
        return BatchNoise(correction * flat.T @ flat / len(flat), np.zeros(d), no_force)

    # The noise under weights is that of the batch at which the index chain ends.
    probabilities = _probabilities(weight.of(gradients, points), chain_length, drawn)[..., None]
    chosen = np.sum(probabilities * gradients, axis=1, keepdims=True)
    flat = (np.sqrt(probabilities) * (gradients - chosen)).reshape(-1, d)
    covariance = correction * flat.T @ flat / len(gradients)

    # The force to first order, S ∂ℓ/∂g at each point, and the linear function of z nearest to it.
    derivative = points @ (weight.mixed + weight.square @ hessian).T + weight.linear
    products = np.einsum("pcd,pd->pc", errors, derivative)
    predicted = correction * np.einsum("pcd,pc->pd", errors, products) / count
    first_order = np.linalg.lstsq(points, predicted - predicted.mean(0), rcond=None)[0].T

    # Its size is fitted to what the index chain adds to the mean gradient.
    added = (chosen - mean)[:, 0]
    predicted = points @ first_order.T
    squares = float(np.sum(predicted**2))
    size = np.sum(predicted * added) / squares if squares > 0 else 1.0

    # The mean of what is added is a shift. Below two standard errors, the usual 95 %, it may be
    # Monte Carlo error, and is set to 0.
    shift = added.mean(0)
    error = np.std(added - size * predicted, axis=0) / np.sqrt(len(points))
    shift = np.where(np.abs(shift) > 2.0 * error, shift, 0.0)
    return BatchNoise(covariance, shift, size * first_order)


def _probabilities(log_weights: np.ndarray, length: float, drawn: bool) -> np.ndarray:
    """Return the probability of each batch after the index chain, shape (points, count).

    Args:
        log_weights: log weights of the batches, shape (points, count).
        length: proposals of the index chain; infinite for full weights.
        drawn: whether the batches are drawn, and so are few of many.
    """
    count = log_weights.shape[1]
    if not np.isfinite(length):
        weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)
    # The matrix of a step of the chain, at each point: from a batch (row) to another (column) with
    # Metropolis' probability, or not at all.
    with np.errstate(over="ignore"):
        accepted = np.minimum(1.0, np.exp(log_weights[:, None, :] - log_weights[:, :, None]))
    # If batches are drawn, none of many is proposed twice.
    moves = accepted * (1 - np.eye(count)) / (count - 1 if drawn else count)
    moves += np.eye(count) * (1 - moves.sum(2, keepdims=True))
    # The chain starts at any batch, all equally probable.
    probabilities = np.full((len(log_weights), 1, count), 1 / count)
    for _ in range(int(length)):
        probabilities = probabilities @ moves
    return probabilities[:, 0]


def num_listed(estimator: GradientEstimator, data: Data, most: float) -> int:
    """Return the number of batches that an estimator can list; 0 if it can list none, or if there
    are more than `most`.
    """
    if not isinstance(estimator, OfRows) or not lists_batches(estimator) or num_rows(data) > most:
        return 0
    try:
        shapes = jax.eval_shape(estimator.batches, data)
    except ValueError:
        return 0
    count = jax.tree.leaves(shapes)[0].shape[0]
    return count if count <= most else 0
