"""Gradients of the potential at draws, on fresh batches: two of each, whose noises are independent."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax import _tree, gradients
from ewsg_jax._types import Array, Data, Key, Position, PyTree
from ewsg_jax.checking.draws import Draws
from ewsg_jax.gradients.protocol import GradientEstimator, no_weight
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows import leverage
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.rows.named import Rows
from ewsg_jax.rows.spread import DATA, Spread

FULL = 4
"""Batches in the data up to which all rows are taken: rows in order cost less than rows that are fetched."""
ROWS_AT_ONCE = 2**16
"""Rows whose gradients are worked out together."""


class Fresh(NamedTuple):
    """Gradients at all draws.

    Attributes:
        first, second: ∇V on one batch and on another, shape (draws, d), float64; one and the same where all rows
            are taken.
        data_passes: what they cost.
    """

    first: np.ndarray
    second: np.ndarray
    data_passes: float

    @property
    def is_finite(self) -> bool:
        """Whether all are."""
        return bool(np.isfinite(self.first).all() and np.isfinite(self.second).all())

    def check(self) -> None:
        """Refuse draws at which there is no gradient.

        Raises:
            ValueError: there are such.
        """
        if not self.is_finite:
            lost = int(np.sum(~np.isfinite(self.mean).all(1)))
            raise ValueError(
                f"samples must lie where the potential has a gradient; got {lost} draws where it has none"
            )

    @property
    def mean(self) -> np.ndarray:
        """Of the two."""
        return self.first if self.first is self.second else (self.first + self.second) / 2


def fresh_gradients(
    key: Key,
    posterior: Posterior,
    draws: Draws,
    data: Data,
    batch_size: int,
    rows: Rows | None,
    temperature: float,
) -> Fresh:
    """Return ∇V/T at each draw, on two batches of so many rows together, or on all rows where these are few.

    Estimates are centred on the draws' mean. Rows are drawn by their norms in the draws' own metric where the model
    is one of linear predictors.
    """
    parts = data.mesh.shape[DATA] if isinstance(data, Spread) else 1
    n, count = data.total if isinstance(data, Spread) else num_rows(data), len(draws.flat)
    center = draws.position(draws.flat.mean(0))
    if n <= FULL * batch_size:
        estimator: GradientEstimator = gradients.full(posterior)
        num_batches, at_once, cost = 1, n, float(count)
    else:
        # Each part of the data has its share.
        half = -(-((batch_size + 1) // 2) // parts) * parts
        law = ("random" if parts > 1 else _rows(posterior, draws, data)) if rows is None else rows
        estimator = gradients.control_variate(posterior, batch_size=half, center=center, rows=law)
        num_batches, at_once, cost = 2, half, 2.0 * count * half / n + 1
    estimator.check(center, data)
    together = max(1, min(ROWS_AT_ONCE // at_once, count))
    # Whole numbers of groups: one program.
    padded = np.resize(draws.flat, (-(-count // together) * together, draws.flat.shape[1]))
    places = padded.reshape(-1, together, padded.shape[1]).astype(jnp.result_type(float, *draws.layout.dtypes))
    found = np.asarray(_at(estimator, draws.layout, num_batches, center, key, places, data), np.float64)
    first, *others = found[:, :count] / temperature
    return Fresh(first, others[0] if others else first, cost)


def _rows(posterior: Posterior, draws: Draws, data: Data) -> Rows:
    """Return rows by their norms where these say how much they matter."""
    if posterior.predictor is None:
        return "random"
    inputs = jax.vmap(posterior.predictor.inputs)(data)
    size = inputs.shape[1]
    flat = draws.flat
    # Of a matrix W of weights (size, k): the covariances of its columns, averaged.
    columns = np.moveaxis((flat - flat.mean(0)).reshape(len(flat), size, -1), 2, 0).reshape(-1, size)
    metric = columns.T @ columns / len(columns) + 1e-6 * np.diag((columns**2).mean(0))
    return leverage(inputs, metric)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _at(
    estimator: GradientEstimator,
    layout: PyTree,
    num_batches: int,
    center: Position,
    key: Key,
    places: Array,
    data: Data,
) -> Array:
    """Return estimates at places (groups, together, d) on each of the batches, shape (batches, draws, d).

    The estimator's memory is made here too: outside, each of its operations would be a program of its own.
    """
    keys = jax.random.split(key, num_batches) if num_batches > 1 else key[None]

    def on_batches(part: Data) -> Array:
        memory = estimator.init(keys[0], center, part)
        return jax.lax.map(lambda own: _estimates(estimator, layout, memory, own, places, part), keys)

    return data.alike(on_batches) if isinstance(data, Spread) else on_batches(data)


def _estimates(
    estimator: GradientEstimator, layout: PyTree, memory: PyTree, key: Key, places: Array, data: Data
) -> Array:
    def of_place(key: Key, place: Array) -> Array:
        point: Position = layout.tree(place)
        estimate, _ = estimator.propose(estimator.draw(key, data), memory, point, data, no_weight)
        return ravel_pytree(_tree.widened(estimate.gradient))[0]

    def of_group(group: tuple[Array, Array]) -> Array:
        return jax.vmap(of_place)(*group)

    keys = jax.random.split(key, places.shape[:2])
    return jax.lax.map(of_group, (keys, places)).reshape(-1, places.shape[2])
