"""Estimators of ∇V: which rows, what estimate, what memory.

full: ∇V itself.
uniform: from b rows.
stratified: from rows of every stratum.
svrg: by the difference to a snapshot.
saga: by the difference to a table.
control_variate: by the difference to a reference point.
covariance_tracking: `uniform`, with the covariance of its estimates.
periodic_covariance, kept_covariance: the same, the covariance of the last of periodic resets.
covariance_at: that covariance at a point, to give to a dynamics.
random: by an unbiased function of a key.
random_likelihood: from b rows, by a log likelihood that takes a key.
streamed: from the batch that a step is given.
exponentially_weighted: any of them, with the batch chosen among M+1.
GradientEstimator, OfRows, CovarianceTracking: base classes of your own estimators.
Estimate, Covariance, Evaluations, NoiseModel, Weight: what estimators return and receive.
"""

from ewsg_jax.gradients._control_variate import control_variate as control_variate
from ewsg_jax.gradients._covariance import Covariance as Covariance
from ewsg_jax.gradients._covariance_at import covariance_at as covariance_at
from ewsg_jax.gradients._covariance_tracking import CovarianceTracking as CovarianceTracking
from ewsg_jax.gradients._covariance_tracking import covariance_tracking as covariance_tracking
from ewsg_jax.gradients._exponentially_weighted import (
    exponentially_weighted as exponentially_weighted,
)
from ewsg_jax.gradients._full import full as full
from ewsg_jax.gradients._periodic_covariance import periodic_covariance as periodic_covariance
from ewsg_jax.gradients._protocol import Estimate as Estimate
from ewsg_jax.gradients._protocol import Evaluations as Evaluations
from ewsg_jax.gradients._protocol import GradientEstimator as GradientEstimator
from ewsg_jax.gradients._protocol import NoiseModel as NoiseModel
from ewsg_jax.gradients._protocol import OfRows as OfRows
from ewsg_jax.gradients._protocol import Weight as Weight
from ewsg_jax.gradients._random import random as random
from ewsg_jax.gradients._random import random_likelihood as random_likelihood
from ewsg_jax.gradients._saga import saga as saga
from ewsg_jax.gradients._stratified import stratified as stratified
from ewsg_jax.gradients._streamed import streamed as streamed
from ewsg_jax.gradients._svrg import svrg as svrg
from ewsg_jax.gradients._uniform import uniform as uniform

kept_covariance = periodic_covariance
"""The older name."""
