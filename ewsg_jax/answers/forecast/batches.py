"""The noise that batches make: gradient estimates on drawn batches, at points near the mode."""

import functools
from typing import NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.forecast.step import Weight
from ewsg_jax.base import pytrees
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

NUM_LAGS = 16
"""Distances in time that stand for all, of equal probability."""


def uniform_lags(period: int) -> np.ndarray:
    """Return how old anchors of SVRG are: all of 0 … K − 1, or the middles of equal parts."""
    if period <= NUM_LAGS:
        return np.arange(period)
    return np.floor((np.arange(NUM_LAGS) + 0.5) / NUM_LAGS * period).astype(int)


def geometric_lags(rate: float) -> np.ndarray:
    """Return those of SAGA, 1, 2, …, the middles of parts of equal probability."""
    if rate >= 1:
        return np.ones(1, int)
    middles = (np.arange(NUM_LAGS) + 0.5) / NUM_LAGS
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


def _unknown(estimator: Part, why: str) -> ValueError:
    return ValueError(
        "kernel must have an estimator whose noise is known (full, uniform, stratified, "
        "control_variate, svrg with option II, saga, covariance_tracking, kept_covariance, "
        "exponentially_weighted around one without a memory, or one of your own that has a "
        f"noise_model) for a forecast; got {why}: {made_by(estimator)}. Run it for some steps "
        "and check the draws instead"
    )


SURE = 2.0
"""Standard errors above which a shift is taken to be one."""
ROWS_AT_ONCE = 256
"""Rows whose gradients are worked out together; larger batches go one by one, as in a step."""
ROWS_FETCHED = 2**14
"""Rows that devices give each other at once, where each has some of them."""


class Noise(NamedTuple):
    """What batches add to the gradient at points z, in its coordinates.

    Attributes:
        covariance: of an estimate at a point, averaged over the points, shape (d, d).
        shift: the mean of what weights add to the gradient, shape (d,); 0 without weights.
        force: the same as a linear function of z, shape (d, m).
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
    """Return estimates of the gradient on drawn batches, shape (points, count, d); on all batches
    that there are where `count` is None.

    Points, and the anchors of SVRG, are less the mode, shape (points, d).
    """
    flat, unravel = ravel_pytree(position)
    memory = None if anchors is not None else estimator.init(jax.random.key(1), position, data)
    rows = estimator.evaluations(data).per_step

    def moved(shift: Array) -> Position:
        return unravel((flat + shift).astype(flat.dtype))

    def of_point(each: tuple[Array, Array, Array | None]) -> Array:
        key, shift, anchor = each
        point = moved(shift)
        kept = memory if anchor is None else anchored(estimator, moved(anchor))
        if count is None:
            randomness = estimator.batches(data)
        else:
            randomness = jax.vmap(lambda k: estimator.draw(k, data))(jax.random.split(key, count))

        def of_batch(drawn: PyTree) -> Array:
            estimate, _ = estimator.propose(drawn, kept, point, data, no_weight)
            return ravel_pytree(pytrees.widened(estimate.gradient))[0]

        return jax.lax.map(of_batch, randomness, batch_size=max(1, ROWS_AT_ONCE // rows))

    keys = jax.random.split(jax.random.key(2), points.shape[0])
    if not isinstance(data, Spread):
        return jax.lax.map(of_point, (keys, points, anchors))
    together = max(1, ROWS_FETCHED // (rows * (count or num_rows(data))))
    return jax.lax.map(of_point, (keys, points, anchors), batch_size=together)


def anchored(estimator: GradientEstimator, anchor: Position) -> SVRGMemory:
    """Return the memory of SVRG with an anchor, without its full gradient: that of all batches."""
    assert isinstance(estimator, SVRG)
    zero = pytrees.widened(pytrees.zeros_like(anchor))
    return SVRGMemory(anchor, zero, ())


def noise_of(
    gradients: np.ndarray,
    points: np.ndarray,
    weight: Weight | None,
    chain_length: float | None,
    slope: np.ndarray,
    drawn: bool,
) -> Noise:
    """Return what estimates (points, count, d) on batches say, at z (points, m) of mean 0.

    To first order in their noise weights add S ∂ℓ/∂g to the mean gradient, with ℓ the log weight at
    the mean gradient: a force whose direction is known, and whose size is fitted to what the index
    chain of that length does. The mean gradient is `slope` z, with `slope` of shape (d, m); `drawn`
    says that the batches are some of many.
    """
    count, d = gradients.shape[1:]
    mean = gradients.mean(1, keepdims=True)
    # Of `count` batches the mean takes a part of the noise with it.
    lost = count / (count - 1) if drawn else 1.0
    off = gradients - mean
    if weight is None or chain_length is None:
        left = off.reshape(-1, d)
        return Noise(lost * left.T @ left / len(left), np.zeros(d), np.zeros((d, points.shape[1])))
    share = _shares(weight.of(gradients, points), chain_length, drawn)[..., None]
    chosen = np.sum(share * gradients, axis=1, keepdims=True)
    left = (np.sqrt(share) * (gradients - chosen)).reshape(-1, d)
    added = (chosen - mean)[:, 0]
    rise = points @ (weight.mixed + weight.square @ slope).T + weight.linear
    foretold = lost * np.einsum("pcd,pc->pd", off, np.einsum("pcd,pd->pc", off, rise)) / count
    first = np.linalg.lstsq(points, foretold - foretold.mean(0), rcond=None)[0].T
    foretold = points @ first.T
    squares = float(np.sum(foretold**2))
    size = np.sum(foretold * added) / squares if squares > 0 else 1.0
    # What may as well be chance is left out.
    error = np.std(added - size * foretold, axis=0) / np.sqrt(len(points))
    shift = added.mean(0)
    shift = np.where(np.abs(shift) > SURE * error, shift, 0.0)
    return Noise(lost * left.T @ left / len(gradients), shift, size * first)


def _shares(log_weights: np.ndarray, length: float, drawn: bool) -> np.ndarray:
    """Return how probable each batch is after the index chain, shape (points, count)."""
    count = log_weights.shape[1]
    if not np.isfinite(length):
        share = np.exp(log_weights - log_weights.max(1, keepdims=True))
        return share / share.sum(1, keepdims=True)
    with np.errstate(over="ignore"):
        accepted = np.minimum(1.0, np.exp(log_weights[:, None, :] - log_weights[:, :, None]))
    # Of many batches none is proposed twice.
    moves = accepted * (1 - np.eye(count)) / (count - 1 if drawn else count)
    moves += np.eye(count) * (1 - moves.sum(2, keepdims=True))
    share = np.full((len(log_weights), 1, count), 1 / count)
    for _ in range(int(length)):
        share = share @ moves
    return share[:, 0]


def num_listed(estimator: GradientEstimator, data: Data, most: float) -> int:
    """Return how many batches of an estimator there are; 0 where these are too many to evaluate
    each.
    """
    if not isinstance(estimator, OfRows) or not lists_batches(estimator) or num_rows(data) > most:
        return 0
    try:
        shapes = jax.eval_shape(estimator.batches, data)
    except ValueError:
        return 0
    count = jax.tree.leaves(shapes)[0].shape[0]
    return count if count <= most else 0
