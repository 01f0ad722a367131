"""Variance reduction by a table of past gradients: SAGA (Defazio et al. 2014; SAGA-LD, Dubey et al.
2016).

    g  = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − αᵢ) + Σᵢ αᵢ
    αᵢ ← ∇Vᵢ(θ) for i ∈ I

The table α starts at the gradients of the first point. Unbiased given the table. The covariance is
the plain gradient's with ∇Vᵢ(θ) − αᵢ in place of ∇Vᵢ(θ): not zero even if the ∇Vᵢ differ by
constants only, because rows were last seen at different points. On a quadratic the remaining noise
is of order h² under Langevin, h³ under underdamped dynamics. b evaluations a step and n at the
start.

The sum is kept with its rounding error: what float32 loses while the sum is large, far from the
mode, would be missing near the mode, because the table is never summed again. The rounding of the
batches' sums remains: for a start at which the gradients of rows are R times what they are near the
mode, some 10⁻⁶ R posterior sds.

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
from ewsg_jax.gradients._protocol import Estimate, Evaluations, NoiseModel, Sharing, Weight
from ewsg_jax.gradients._reference_point import SplitEstimator
from ewsg_jax.gradients._svrg import SVRG
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._named import Rows, sampling_scheme
from ewsg_jax.rows._view import CHUNK_SIZE, fetched, fold_over_rows, map_over_rows, num_rows

MEMORY_LIMIT = 4 * 2**30
"""Default of the bytes that the tables of all chains may take: set by hand, what most GPUs have."""


class SAGAMemory(NamedTuple):
    """What is kept between steps.

    Attributes:
        table: `Posterior.row_gradients` of each row at the point at which it was last seen, with n
            rows on the leading axis.
        gradient: the sum of the table, shaped like the position, at least in float32.
        error: the rounding error of that sum, of the same shape.
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
class SAGA(SplitEstimator[P]):
    """The estimator of `saga`."""

    needs = frozenset({Need.ALL_ROWS})  # its table has an entry for every row
    unbiased = True

    chunk_size: int = static(default=CHUNK_SIZE)
    memory_limit: int = static(default=MEMORY_LIMIT)

    @property
    def sharing(self) -> Sharing:
        """Which chains share the memory."""
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

        # The sum of the table as it is stored, after rounding to its dtype.
        # Rounding is corrected every 64 rows, about a batch.
        gradient, error = fold_over_rows(add, (zero, zero), (table, data), 64)
        return SAGAMemory(table, gradient, error)

    def propose(
        self, randomness: PyTree, memory: SAGAMemory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, SAGAUpdate]:
        posterior, batch = self.posterior, fetched(randomness, data)
        part = batch.rows
        # For linear models these are derivatives by the predictors, not by the position.
        new, old = posterior.row_gradients(point, part), pytrees.take(memory.table, batch.indices)
        differences, weights = pytrees.combine((1, new), (-1, old)), batch.weights
        estimated = posterior.estimate_from_rows(differences, part, data, weights)
        gradient = posterior.total(point, data, estimated, memory.gradient)
        # A row that comes twice would be replaced twice, and its difference would stay in the sum
        # for ever. If none does, the sum below is the one above, and XLA takes it once.
        once = (
            differences
            if self.law.distinct
            else pytrees.scaled_rows(differences, _first_of_each(batch.indices))
        )
        changed = posterior.sum_of_rows(_as_stored(old, once), part)
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
        # The time until a batch has a row again is geometric, with this rate.
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
    """Estimate ∇V by the sum of a table of gradients plus a difference on b rows.

    Args:
        posterior: the target.
        batch_size: b, the number of rows in a batch.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default), or another sampling scheme of `uniform`, with `replace=True`.
        chunk_size: number of rows that the first table evaluates at once, which bounds its memory.
        memory_limit: bytes that the tables of all chains may take; a run that needs more is
            refused. Default 4 GiB.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, a table larger
            than `memory_limit`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> estimator = ewsg.gradients.saga(ewsg.models.logistic_regression(), batch_size=10)
        >>> saga_ld = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    """
    check_posterior(posterior)
    scheme = sampling_scheme(batch_size, replace, rows)
    checks.integer("chunk_size", chunk_size)
    checks.integer("memory_limit", memory_limit)
    return SAGA(
        posterior=posterior, law=scheme, chunk_size=int(chunk_size), memory_limit=int(memory_limit)
    )


@jax.jit
def _table(estimator: SAGA, position: Position, data: Data) -> PyTree:
    """Return the first table; only its shapes are used, traced once for all equal estimators."""
    return estimator.first_table(position, data)


def _as_stored(old: PyTree, differences: PyTree) -> PyTree:
    """Return by what a table changes when differences are added to it, at least in float32.

    A table in half precision rounds these sums; the sum of the table has to follow it.
    """

    def leaf(x: Array, difference: Array) -> Array:
        if x.dtype.itemsize >= 4:
            return difference
        # Else XLA adds in float32 and leaves the rounding out.
        stored = jax.lax.optimization_barrier(x + difference)
        return stored.astype(jnp.float32) - x.astype(jnp.float32)

    return jax.tree.map(leaf, old, differences)


def _first_of_each(indices: Array) -> Array:
    """Return, for each place of a list, whether its number occurs there first; shape (b,)."""
    # Quadratic in b, which is small compared with n.
    place = jnp.arange(indices.shape[0])
    earlier = (indices[:, None] == indices[None, :]) & (place[:, None] < place[None, :])
    # Along the leading axis: on a CPU that is twice as fast as along the last one.
    return ~jnp.any(earlier, axis=0)
