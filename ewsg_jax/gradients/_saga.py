"""Variance reduction by a table of past gradients: SAGA (Defazio et al. 2014; SAGA-LD, Dubey et al.
2016).

    g  = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − αᵢ) + Σᵢ αᵢ
    αᵢ ← ∇Vᵢ(θ) for i ∈ I

The table α starts at the gradients of the first point. Unbiased given the table; the covariance is
that of the plain gradient with ∇Vᵢ(θ) − αᵢ in the place of ∇Vᵢ(θ), not zero even where the ∇Vᵢ
differ by constants alone, for rows were last seen at different points. On a quadratic the noise
that it leaves is of order h² under Langevin, h³ under underdamped dynamics. b evaluations a step
and n at the start.

The sum is kept with its rounding error: what a float32 loses while the sum is large, far from the
mode, would be missing near the mode, for nothing ever sums the table again. What stays lost is the
rounding of the batches' own sums: from where the gradients of rows are R times what they are near
the mode, some 10⁻⁶ R sd of the posterior.

Memory per chain: n numbers per linear predictor for models made by `Posterior.linear`, whose
gradients are multiples of their inputs; else n positions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree
from ewsg_jax.gradients._anchored import Anchored
from ewsg_jax.gradients._protocol import Estimate, Evaluations, NoiseModel, Sharing, Weight
from ewsg_jax.gradients._svrg import SVRG
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._named import Rows, sampling_scheme
from ewsg_jax.rows._view import CHUNK_SIZE, fetched, fold_over_rows, map_over_rows, num_rows

MEMORY_LIMIT = 4 * 2**30
"""Bytes that the tables of all chains may take."""
ROWS_PER_SUM = 64
"""Rows that the first sum adds before it measures rounding: about as few as a batch has."""


class SAGAMemory(NamedTuple):
    """What is kept between steps.

    Attributes:
        table: what `Posterior.row_gradients` gave for each row when it was last seen, leading axis
            n.
        gradient: the sum of the table, shaped like the position, at least in float32.
        error: what rounding has taken from it, shaped alike.
    """

    table: PyTree
    gradient: Position
    error: Position


class SAGAUpdate(NamedTuple):
    """How a batch changes the table and its sum: each row's difference once, even if repeated."""

    indices: Array
    differences: PyTree
    sum: Position


