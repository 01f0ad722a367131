"""The noise that batches make: estimates of the gradient on drawn batches, at points around the mode."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax import _tree
from ewsg_jax._types import Array, Data, Position, PyTree
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.forecasting.step import at
from ewsg_jax.gradients._svrg import SVRG, SVRGMemory
from ewsg_jax.gradients.protocol import Estimate, GradientEstimator, OfRows
from ewsg_jax.rows.gathering import num_rows

ROWS_AT_ONCE = 256
"""Rows whose gradients are worked out together: batches larger than that one by one, as in a step."""


class Weighing(NamedTuple):
    """How exponential weights choose among batches.

    Attributes:
        chain_length: M, infinite for exact weights.
        frozen_noise: x, by name or as a tree.
    """

    chain_length: float
    frozen_noise: str | PyTree


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


@functools.partial(jax.jit, static_argnames=("count", "frozen_name"))
def estimates(
    dynamics: Dynamics,
    estimator: GradientEstimator,
    state: Any,
    points: Array,
    anchors: Array | None,
    covariance: PyTree,
    frozen_noise: PyTree,
    frozen_name: str | None,
    count: int | None,
    data: Data,
) -> tuple[Array, Array]:
    """Return estimates on drawn batches, shape (points, count, d), and their log weights, (points, count).

    Args:
        dynamics: which says where the gradient is wanted, and weighs.
        estimator: what is estimated by.
        state: at the mode, at rest.
        points: z, shape (points, m).
        anchors: for SVRG, the positions of its anchors less the mode, shape (points, d); else None.
        covariance: what estimates report.
        frozen_noise: x of the weights, where it is a tree.
        frozen_name: its name; both None for no weights.
        count: batches of a point; None: all that there are.
        data: the rows.
    """
    flat, unravel = ravel_pytree(state.position)
    memory = None if anchors is not None else estimator.init(jax.random.key(1), state.position, data)
    rows = estimator.evaluations(data).per_step
    frozen = frozen_name if frozen_name is not None else frozen_noise

    def of_point(each: tuple[Array, Array, Array | None]) -> tuple[Array, Array]:
        key, z, anchor = each
        here = at(state, z)
        kept = memory
        if anchor is not None:
            kept = anchored(estimator, unravel((flat + anchor).astype(flat.dtype)))
        if count is None:
            randomness = estimator.batches(data)
        else:
            randomness = jax.vmap(lambda k: estimator.draw(k, data))(jax.random.split(key, count))
        prepared = dynamics.prepare(here, estimator.prior_gradient, data)
        point = dynamics.wanted_at(here)

        def of_batch(drawn: PyTree) -> tuple[Array, Array]:
            estimate, _ = estimator.propose(drawn, kept, point, data, _no_weight)
            estimate = estimate._replace(covariance=covariance)
            weight = jnp.zeros(())
            if frozen is not None:
                weight = dynamics.weighed(prepared, estimate, frozen)
            return ravel_pytree(_tree.widened(estimate.gradient))[0], weight

        return jax.lax.map(of_batch, randomness, batch_size=max(1, ROWS_AT_ONCE // rows))

    keys = jax.random.split(jax.random.key(2), points.shape[0])
    return jax.lax.map(of_point, (keys, points, anchors))


def _no_weight(estimate: Estimate, frozen_noise: str | PyTree = "momentum") -> Array:
    return jnp.zeros(())


def anchored(estimator: GradientEstimator, anchor: Position) -> SVRGMemory:
    """Return the memory of SVRG with an anchor. Its full gradient is the same for all batches, and is left out."""
    assert isinstance(estimator, SVRG)
    zero = _tree.widened(_tree.zeros_like(anchor))
    return SVRGMemory(anchor, zero, (), estimator.law.init(jax.random.key(0)))


def noise_of(
    gradients: np.ndarray, log_weights: np.ndarray, points: np.ndarray, weighing: Weighing | None, drawn: bool
) -> Noise:
    """Return what estimates on batches at points say.

    Args:
        gradients: shape (points, count, d).
        log_weights: shape (points, count).
        points: z, shape (points, m), of mean 0.
        weighing: how they are chosen among, None: the first.
        drawn: whether the batches are some of many.
    """
    count, d = gradients.shape[1:]
    mean = gradients.mean(1, keepdims=True)
    # Of `count` batches the mean takes a part of the noise with it.
    lost = count / (count - 1) if drawn else 1.0
    if weighing is None:
        left = (gradients - mean).reshape(-1, d)
        return Noise(lost * left.T @ left / len(left), np.zeros(d), np.zeros((d, points.shape[1])))
    share = _shares(log_weights, weighing.chain_length, drawn)[..., None]
    chosen = np.sum(share * gradients, axis=1, keepdims=True)
    left = (np.sqrt(share) * (gradients - chosen)).reshape(-1, d)
    added = (chosen - mean)[:, 0]
    spread = points.T @ points
    force = np.linalg.lstsq(spread, points.T @ (added - added.mean(0)), rcond=None)[0].T
    return Noise(lost * left.T @ left / len(gradients), added.mean(0), force)


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
    """Return whether all batches of an estimator are few enough to look at each."""
    if not estimator.lists_batches or not isinstance(estimator, OfRows) or num_rows(data) > most:
        return False
    try:
        shapes = jax.eval_shape(estimator.batches, data)
    except ValueError:
        return False
    return jax.tree.leaves(shapes)[0].shape[0] <= most
