"""Which estimators have a forecast, and what of their noise it rests on.

SVRG and SAGA remember gradients of rows at points of some steps ago. The noise of an estimate is
that of ∇Vᵢ(θ) − ∇Vᵢ(w), with θ and w the points of two steps of the stationary chain. Of SVRG their
distance in time is uniform on 0 … K − 1; of SAGA it differs from row to row, and is geometric.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax._module import Part, is_own, made_by
from ewsg_jax._types import Data
from ewsg_jax.gradients._control_variate import ControlVariate
from ewsg_jax.gradients._exponentially_weighted import ExponentiallyWeighted
from ewsg_jax.gradients._full import Full
from ewsg_jax.gradients._saga import SAGA
from ewsg_jax.gradients._stratified import Stratified
from ewsg_jax.gradients._svrg import SVRG
from ewsg_jax.gradients._uniform import Uniform
from ewsg_jax.gradients.covariance import Structure
from ewsg_jax.gradients.protocol import GradientEstimator, OfRows
from ewsg_jax.gradients.with_covariance import WithCovariance
from ewsg_jax.rows.named import name_of
from ewsg_jax.rows.view import num_rows

NUM_LAGS = 16
"""Distances in time that stand for all."""


class Lags(NamedTuple):
    """The law of the distance in time.

    Attributes:
        values: some of equal probability, whole numbers, shape (NUM_LAGS,) or fewer.
        rate: of SAGA, the probability that a row is seen in a step; None where all rows have one
            anchor.
    """

    values: np.ndarray
    rate: float | None = None


def uniform_lags(period: int) -> Lags:
    """Return those of SVRG: all of 0 … K − 1, or the middles of equal parts."""
    if period <= NUM_LAGS:
        return Lags(np.arange(period))
    return Lags(np.floor((np.arange(NUM_LAGS) + 0.5) / NUM_LAGS * period).astype(int))


def geometric_lags(rate: float) -> Lags:
    """Return those of SAGA, 1, 2, …, the middles of parts of equal probability."""
    if rate >= 1:
        return Lags(np.ones(1, int), rate)
    middles = (np.arange(NUM_LAGS) + 0.5) / NUM_LAGS
    return Lags(np.ceil(np.log1p(-middles) / np.log1p(-rate)).astype(int), rate)


class Known(NamedTuple):
    """What batches of an estimator are drawn by.

    Attributes:
        estimator: whose estimates have the same noise, at anchors where there are lags; None for no
            noise.
        by: in words.
        lags: how old anchors are.
        chain_length: of the index chain that chooses among batches, None for no weights.
        frozen_noise: x of the weights, by name.
        structure: of the covariance that is reported.
    """

    estimator: GradientEstimator | None
    by: str
    lags: Lags | None = None
    chain_length: float | None = None
    frozen_noise: str | None = None
    structure: Structure = "dense"


def known(estimator: GradientEstimator, data: Data) -> Known:
    """Return what is known of an estimator.

    Raises:
        ValueError: nothing is.
    """
    # What weights choose from is what the wrapped estimator draws.
    if isinstance(estimator, ExponentiallyWeighted):
        if estimator.carries_index:
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
        return Known(like, f"{drawn}, at anchors as old as SAGA's", geometric_lags(rate))
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
