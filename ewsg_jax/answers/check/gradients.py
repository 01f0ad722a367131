"""Gradients of the potential at draws, each on two fresh minibatches with independent noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax import gradients
from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.compiling import QUICK, run
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients._protocol import GradientEstimator, no_weight
from ewsg_jax.gradients._random import fresh
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.posterior.random import RandomPotential
from ewsg_jax.rows import leverage
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._spread import DATA, Spread
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.vectors.layout import Layout


class FreshGradients(NamedTuple):
    """Gradients at all draws.

    Attributes:
        first, second: ∇V/T on one minibatch and on another, shape (draws, d), float64; the same
            array if all rows are taken.
        data_passes: their cost, in passes over the data.
    """

    first: np.ndarray
    second: np.ndarray
    data_passes: float

    @property
    def is_finite(self) -> bool:
        """Whether all of them are finite."""
        return bool(np.isfinite(self.first).all() and np.isfinite(self.second).all())

    def check(self, why: str = "") -> None:
        """Check that all draws have a gradient.

        Args:
            why: what is known of the reason, in words.

        Raises:
            ValueError: a draw has none.
        """
        if not self.is_finite:
            count = int(np.sum(~np.isfinite(self.mean).all(1)))
            raise ValueError(
                f"samples must lie where the potential has a gradient; got {count} draws where it "
                f"has none{f': {why}' if why else ''}"
            )

    @property
    def mean(self) -> np.ndarray:
        """The mean of the two, shape (draws, d)."""
        return self.first if self.first is self.second else (self.first + self.second) / 2


def fresh_gradients(
    key: Key,
    posterior: Posterior,
    draws: Draws,
    data: Data,
    batch_size: int,
    rows: Rows | None,
    temperature: float,
) -> FreshGradients:
    """Return ∇V/T at each draw, on two minibatches, or on all rows if there are few.

    Estimates are control variates around the mean of the draws.

    Args:
        key: a typed PRNG key, for the minibatches.
        posterior: the posterior whose V it is.
        draws: the draws.
        data: all n rows, on one device or on several.
        batch_size: the number of rows in the two minibatches of a draw together.
        rows: the sampling scheme; None: by the rows' norms in the draws' own metric if data enter
            through linear predictors, else uniform.
        temperature: T of the target exp(−V/T).
    """
    parts = data.mesh.shape[DATA] if isinstance(data, Spread) else 1
    # Data over devices know n of all; each device holds a part.
    estimator: GradientEstimator
    n, count = data.total if isinstance(data, Spread) else num_rows(data), len(draws.flat)
    # The mean of the draws is near the mode, where a control variate's noise is least.
    center = draws.position(draws.flat.mean(0))
    if isinstance(posterior, RandomPotential):
        # Two keys at each draw: their mean is the gradient of the mean.
        estimator = fresh(posterior, -(-batch_size // 2))
        per_estimate = estimator.evaluations(data).per_step
        num_batches, at_once, cost = 2, per_estimate, 2.0 * count * per_estimate / n
    elif n <= settings.FULL_DATA_BATCHES * batch_size:
        estimator = gradients.full(posterior)
        num_batches, at_once, cost = 1, min(n, CHUNK_SIZE), float(count)
    else:
        # Each part of the data has its share.
        half = -(-((batch_size + 1) // 2) // parts) * parts
        if rows is None:
            rows = "random" if parts > 1 else _scheme(posterior, draws, data)
        estimator = gradients.control_variate(posterior, batch_size=half, center=center, rows=rows)
        num_batches, at_once, cost = 2, half, 2.0 * count * half / n + 1
    of_batches = estimates(
        key, estimator, draws.layout, center, draws.flat, data, num_batches, at_once
    )
    first, *others = of_batches / temperature
    return FreshGradients(first, others[0] if others else first, cost)


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
    """Return an estimator's ∇V on independent minibatches: (batches, places, d), float64.

    One compiled program serves any number of positions: they are padded to whole blocks.

    Args:
        key: a typed PRNG key.
        estimator: the gradient estimator.
        layout: how d numbers are a position.
        start: the position at which the estimator's memory is initialised.
        places: the positions as vectors, shape (places, d).
        data: all n rows.
        num_batches: the number of minibatches at each position.
        rows_of_each: the number of rows that one estimate evaluates at once; it decides how many
            positions are worked on together.
    """
    estimator.check(start, data)
    count, size = places.shape
    # As many positions together as keep a core busy, by the number of rows that each takes.
    most = limits.POSITIONS_AT_ONCE
    together = max(1, min(limits.ROWS_AT_ONCE // rows_of_each, most))
    block = most // together * together
    # Filled up with positions from the front: one program serves all blocks.
    padded = np.resize(places, (-(-count // block) * block, size)).reshape(
        -1, block // together, together, size
    )
    padded = padded.astype(jnp.result_type(float, *layout.dtypes))
    # Many parameters are worth a program that is optimised; for few it is compiled quickly.
    is_large = size > limits.MAX_DENSE_DIMENSION
    make, at = (_memory, _at) if is_large else (_quick_memory, _quick_at)
    memory = run(make, estimator, start, key, data)
    of_blocks = [
        np.asarray(
            run(at, estimator, layout, num_batches, memory, key, np.int32(number), positions, data),
            np.float64,
        )
        for number, positions in enumerate(padded)
    ]
    return np.concatenate(of_blocks, axis=1)[:, :count]


def _scheme(posterior: Posterior, draws: Draws, data: Data) -> Rows:
    """Return a scheme that draws rows by their norms, or uniformly if norms say nothing."""
    # Only if a row's gradient is a multiple of its inputs does its norm say how large that is.
    if posterior.predictor is None:
        return "random"
    inputs = jax.vmap(posterior.predictor.inputs)(data)
    size = inputs.shape[1]
    flat = draws.flat
    # For a matrix W of weights (size, k): the covariances of its columns, averaged.
    columns = np.moveaxis((flat - flat.mean(0)).reshape(len(flat), size, -1), 2, 0).reshape(
        -1, size
    )
    metric = columns.T @ columns / len(columns) + 1e-6 * np.diag((columns**2).mean(0))
    return leverage(inputs, metric)


def _init(estimator: GradientEstimator, start: Position, key: Key, data: Data) -> PyTree:
    """Return the estimator's memory, such as a gradient over all rows: once for all blocks."""

    def of_part(part: Data) -> PyTree:
        return estimator.init(key, start, part)

    return data.on_all_devices(of_part) if isinstance(data, Spread) else of_part(data)


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
    """Return estimates at the positions (groups, together, d) of a block: (batches, places, d)."""

    def on_batch(key: Key, part: Data) -> Array:
        def of_place(key: Key, place: Array) -> Array:
            randomness, point = estimator.draw(key, part), layout.tree(place)
            estimate, _ = estimator.propose(randomness, memory, point, part, no_weight)
            return ravel_pytree(pytrees.widened(estimate.gradient))[0]

        # Positions in groups: `vmap` within, a loop over them, so that memory is bounded.
        keys = jax.random.split(key, places.shape[:2])
        return jax.lax.map(lambda group: jax.vmap(of_place)(*group), (keys, places)).reshape(
            -1, places.shape[2]
        )

    keys = jax.random.split(jax.random.fold_in(key, number), num_batches)

    def on_batches(part: Data) -> Array:
        return jax.lax.map(lambda batch_key: on_batch(batch_key, part), keys)

    return data.on_all_devices(on_batches) if isinstance(data, Spread) else on_batches(data)


_memory, _quick_memory = (jax.jit(_init, compiler_options=how) for how in (None, QUICK))
_at, _quick_at = (
    jax.jit(_estimated, static_argnums=(1, 2), compiler_options=how) for how in (None, QUICK)
)
