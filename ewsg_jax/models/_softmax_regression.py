"""Bayesian softmax regression: P(yᵢ = k) ∝ exp(xᵢᵀW_k)."""

import jax

from ewsg_jax.base import checks
from ewsg_jax.base.modules import text
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.bounds import bohning
from ewsg_jax.bounds._protocol import row_x
from ewsg_jax.models._priors import normal_prior
from ewsg_jax.posterior.posterior import Posterior


def _log_likelihood(logits: Array, row: Data) -> Array:
    return logits[row["y"]] - jax.nn.logsumexp(logits)


def _residual(logits: Array, rows: Data) -> Array:
    return jax.nn.one_hot(rows["y"], logits.shape[-1], dtype=logits.dtype) - jax.nn.softmax(logits)


def _check_labels(weights: Array, data: Data) -> None:
    checks.labels("data['y']", data["y"], weights.shape[-1])


def softmax_regression(*, prior_scale: float = 1.0) -> Posterior[Array]:
    """Return the posterior of the weights of a softmax model.

    Data: {"x": (n, d), "y": (n,) of integers 0 … k−1}. Position: an array (d, k). An intercept is a
    column of ones in x.

    Args:
        prior_scale: standard deviation of the prior N(0, prior_scale² I); `math.inf` for a flat
            one.

    Raises:
        TypeError, ValueError: an argument is not a positive number; when used, that y holds
            something else.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.array([[1.0]]), "y": jnp.array([0])}
        >>> ewsg.models.softmax_regression().gradient(jnp.zeros((1, 2)), data)
        Array([[-0.5,  0.5]], dtype=float32)
    """
    return Posterior.linear(
        _log_likelihood,
        normal_prior(prior_scale),
        inputs=row_x,
        residual=_residual,
        bound=bohning(),
        check_values=_check_labels,
        log_concave=True,
        normalised=True,
        name=f"softmax_regression(prior_scale={text(prior_scale)})",
    )
