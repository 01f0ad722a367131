"""Bayesian logistic regression: P(yᵢ = 1) = 1/(1 + exp(−xᵢᵀw))."""

import jax

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import text
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.bounds import jaakkola_jordan
from ewsg_jax.bounds._protocol import row_x
from ewsg_jax.models._priors import normal_prior
from ewsg_jax.posterior.posterior import Posterior


def _log_likelihood(logit: Array, row: Data) -> Array:
    y, logit = pytrees.promoted(row["y"], logit)
    return y * logit - jax.nn.softplus(logit)


def _residual(logits: Array, rows: Data) -> Array:
    y, logits = pytrees.promoted(rows["y"], logits)
    return y - jax.nn.sigmoid(logits)


def _check_labels(weights: Array, data: Data) -> None:
    checks.labels("data['y']", data["y"], 2)


def logistic_regression(*, prior_scale: float = 1.0) -> Posterior[Array]:
    """Return the posterior of the weights of a logistic model.

    Data: {"x": (n, d), "y": (n,) of 0 and 1, any number type}. Position: an array (d,). An
    intercept is a column of ones in x.

    Args:
        prior_scale: standard deviation of the prior N(0, prior_scale² I); `math.inf` for a flat
            one.

    Raises:
        TypeError, ValueError: an argument is not a positive number; when used, that y holds
            something else.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.array([[1.0, 2.0]]), "y": jnp.array([1.0])}
        >>> ewsg.models.logistic_regression().gradient(jnp.zeros(2), data)
        Array([-0.5, -1. ], dtype=float32)
    """
    return Posterior.linear(
        _log_likelihood,
        normal_prior(prior_scale),
        inputs=row_x,
        residual=_residual,
        bound=jaakkola_jordan(),
        check_values=_check_labels,
        log_concave=True,
        normalised=True,
        name=f"logistic_regression(prior_scale={text(prior_scale)})",
    )
