"""Which estimators have a forecast, and what of their noise it rests on."""

from typing import Any, NamedTuple

from ewsg_jax._types import Data, PyTree
from ewsg_jax.forecasting.anchors import Lags, geometric_lags, uniform_lags
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
from ewsg_jax.rows.gathering import num_rows


class Known(NamedTuple):
    """What batches of an estimator are drawn by.

    Attributes:
        estimator: whose estimates have the same noise, at anchors where there are lags; None for no noise.
        by: in words.
        lags: how old anchors are.
        chain_length: of the index chain that chooses among batches, None for no weights.
        frozen_noise: x of the weights, by name or as a tree.
        structure: of the covariance that is reported.
    """

    estimator: GradientEstimator | None
    by: str
    lags: Lags | None = None
    chain_length: float | None = None
    frozen_noise: str | PyTree | None = None
    structure: Structure = "dense"


def known(estimator: GradientEstimator, data: Data) -> Known:
    """Return what is known of an estimator.

    Raises:
        ValueError: nothing is.
    """
    if isinstance(estimator, ExponentiallyWeighted):
        if estimator.carries_index:
            raise _unknown(estimator, "carry_index=True, whose batches depend on each other")
        inner = known(estimator.estimator, data)
        if inner.lags is not None:
            raise _unknown(estimator, "exponential weights around a memory")
        by = "the index chain on batches drawn around the mode"
        return inner._replace(by=by, chain_length=estimator.chain_length, frozen_noise=estimator.frozen_noise)
    if isinstance(estimator, Full):
        return Known(None, "the step alone: there are no batches")
    if isinstance(estimator, OfRows) and estimator.law.has_memory:
        raise _unknown(estimator, f"{estimator.law.name}, whose batches depend on each other")
    drawn = "batches drawn around the mode"
    if isinstance(estimator, SVRG):
        if estimator.restarts:
            raise _unknown(estimator, "option='I', which restarts chains")
        return Known(estimator, f"{drawn}, at anchors as old as SVRG's", uniform_lags(estimator.period(data)))
    if isinstance(estimator, SAGA):
        if estimator.law.has_weights:
            raise _unknown(estimator, "a table whose rows are seen at unlike rates")
        n, b = num_rows(data), estimator.batch_size
        rate = b / n if estimator.law.distinct else 1 - (1 - 1 / n) ** b
        like = SVRG(posterior=estimator.posterior, law=estimator.law)
        return Known(like, f"{drawn}, at anchors as old as SAGA's", geometric_lags(rate))
    if isinstance(estimator, WithCovariance):
        like = Uniform(posterior=estimator.posterior, law=estimator.law)
        told = f"{drawn}, the covariance taken to be exact at every step"
        return Known(like, told, structure=estimator.structure)
    if isinstance(estimator, Uniform | ControlVariate | Stratified):
        return Known(estimator, drawn)
    raise _unknown(estimator, "an estimator that it does not know")


def _unknown(estimator: Any, why: str) -> ValueError:
    return ValueError(
        "kernel must have an estimator whose noise is known (full, uniform, stratified, control_variate, svrg with "
        "option II, saga, covariance_tracking, kept_covariance, or exponentially_weighted around one without a "
        f"memory) for a forecast; got {why}: {type(estimator).__name__}. Run it for some steps instead"
    )
