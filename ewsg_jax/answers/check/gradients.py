"""Gradients of the potential at draws, each on two fresh batches with independent noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax import gradients
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.base import pytrees
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients._protocol import GradientEstimator, no_weight
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows import leverage
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._spread import DATA, Spread
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.vectors.layout import Layout

FULL = 4
"""Batches in the data up to which all rows are taken: in order they cost less than fetched."""
ROWS_AT_ONCE = 2**16
"""Rows whose gradients are worked out together."""
BLOCK = 256
"""Places that one call of the program takes."""
SMALL = 1_000
"""Dimension up to which it is compiled quickly."""


class Fresh(NamedTuple):
    """Gradients at all draws.

    Attributes:
        first, second: ∇V on one batch and on another, shape (draws, d), float64; one and the same
            where all rows are taken.
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
                f"samples must lie where the potential has a gradient; got {lost} draws where it "
                "has none"
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
    """Return ∇V/T at each draw, on two batches of `batch_size` rows together, or on few rows all.

    Estimates are centred on the draws' mean. Rows are drawn by their norms in the draws' own metric
    where the model is one of linear predictors.
    """
    parts = data.mesh.shape[DATA] if isinstance(data, Spread) else 1
    # Data over devices know n of all; each device holds a part.
    n, count = data.total if isinstance(data, Spread) else num_rows(data), len(draws.flat)
    # The mean of the draws is near the mode, where a control variate's noise is least.
    center = draws.position(draws.flat.mean(0))
    if n <= FULL * batch_size:
        estimator: GradientEstimator = gradients.full(posterior)
        num_batches, at_once, cost = 1, min(n, CHUNK_SIZE), float(count)
    else:
        # Each part of the data has its share.
        half = -(-((batch_size + 1) // 2) // parts) * parts
        # Rows that matter more are drawn more often, where their inputs say so.
        law = ("random" if parts > 1 else _rows(posterior, draws, data)) if rows is None else rows
        estimator = gradients.control_variate(posterior, batch_size=half, center=center, rows=law)
        num_batches, at_once, cost = 2, half, 2.0 * count * half / n + 1
    found = (
        estimates(key, estimator, draws.layout, center, draws.flat, data, num_batches, at_once)
        / temperature
    )
    first, *others = found
    return Fresh(first, others[0] if others else first, cost)


def estimates(
    key: Key,
    estimator: GradientEstimator,
    layout: Layout,
    start: Position,
    places: np.ndarray,
    data: Data,
    num_batches: int,
    rows_of_each: int,
) -> np.ndarray:
    """Return an estimator's ∇V at places on independent batches: (batches, places, d), float64.

    One program serves any number of places: they are padded to whole blocks.

    Args:
        key: a typed PRNG key.
        estimator: what estimates, of the data.
        layout: how d numbers are a position.
        start: where the estimator's memory is made.
        places: flat, shape (places, d).
        data: the rows.
        num_batches: batches at each place.
        rows_of_each: rows that one estimate evaluates at once, which says how many places are
            worked out together.
    """
    estimator.check(start, data)
    count, size = places.shape
    # As many places together as keep a core busy, by how many rows each of them takes.
    together = max(1, min(ROWS_AT_ONCE // rows_of_each, BLOCK))
    block = BLOCK // together * together
    # Filled up with places from the front: one program serves all blocks.
    padded = np.resize(places, (-(-count // block) * block, size)).reshape(
        -1, block // together, together, size
    )
    padded = padded.astype(jnp.result_type(float, *layout.dtypes))
    # Many numbers are worth a program that is optimised; few are compiled quickly.
    make, at = (_memory, _at) if size > SMALL else (_quick_memory, _quick_at)
    memory = make(estimator, start, key, data)
    found = [
        np.asarray(
            at(estimator, layout, num_batches, memory, key, np.int32(number), own, data), np.float64
        )
        for number, own in enumerate(padded)
    ]
    return np.concatenate(found, axis=1)[:, :count]


def _rows(posterior: Posterior, draws: Draws, data: Data) -> Rows:
    """Return rows by their norms where these say how much they matter."""
    # Only where a row's gradient is a multiple of its inputs do norms say how much it matters.
    if posterior.predictor is None:
        return "random"
    inputs = jax.vmap(posterior.predictor.inputs)(data)
    size = inputs.shape[1]
    flat = draws.flat
    # Of a matrix W of weights (size, k): the covariances of its columns, averaged.
    columns = np.moveaxis((flat - flat.mean(0)).reshape(len(flat), size, -1), 2, 0).reshape(
        -1, size
    )
    metric = columns.T @ columns / len(columns) + 1e-6 * np.diag((columns**2).mean(0))
    return leverage(inputs, metric)


def _made(estimator: GradientEstimator, start: Position, key: Key, data: Data) -> PyTree:
    """Return what the estimator keeps, such as a gradient over all rows: once for all blocks."""

    def of_part(part: Data) -> PyTree:
        return estimator.init(key, start, part)

    return data.alike(of_part) if isinstance(data, Spread) else of_part(data)


def _estimated(
    estimator: GradientEstimator,
    layout: Layout,
    num_batches: int,
    memory: PyTree,
    key: Key,
    number: Array,
    places: Array,
    data: Data,
) -> Array:
    """Return estimates at the places (groups, together, d) of a block: (batches, places, d)."""

    def on_batch(key: Key, part: Data) -> Array:
        def of_place(key: Key, place: Array) -> Array:
            randomness, point = estimator.draw(key, part), layout.tree(place)
            estimate, _ = estimator.propose(randomness, memory, point, part, no_weight)
            return ravel_pytree(pytrees.widened(estimate.gradient))[0]

        # Places in groups: `vmap` within, a loop over them, so that memory is bounded.
        keys = jax.random.split(key, places.shape[:2])
        return jax.lax.map(lambda group: jax.vmap(of_place)(*group), (keys, places)).reshape(
            -1, places.shape[2]
        )

    keys = jax.random.split(jax.random.fold_in(key, number), num_batches)

    def on_batches(part: Data) -> Array:
        return jax.lax.map(lambda own: on_batch(own, part), keys)

    return data.alike(on_batches) if isinstance(data, Spread) else on_batches(data)


_memory, _quick_memory = (jax.jit(_made, compiler_options=how) for how in (None, QUICK))
_at, _quick_at = (
    jax.jit(_estimated, static_argnums=(1, 2), compiler_options=how) for how in (None, QUICK)
)
