"""The prior of a regression's weights, one by one; and groups with an intercept each.

With groups a position has, below the weights of the features, the logarithm of a scale and an
effect for each group: β ~ N(m, s²), effect ~ N(0, τ²), τ ~ |N(0, t²)|. Each class of a softmax has
a τ of its own. All enter through the linear predictor, so that the model stays one of
`Posterior.linear`.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.base import products
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.posterior.linear import LinearPredictor, OfDatum

GROUP = "group"
"""The name of the array of the rows' groups."""


@dataclass(frozen=True)
class WeightPrior:
    """The log prior of a position, up to its constant; equal if its numbers are.

    Attributes:
        mean: means of the weights of the features, as they lie in the position.
        precision: their inverse variances; 0 for a flat prior.
        num_groups: how many groups there are; 0 for none.
        scale_precision: 1/t² of the scale τ of the groups.
    """

    mean: tuple[float, ...]
    precision: tuple[float, ...]
    num_groups: int = 0
    scale_precision: float = 1.0

    def __call__(self, position: Array) -> Array:
        """Return it at a position, shape (weights,) or (weights, classes)."""
        num_weights = position.shape[0] - (self.num_groups + 1 if self.num_groups else 0)
        weights = position[:num_weights]
        mean, precision = (
            jnp.asarray(np.reshape(of, weights.shape), position.dtype)
            for of in (self.mean, self.precision)
        )
        log_prior = -0.5 * jnp.sum(precision * jnp.square(weights - mean))
        if not self.num_groups:
            return log_prior
        log_scale, effects = position[num_weights], position[num_weights + 1 :]
        # The last term but one is the derivative of τ by its logarithm.
        of_scale = log_scale - 0.5 * self.scale_precision * jnp.exp(2 * log_scale)
        of_effects = -0.5 * jnp.square(effects * jnp.exp(-log_scale))
        return log_prior + jnp.sum(of_scale - self.num_groups * log_scale) + jnp.sum(of_effects)


@dataclass(frozen=True)
class GroupInputs:
    """The inputs of a row's linear predictor: its features, 0 for the log scale, its group."""

    num_groups: int

    def __call__(self, row: Data) -> Array:
        """Return them, shape (features + 1 + groups,)."""
        x = row["x"]
        of_group = (jnp.arange(self.num_groups) == row[GROUP]).astype(x.dtype)
        return jnp.concatenate([x, jnp.zeros(1, x.dtype), of_group])


@dataclass(frozen=True)
class GroupLogLikelihood:
    """The log likelihood of a row, which takes the effect of its group from the position."""

    num_groups: int
    log_likelihood: Callable[[Array, Data], Array]

    def __call__(self, position: Array, row: Data) -> Array:
        """Return it."""
        num_weights = position.shape[0] - self.num_groups - 1
        of_features = products.matmul(row["x"], position[:num_weights])
        effect = position[num_weights + 1 + row[GROUP]]
        return self.log_likelihood(of_features + effect, row)


def with_prior(
    model: ewsg.Posterior, prior: WeightPrior, name: str, is_linear: bool = True
) -> ewsg.Posterior:
    """Return a regression with another prior, and with groups if the prior has these.

    Groups that surely differ may be `is_linear`: of many rows gradients are then two products of
    matrices. If their scale may be 0, no step fits the narrow part of the posterior there; without
    a linear predictor `ewsg_jax.plan` takes other coordinates for the effects.
    """
    predictor, bound, log_likelihood = model.predictor, model.bound, model.log_likelihood
    assert predictor is not None
    if prior.num_groups and not is_linear:
        log_likelihood = GroupLogLikelihood(prior.num_groups, predictor.log_likelihood)
        predictor = bound = None
    elif prior.num_groups:
        inputs = products.in_full(GroupInputs(prior.num_groups))
        predictor = LinearPredictor(inputs, predictor.log_likelihood, predictor.residual)
        bound, log_likelihood = None, OfDatum(predictor)
    return dataclasses.replace(
        model,
        log_likelihood=log_likelihood,
        log_prior=prior,
        predictor=predictor,
        bound=bound,
        name=name,
        log_concave=model.log_concave,
    )
