"""The noise that batches make: gradient estimates on drawn batches, at points near the mode."""

import functools
from typing import NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax import _tree
from ewsg_jax._types import Array, Data, Position, PyTree
from ewsg_jax.compiling import QUICK
from ewsg_jax.forecasting.step import Weight
from ewsg_jax.gradients._svrg import SVRG, SVRGMemory
from ewsg_jax.gradients.protocol import GradientEstimator, OfRows, no_weight
from ewsg_jax.rows.law import lists_batches
from ewsg_jax.rows.spread import Spread
from ewsg_jax.rows.view import num_rows

SURE = 2.0
"""Standard errors above which a shift is taken to be one."""
ROWS_AT_ONCE = 256
"""Rows whose gradients are worked out together; larger batches go one by one, as in a step."""
ROWS_FETCHED = 2**14
"""Rows that devices give each other at once, where each has some of them."""


class Weighing(NamedTuple):
    """How exponential weights choose among batches.

    Attributes:
        chain_length: M, infinite for full weights.
        weight: the log weight.
    """

    chain_length: float
    weight: Weight


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
    """Return estimates of the gradient on drawn batches, shape (points, count, d).

    Args:
        estimator: what is estimated by.
        position: the mode.
        points: where, less the mode, shape (points, d).
        anchors: for SVRG, its anchors less the mode, shape (points, d); else None.
        count: batches of a point; None: all that there are.
        data: the rows.
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
            return ravel_pytree(_tree.widened(estimate.gradient))[0]

        return jax.lax.map(of_batch, randomness, batch_size=max(1, ROWS_AT_ONCE // rows))

    keys = jax.random.split(jax.random.key(2), points.shape[0])
    if not isinstance(data, Spread):
        return jax.lax.map(of_point, (keys, points, anchors))
    together = max(1, ROWS_FETCHED // (rows * (count or num_rows(data))))
    return jax.lax.map(of_point, (keys, points, anchors), batch_size=together)


def differences(
    estimator: GradientEstimator, position: Position, points: Array, data: Data
) -> np.ndarray:
    """Return how two drawn batches differ at points, (points, d): half the square is one's noise.

    Args:
        estimator: what is estimated by.
        position: the mode.
        points: where, less the mode, shape (points, d).
        data: the rows.
    """
    found = np.asarray(estimates(estimator, position, points, None, 2, data))
    return found[:, 0] - found[:, 1]


def anchored(estimator: GradientEstimator, anchor: Position) -> SVRGMemory:
    """Return the memory of SVRG with an anchor, without its full gradient: that of all batches."""
    assert isinstance(estimator, SVRG)
    zero = _tree.widened(_tree.zeros_like(anchor))
    return SVRGMemory(anchor, zero, ())


def noise_of(
    gradients: np.ndarray,
    points: np.ndarray,
    weighing: Weighing | None,
    slope: np.ndarray,
    drawn: bool,
) -> Noise:
    """Return what estimates on batches at points say.

    To first order in their noise weights add S ∂ℓ/∂g to the mean gradient, with ℓ the log weight at
    the mean gradient: a force whose direction is known, and whose size is fitted to what the index
    chain does.

    Args:
        gradients: shape (points, count, d).
        points: z, shape (points, m), of mean 0.
        weighing: how they are chosen among, None: the first.
        slope: the mean gradient as a linear function of z, shape (d, m).
        drawn: whether the batches are some of many.
    """
    count, d = gradients.shape[1:]
    mean = gradients.mean(1, keepdims=True)
    # Of `count` batches the mean takes a part of the noise with it.
    lost = count / (count - 1) if drawn else 1.0
    off = gradients - mean
    if weighing is None:
        left = off.reshape(-1, d)
        return Noise(lost * left.T @ left / len(left), np.zeros(d), np.zeros((d, points.shape[1])))
    share = _shares(weighing.weight.of(gradients, points), weighing.chain_length, drawn)[..., None]
    chosen = np.sum(share * gradients, axis=1, keepdims=True)
    left = (np.sqrt(share) * (gradients - chosen)).reshape(-1, d)
    added = (chosen - mean)[:, 0]
    weight = weighing.weight
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


def can_list(estimator: GradientEstimator, data: Data, most: int) -> bool:
    """Return whether all batches of an estimator are few enough to evaluate each."""
    if not isinstance(estimator, OfRows) or not lists_batches(estimator) or num_rows(data) > most:
        return False
    try:
        shapes = jax.eval_shape(estimator.batches, data)
    except ValueError:
        return False
    return jax.tree.leaves(shapes)[0].shape[0] <= most
