"""The two posteriors that are timed, in plain JAX, so that every library is given the same
functions and data.

Read by interpreters with older versions of JAX too: nothing of `ewsg_jax` is imported here.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cost.settings import (
    LOGISTIC_BATCH,
    LOGISTIC_COLUMNS,
    LOGISTIC_ROWS,
    NETWORK_BATCH,
    NETWORK_ROWS,
    NETWORK_SIZES,
    PRIOR_VARIANCE,
    PyTree,
    logistic_data,
    network_data,
    network_position,
)


class Workload(NamedTuple):
    """A posterior as every library takes it.

    Attributes:
        log_likelihood: `log_likelihood(position, x, y) -> scalar` of one datum.
        log_prior: `log_prior(position) -> scalar`.
        position: where chains start, a tree of NumPy arrays.
        data: makes the data, {"x": (n, d), "y": (n,)} as NumPy arrays, from a fixed seed.
        num_data: n.
        batch_size: b.
    """

    log_likelihood: Callable[[PyTree, jax.Array, jax.Array], jax.Array]
    log_prior: Callable[[PyTree], jax.Array]
    position: PyTree
    data: Callable[[], dict[str, np.ndarray]]
    num_data: int
    batch_size: int


def logistic(num_data: int = LOGISTIC_ROWS, dimension: int = LOGISTIC_COLUMNS) -> Workload:
    """Logistic regression of the size of Covertype's training set, prior N(0, 10 I), b = 50."""

    def log_likelihood(position: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        logit = x @ position
        return y * logit - jax.nn.softplus(logit)

    def log_prior(position: jax.Array) -> jax.Array:
        return -0.5 / PRIOR_VARIANCE * jnp.sum(position**2)

    start = np.zeros(dimension, np.float32)
    return Workload(
        log_likelihood,
        log_prior,
        start,
        lambda: logistic_data(num_data, dimension),
        num_data,
        LOGISTIC_BATCH,
    )


def network(num_data: int = NETWORK_ROWS, sizes: tuple[int, int, int] = NETWORK_SIZES) -> Workload:
    """A network with one hidden layer and softmax outputs, prior N(0, I), b = 100."""
    inputs, _, classes = sizes

    def log_likelihood(position: PyTree, x: jax.Array, y: jax.Array) -> jax.Array:
        activation = jax.nn.relu(x @ position["hidden"]["weights"] + position["hidden"]["bias"])
        logits = activation @ position["output"]["weights"] + position["output"]["bias"]
        return jax.nn.log_softmax(logits)[y]

    def log_prior(position: PyTree) -> jax.Array:
        return -0.5 * jnp.asarray(sum(jnp.sum(x**2) for x in jax.tree_util.tree_leaves(position)))

    return Workload(
        log_likelihood,
        log_prior,
        network_position(*sizes),
        lambda: network_data(num_data, inputs, classes),
        num_data,
        NETWORK_BATCH,
    )


WORKLOADS: dict[str, Callable[[], Workload]] = {"logistic": logistic, "network": network}
