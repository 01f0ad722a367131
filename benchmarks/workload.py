"""The two posteriors that are timed, in plain JAX, so that every library is given the same functions and data.

Read by interpreters with older versions of JAX too: nothing of `ewsg_jax` is imported here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

PyTree = Any

PRIOR_VARIANCE = 10.0
STEP_SIZE = {"sgld": 1e-7, "sghmc": 1e-4}
FRICTION = 10.0


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


class Case(NamedTuple):
    """One program to time.

    Attributes:
        workload: a name of `WORKLOADS`.
        method: `"sgld"` or `"sghmc"`, underdamped with one new minibatch a step.
        num_chains: chains side by side, each with its own minibatches.
        num_steps: steps of a timed run.
        keep_all: whether every position is kept, or the last only.
    """

    workload: str
    method: str
    num_chains: int
    num_steps: int
    keep_all: bool


def _gaussian(num_data: int, dimension: int) -> tuple[np.random.Generator, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator, generator.standard_normal((num_data, dimension), np.float32)


def logistic(num_data: int = 464_809, dimension: int = 54) -> Workload:
    """Logistic regression of the size of Covertype's training set, prior N(0, 10 I), b = 50."""

    def data() -> dict[str, np.ndarray]:
        generator, x = _gaussian(num_data, dimension)
        return {"x": x, "y": (generator.random(num_data) < 0.5).astype(np.float32)}

    def log_likelihood(position: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        logit = x @ position
        return y * logit - jax.nn.softplus(logit)

    def log_prior(position: jax.Array) -> jax.Array:
        return -0.5 / PRIOR_VARIANCE * jnp.sum(position**2)

    return Workload(log_likelihood, log_prior, np.zeros(dimension, np.float32), data, num_data, 50)


def network(num_data: int = 60_000, inputs: int = 784, hidden: int = 100, classes: int = 10) -> Workload:
    """A network with one hidden layer and softmax outputs, prior N(0, I), b = 100."""

    def data() -> dict[str, np.ndarray]:
        generator, x = _gaussian(num_data, inputs)
        return {"x": x, "y": generator.integers(0, classes, num_data).astype(np.int32)}

    def log_likelihood(position: PyTree, x: jax.Array, y: jax.Array) -> jax.Array:
        activation = jax.nn.relu(x @ position["hidden"]["weights"] + position["hidden"]["bias"])
        logits = activation @ position["output"]["weights"] + position["output"]["bias"]
        return jax.nn.log_softmax(logits)[y]

    def log_prior(position: PyTree) -> jax.Array:
        return -0.5 * jnp.asarray(sum(jnp.sum(x**2) for x in jax.tree_util.tree_leaves(position)))

    generator = np.random.default_rng(1)

    def layer(rows: int, columns: int) -> dict[str, np.ndarray]:
        weights = generator.standard_normal((rows, columns), np.float32) / np.float32(rows) ** 0.5
        return {"weights": weights.astype(np.float32), "bias": np.zeros(columns, np.float32)}

    position = {"hidden": layer(inputs, hidden), "output": layer(hidden, classes)}
    return Workload(log_likelihood, log_prior, position, data, num_data, 100)


WORKLOADS: dict[str, Callable[[], Workload]] = {"logistic": logistic, "network": network}
