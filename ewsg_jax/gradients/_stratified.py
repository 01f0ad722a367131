"""Rows drawn within strata (CP-SGHMC, the clustering-based preprocessing of Fu & Zhang 2017).

    g = ∇V₀(θ) + Σ_c (n_c/b_c) Σ_{i∈I_c} ∇Vᵢ(θ)

I_c: b_c rows drawn with replacement from the n_c rows of stratum c. Unbiased; the covariance is Σ_c
(n_c²/b_c) S_c with S_c the covariance of ∇Vᵢ within the stratum: for b_c in proportion to n_c it is
smaller than the plain gradient's by what the strata explain. The b rows are divided among the
strata in proportion to n_c by largest remainder, at least one to each that is not empty. b
evaluations a step; the memory, n row numbers, is shared by all chains.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees, rng, tracing
from ewsg_jax.base.modules import hashable, module, static
from ewsg_jax.base.typing import Array, Data, Key, P, Position
from ewsg_jax.gradients._protocol import (
    Estimate,
    Evaluations,
    GradientEstimator,
    NoiseModel,
    Sharing,
    Weight,
)
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._scheme import Order
from ewsg_jax.rows._strata import allocate
from ewsg_jax.rows._view import Batch, fetched, num_rows


class Strata(NamedTuple):
    """The rows of each stratum, and the stratum of each place of a batch.

    Attributes:
        order: row numbers, stratum by stratum, shape (n,).
        first: index in `order` at which the stratum of each place of a batch begins, shape (b,).
        size: number of rows of that stratum, shape (b,).
        weight: n_c/b_c for each place, shape (b,).
    """

    order: Array
    first: Array
    size: Array
    weight: Array


@module
class Stratified(GradientEstimator[P]):
    """The estimator of `stratified`."""

    batch_size: int = static()
    labels: str | Callable[[Data], Array] = static()
    num_strata: int = static()

    @property
    def sharing(self) -> Sharing:
        """Which chains share the memory."""
        return Sharing("data")

    def check(self, position: Position, data: Data) -> None:
        super().check(position, data)
        _check_labels(lambda data: _labels(self.labels, data), data, self.num_strata)

    def init(self, key: Key, position: Position, data: Data) -> Strata:
        label = jnp.asarray(_labels(self.labels, data), jnp.int32)
        # Sizes as data, so that one program serves data sets of other strata.
        sizes = jnp.zeros(self.num_strata, jnp.int32).at[label].add(1)
        seats = allocate(sizes, self.batch_size)
        # Which stratum each place of a batch belongs to: the same in every step.
        stratum = jnp.repeat(
            jnp.arange(self.num_strata), seats, total_repeat_length=self.batch_size
        )
        first = jnp.cumsum(sizes) - sizes
        order = jnp.argsort(label, stable=True).astype(jnp.int32)
        weight = sizes.astype(float) / jnp.maximum(seats, 1).astype(float)
        return Strata(order, first[stratum], sizes[stratum], weight[stratum])

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Array:
        # Words, not row numbers: how many rows a stratum has is known in the memory alone.
        return rng.index_words(key, num_rows(data), self.batch_size)

    def propose(
        self, randomness: Array, memory: Strata, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, tuple[()]]:
        # A uniform place within each stratum, and from it the row number.
        place, _ = rng.scaled(randomness, memory.size.astype(jnp.uint32))
        batch = fetched(
            Batch(pytrees.take(memory.order, memory.first + place), weights=memory.weight), data
        )
        return Estimate(self.posterior.gradient_on(point, data, batch), batch), ()

    def gradient_at(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self.posterior.gradient_on(position, data, estimate.batch)

    def evaluations(self, data: Data) -> Evaluations:
        return Evaluations(self.batch_size, self.batch_size)

    def noise_model(self, data: Data) -> NoiseModel:
        return NoiseModel(self, order=1.0)


def stratified(
    posterior: Posterior[P],
    *,
    batch_size: int,
    labels: str | Callable[[Data], Array],
    num_strata: int,
) -> Stratified[P]:
    """Estimate ∇V from rows of every stratum.

    Rows are uniform within a stratum, and strata are read from the data. To draw rows by
    probability within strata that are known beforehand, with any estimator, use
    `rows=ewsg_jax.rows.importance_weighted(weights, strata=…)`.

    Args:
        posterior: the target.
        batch_size: b, the number of rows in a batch, at least `num_strata`.
        labels: the stratum of each row, whole numbers from 0 to `num_strata` − 1, shape (n,), such
            as `ewsg_jax.cluster` returns: a key, if data are a dictionary, or `labels(data)`.
        num_strata: number of strata; some may be empty.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, labels that are
            not such numbers.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.array([[0.0], [0.1], [9.0]]), "cluster": jnp.array([0, 0, 1])}
        >>> model = ewsg.Posterior(
        ...     lambda mean, row: -0.5 * jnp.sum((row["x"] - mean) ** 2), lambda mean: 0.0
        ... )
        >>> estimator = ewsg.gradients.stratified(
        ...     model, batch_size=2, labels="cluster", num_strata=2
        ... )
    """
    check_posterior(posterior)
    checks.integer("batch_size", batch_size)
    if not isinstance(labels, str):
        checks.function("labels", labels, "(data) -> the stratum of each row")
    checks.integer("num_strata", num_strata)
    if batch_size < num_strata:
        raise ValueError(
            f"batch_size must be at least num_strata = {num_strata}, a row of each stratum; got "
            f"{batch_size}"
        )
    return Stratified(
        posterior=posterior,
        batch_size=int(batch_size),
        labels=hashable(labels),
        num_strata=int(num_strata),
    )


def _labels(labels: str | Callable[[Data], Array], data: Data) -> Array:
    if not isinstance(labels, str):
        return labels(data)
    if not isinstance(data, dict) or labels not in data:
        what = f"the keys {list(data)}" if isinstance(data, dict) else checks.describe(data)
        raise ValueError(
            f"labels must be a key of data that are a dictionary; got {labels!r} for {what}"
        )
    return data[labels]


def _check_labels(labels: Callable[[Data], Array], data: Data, num_strata: int) -> None:
    n = num_rows(data)
    takes = (
        f"labels must return whole numbers from 0 to {num_strata - 1} for these data, shape ({n},)"
    )
    traced = tracing.outputs("labels", labels, "the data", checks.shapes(data))
    if (
        not isinstance(traced, jax.ShapeDtypeStruct)
        or traced.shape != (n,)
        or not jnp.issubdtype(traced.dtype, jnp.integer)
    ):
        raise ValueError(f"{takes}; it returned {checks.describe(traced)}")
    # Values are checked if there are any: shapes alone have none.
    if all(isinstance(x, np.ndarray | jax.Array) for x in jax.tree.leaves(data)):
        values = labels(data)
        if not checks.is_traced(values):
            low, high = int(np.asarray(values).min()), int(np.asarray(values).max())
            if low < 0 or high >= num_strata:
                raise ValueError(f"{takes}; got {low if low < 0 else high}")