@module
class SAGA(Anchored[P]):
    """The estimator of `saga`."""

    needs = frozenset({Need.ALL_ROWS})  # its table has an entry for every row
    unbiased = True

    chunk_size: int = static(default=CHUNK_SIZE)
    memory_limit: int = static(default=MEMORY_LIMIT)

    @property
    def sharing(self) -> Sharing:
        """Whose the memory is."""
        return Sharing(limit=self.memory_limit)

    def first_table(self, position: Position, data: Data) -> PyTree:
        """Return the table at the first point."""
        return map_over_rows(
            lambda part: self.posterior.row_gradients(position, part), data, self.chunk_size
        )

    def check(self, position: Position, data: Data) -> None:
        super().check(position, data)
        # The size is known from shapes: nothing is allocated that does not fit.
        table = _table.eval_shape(self, checks.shapes(position), checks.shapes(data))
        checks.fits(
            "memory_limit",
            self.memory_limit,
            pytrees.num_bytes(table),
            f"SAGA's table of {num_rows(data):,} rows",
        )

    def init(self, key: Key, position: Position, data: Data) -> SAGAMemory:
        table = self.first_table(position, data)
        zero = pytrees.zeros_like(pytrees.widened(position))

        def add(
            total: tuple[Position, Position], rows: tuple[PyTree, Data], before: Array | int
        ) -> tuple[Position, Position]:
            return pytrees.add_with_error(*total, self.posterior.sum_of_rows(*rows))

        # Of the table as it is stored, not of the gradients before they are rounded to it.
        gradient, error = fold_over_rows(add, (zero, zero), (table, data), ROWS_PER_SUM)
        return SAGAMemory(table, gradient, error)

    def propose(
        self, randomness: PyTree, memory: SAGAMemory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, SAGAUpdate]:
        posterior, batch = self.posterior, fetched(randomness, data)
        part = batch.rows
        # What the table holds of these rows, as derivatives by their predictors where they are
        # linear.
        new, old = posterior.row_gradients(point, part), pytrees.take(memory.table, batch.indices)
        differences, weights = pytrees.combine((1, new), (-1, old)), batch.weights
        estimated = posterior.estimate_from_rows(differences, part, data, weights)
        gradient = posterior.total(point, data, estimated, memory.gradient)
        # A row that comes twice would be replaced twice, and its difference would stay in the sum
        # for ever. Where none does, the sum below is the one above, and XLA takes it once.
        once = (
            differences
            if self.law.distinct
            else pytrees.scaled_rows(differences, _first_of_each(batch.indices))
        )
        changed = posterior.sum_of_rows(_as_kept(old, once), part)
        # The update holds differences, not rows, so that `commit` reads no data.
        update = SAGAUpdate(batch.indices, once, changed)
        constant = pytrees.combine(
            (1, memory.gradient), (-1, posterior.estimate_from_rows(old, part, data, weights))
        )
        return Estimate(gradient, (batch, constant)), update

    def commit(self, update: SAGAUpdate, memory: SAGAMemory) -> SAGAMemory:
        # In place in a compiled loop: setting the new rows instead, once the old ones are read,
        # copies the table.
        table = pytrees.add_at(memory.table, update.indices, update.differences)
        gradient, error = pytrees.add_with_error(memory.gradient, memory.error, update.sum)
        return SAGAMemory(table, gradient, error)

    def evaluations(self, data: Data) -> Evaluations:
        # The old gradients are read from the table: a batch is evaluated once.
        return Evaluations(self.batch_size, self.batch_size, at_init=num_rows(data))

    def noise_model(self, data: Data) -> NoiseModel:
        if self.law.weighted:
            return NoiseModel(unknown="a table whose rows are seen at different rates")
        # A row is seen again after a geometric time, of the rate at which batches hold it.
        n, b = num_rows(data), self.batch_size
        rate = b / n if self.law.distinct else 1 - (1 - 1 / n) ** b
        return NoiseModel(SVRG(posterior=self.posterior, law=self.law), "table", rate=rate)


def saga(
    posterior: Posterior[P],
    *,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    chunk_size: int = CHUNK_SIZE,
    memory_limit: int = MEMORY_LIMIT,
) -> SAGA[P]:
    """Estimate ∇V by the difference of a batch's gradients to those last seen.

    Args:
        posterior: what is sampled.
        batch_size: b, rows per step.
        replace: as in `uniform`.
        rows: as in `uniform`.
        chunk_size: rows that the first table takes at once.
        memory_limit: bytes that the tables of all chains may take; a run that needs more is
            refused.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, a table larger
            than `memory_limit`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> estimator = ewsg.gradients.saga(ewsg.models.logistic_regression(), batch_size=10)
        >>> saga_ld = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    """
    check_posterior(posterior)
    law = sampling_scheme(batch_size, replace, rows)
    checks.integer("chunk_size", chunk_size)
    checks.integer("memory_limit", memory_limit)
    return SAGA(
        posterior=posterior, law=law, chunk_size=int(chunk_size), memory_limit=int(memory_limit)
    )


@jax.jit
def _table(estimator: SAGA, position: Position, data: Data) -> PyTree:
    """The first table: asked for its shapes only, traced once for all equal estimators."""
    return estimator.first_table(position, data)


def _as_kept(old: PyTree, differences: PyTree) -> PyTree:
    """Return what a table changes by where differences are added to it, at least in float32.

    In half precision it rounds their sums, which the sum of the table would never learn of.
    """

    def leaf(x: Array, difference: Array) -> Array:
        if x.dtype.itemsize >= 4:
            return difference
        # Else XLA adds in float32 and leaves the rounding out.
        kept = jax.lax.optimization_barrier(x + difference)
        return kept.astype(jnp.float32) - x.astype(jnp.float32)

    return jax.tree.map(leaf, old, differences)


def _first_of_each(indices: Array) -> Array:
    """Return whether each number of a list is the first of its kind in it, shape (b,)."""
    # Quadratic in b, which is small beside n.
    place = jnp.arange(indices.shape[0])
    earlier = (indices[:, None] == indices[None, :]) & (place[:, None] < place[None, :])
    # Along the leading axis: on a CPU that is twice as fast as along the last one.
    return ~jnp.any(earlier, axis=0)
