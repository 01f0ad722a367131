"""Held-out accuracy and log likelihood of logistic regression, averaged over the posterior."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import Array, Data
from ewsg_jax.sampling import Samples

CHUNK_SIZE = 8192
"""Rows evaluated at once."""


class Predictive(NamedTuple):
    """Prediction by the mean over draws of the probability p(y | x, θ).

    Attributes:
        log_likelihood: mean over the rows of log p(y | x); natural logarithm.
        accuracy: share of the rows whose own class has a probability above one half.
    """

    log_likelihood: float
    accuracy: float


def predictive(samples: Samples, data: Data, *, chunk_size: int = CHUNK_SIZE) -> Predictive:
    """Judge the posterior-predictive mean over all draws of all chains on held-out rows.

    Args:
        samples: a run of `models.logistic_regression`, whose position is one array (d,).
        data: held-out rows, {"x": (n, d), "y": (n,) of 0 and 1}.
        chunk_size: rows evaluated at once.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, or the run kept no draws.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.array([[1.0], [-1.0]]), "y": jnp.array([1, 0])}
        >>> kernel = ewsg.uld(ewsg.models.logistic_regression(), 0.1, friction=1.0)
        >>> samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), data, 2_000, num_chains=4)
        >>> ewsg.diagnostics.predictive(samples, data).accuracy
        1.0
    """
    weights = checked_weights(samples, data, chunk_size)
    log_likelihood, correct = 0.0, 0.0
    for rows, counted in chunks(data, chunk_size):
        sums = np.asarray(_judge(jnp.asarray(weights), rows, counted), np.float64)
        log_likelihood += sums[0]
        correct += sums[1]
    n = _check.data(data)
    return Predictive(float(log_likelihood / n), float(correct / n))


def checked_weights(samples: Samples, data: Data, chunk_size: int) -> np.ndarray:
    """Return the draws with shape (draw, chain, d), checked against the data."""
    _check.instance("samples", samples, Samples, "what ewsg_jax.sample returns")
    _check.integer("chunk_size", chunk_size)
    _check.data(data)
    draws = samples.position
    if not isinstance(data, dict) or set(data) != {"x", "y"} or data["x"].ndim != 2:
        raise TypeError('data must be {"x": (n, d), "y": (n,)}, as models.logistic_regression takes')
    if not isinstance(draws, np.ndarray) or draws.shape[2:] != data["x"].shape[1:]:
        raise ValueError(
            f"samples must be of a position of shape {tuple(data['x'].shape[1:])}, one weight for each feature; "
            f"got leaves of shapes {[x.shape[2:] for x in jax.tree.leaves(draws)]}"
        )
    if not draws.shape[1]:
        raise ValueError("samples must hold draws; the run kept none")
    return np.swapaxes(draws, 0, 1)


def chunks(data: Data, chunk_size: int) -> Iterator[tuple[Data, Array]]:
    """Yield the rows in chunks of one length and which of them count: the last chunk is filled up."""
    n = data["x"].shape[0]
    size = min(chunk_size, n)
    for start in range(0, n, size):
        rows = np.minimum(np.arange(start, start + size), n - 1)
        counted = jnp.arange(start, start + size) < n
        yield {name: jnp.asarray(np.asarray(leaf)[rows], jnp.float32) for name, leaf in data.items()}, counted


def log_likelihoods(weights: Array, rows: Data) -> Array:
    """Return log p(yᵢ | xᵢ, w) for weights (…, d): shape (…, rows)."""
    signs = 2 * rows["y"] - 1
    return -jax.nn.softplus(-signs * (weights @ rows["x"].T))


def hits(log_likelihood: Array) -> Array:
    """Return 1 where the row's own class is the more probable one, 0 where not, NaN where there is no telling."""
    return jnp.where(jnp.isnan(log_likelihood), jnp.nan, log_likelihood > jnp.log(0.5))


@jax.jit
def _judge(weights: Array, rows: Data, counted: Array) -> Array:
    """Sum the log predictive density and the hits over the rows that count."""

    def add(total: Array, at_draw: Array) -> tuple[Array, None]:
        return jnp.logaddexp(total, jax.nn.logsumexp(log_likelihoods(at_draw, rows), axis=0)), None

    total, _ = jax.lax.scan(add, jnp.full(counted.shape, -jnp.inf), weights)
    log_mean = total - jnp.log(jnp.float32(weights.shape[0] * weights.shape[1]))
    return jnp.stack([jnp.sum(jnp.where(counted, x, 0.0)) for x in (log_mean, hits(log_mean))])
