"""The noise that batches make: gradient estimates on drawn batches, at points near the mode."""

import functools
from typing import NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.forecast.step import Weight
from ewsg_jax.base import pytrees
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.modules import Part, is_own, made_by
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.gradients._control_variate import ControlVariate
from ewsg_jax.gradients._covariance import Structure
from ewsg_jax.gradients._exponentially_weighted import ExponentiallyWeighted
from ewsg_jax.gradients._full import Full
from ewsg_jax.gradients._protocol import GradientEstimator, OfRows, no_weight
from ewsg_jax.gradients._saga import SAGA
from ewsg_jax.gradients._stratified import Stratified
from ewsg_jax.gradients._svrg import SVRG, SVRGMemory
from ewsg_jax.gradients._uniform import Uniform
from ewsg_jax.gradients._with_covariance import WithCovariance
from ewsg_jax.rows._named import name_of
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


class Known(NamedTuple):
    """What batches of an estimator are drawn by.

    Attributes:
        estimator: whose estimates have the same noise, at anchors where there are lags; None for no
            noise.
        by: in words.
        lags: how old anchors are, in steps; None without any.
        rate: of rows with anchors of their own, the probability that one is seen in a step; None
            where all rows have one anchor.
        chain_length: of the index chain that chooses among batches, None for no weights.
        frozen_noise: x of the weights, by name.
        structure: of the covariance that is reported.
    """

    estimator: GradientEstimator | None
    by: str
    lags: np.ndarray | None = None
    rate: float | None = None
    chain_length: float | None = None
    frozen_noise: str | None = None
    structure: Structure = "dense"


def known(estimator: GradientEstimator, data: Data) -> Known:
    """Return what is known of an estimator, or raise ValueError that nothing is."""
    # What weights choose from is what the wrapped estimator draws.
    if isinstance(estimator, ExponentiallyWeighted):
        if estimator.carry_index:
            raise _unknown(estimator, "carry_index=True, whose batches depend on each other")
        inner = known(estimator.estimator, data)
        if inner.lags is not None:
            raise _unknown(estimator, "exponential weights around a memory")
        by = "the index chain on batches drawn around the mode"
        return inner._replace(
            by=by, chain_length=estimator.chain_length, frozen_noise=estimator.frozen_noise
        )
    # Derived from the library's, it may estimate anything else.
    if is_own(type(estimator)) and not isinstance(estimator, WithCovariance):
        raise _unknown(estimator, "one of your own")
    if isinstance(estimator, Full):
        return Known(None, "the step alone: there are no batches")
    # Batches that depend on each other add noise that no single batch shows.
    if isinstance(estimator, OfRows) and estimator.law.ordered:
        raise _unknown(estimator, f"{name_of(estimator.law)}, whose batches depend on each other")
    drawn = "batches drawn around the mode"
    if isinstance(estimator, SVRG):
        if estimator.restarts:
            raise _unknown(estimator, "option='I', which restarts chains")
        return Known(
            estimator, f"{drawn}, at anchors as old as SVRG's", uniform_lags(estimator.period(data))
        )
    if isinstance(estimator, SAGA):
        if estimator.law.weighted:
            raise _unknown(estimator, "a table whose rows are seen at unlike rates")
        # A row is seen again after a geometric time, of the rate at which batches hold it.
        n, b = num_rows(data), estimator.batch_size
        rate = b / n if estimator.law.distinct else 1 - (1 - 1 / n) ** b
        like = SVRG(posterior=estimator.posterior, law=estimator.law)
        return Known(like, f"{drawn}, at anchors as old as SAGA's", geometric_lags(rate), rate)
    # The gradient is a uniform one; what is tracked changes friction, not its noise.
    if isinstance(estimator, WithCovariance):
        like = Uniform(posterior=estimator.posterior, law=estimator.law)
        told = f"{drawn}, the covariance taken to be exact at every step"
        return Known(like, told, structure=estimator.structure)
    if isinstance(estimator, Uniform | ControlVariate | Stratified):
        return Known(estimator, drawn)
    raise _unknown(estimator, "an estimator that it does not know")


def _unknown(estimator: Part, why: str) -> ValueError:
    return ValueError(
        "kernel must have an estimator whose noise is known (full, uniform, stratified, "
        "control_variate, svrg with option II, saga, covariance_tracking, kept_covariance, or "
        f"exponentially_weighted around one without a memory) for a forecast; got {why}: "
        f"{made_by(estimator)}. Run it for some steps instead"
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


def differences(
    estimator: GradientEstimator, position: Position, points: Array, data: Data
) -> np.ndarray:
    """Return how two drawn batches differ at points less the mode, (points, d): half the square is
    one's noise.
    """
    found = np.asarray(estimates(estimator, position, points, None, 2, data))
    return found[:, 0] - found[:, 1]


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
