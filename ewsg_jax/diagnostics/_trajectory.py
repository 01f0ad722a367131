"""Held-out prediction of logistic regression along a run, against passes over the data."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import Array, Data
from ewsg_jax.diagnostics._predictive import CHUNK_SIZE, checked_weights, chunks, hits, log_likelihoods
from ewsg_jax.sampling import Samples


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Held-out log likelihood (mean over rows, natural logarithm) and accuracy at each kept draw.

    Attributes:
        data_passes: passes over the training data that one chain had made, shape (draw,).
        ensemble_log_likelihood: of the mean prediction of this draw of all chains, shape (draw,).
        ensemble_accuracy: likewise.
        running_log_likelihood: of the mean prediction of all draws so far of all chains, shape (draw,).
        running_accuracy: likewise.
        chain_log_likelihood: of this draw of each chain by itself, shape (chain, draw).
        chain_accuracy: likewise.
    """

    data_passes: np.ndarray
    ensemble_log_likelihood: np.ndarray
    ensemble_accuracy: np.ndarray
    running_log_likelihood: np.ndarray
    running_accuracy: np.ndarray
    chain_log_likelihood: np.ndarray
    chain_accuracy: np.ndarray


def trajectory(samples: Samples, data: Data, *, chunk_size: int = CHUNK_SIZE) -> Trajectory:
    """Judge each kept draw on held-out rows: alone, averaged over chains, and averaged over all draws so far.

    The average over chains at one draw is what the EWSG paper reports ("100 independent samples"); the running
    average is what a user of the run would predict with.

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
        >>> samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), data, 2_000, num_chains=4, thin=500)
        >>> judged = ewsg.diagnostics.trajectory(samples, data)
        >>> judged.data_passes.tolist(), judged.chain_accuracy.shape
        ([500.0, 1000.0, 1500.0, 2000.0], (4, 4))
    """
    weights = jnp.asarray(checked_weights(samples, data, chunk_size))
    totals = None
    for rows, counted in chunks(data, chunk_size):
        sums = [np.asarray(x, np.float64) for x in _judge(weights, rows, counted)]
        totals = sums if totals is None else [a + b for a, b in zip(totals, sums, strict=True)]
    assert totals is not None
    means = [total / _check.data(data) for total in totals]
    return Trajectory(
        data_passes=samples.evaluations / samples.num_data,
        ensemble_log_likelihood=means[0],
        ensemble_accuracy=means[1],
        running_log_likelihood=means[2],
        running_accuracy=means[3],
        chain_log_likelihood=means[4].T,
        chain_accuracy=means[5].T,
    )


@jax.jit
def _judge(weights: Array, rows: Data, counted: Array) -> tuple[Array, ...]:
    """Sums over the rows that count, in the order of `Trajectory`, with the draw first."""

    def judge(total: Array, at_draw: tuple[Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        number, weights_now = at_draw
        single = log_likelihoods(weights_now, rows)
        together = jax.nn.logsumexp(single, axis=0)
        total = jnp.logaddexp(total, together)
        chains = jnp.log(jnp.float32(single.shape[0]))
        ensemble, running = together - chains, total - chains - jnp.log(number)

        def add(values: Array) -> Array:
            return jnp.sum(jnp.where(counted, values, 0.0), axis=-1)

        return total, (
            add(ensemble),
            add(hits(ensemble)),
            add(running),
            add(hits(running)),
            add(single),
            add(hits(single)),
        )

    numbers = jnp.arange(1, weights.shape[0] + 1, dtype=jnp.float32)
    _, sums = jax.lax.scan(judge, jnp.full(counted.shape, -jnp.inf), (numbers, weights))
    return sums
