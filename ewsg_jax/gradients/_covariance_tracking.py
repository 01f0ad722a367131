"""The plain gradient with a running estimate of its covariance (EWSG-VR, Algorithm 2).

    g = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ)
    m₁ ← m₁ + Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(ω)),   m₂ ← m₂ + n Σ_{i∈I} (∇Vᵢ∇Vᵢᵀ(θ) − ∇Vᵢ∇Vᵢᵀ(ω))
    Cov = (m₂ − m₁m₁ᵀ)/b, times (n − b)/(n − 1) for subsets and for the rows of epochs

Every K steps, the first included, ω ← θ, m₁ = Σᵢ ∇Vᵢ(ω) and m₂ = n Σᵢ ∇Vᵢ∇Vᵢᵀ(ω): the covariance is then exact.
In the paper's listing the inner loop stands in an `else`, so that with a reset in each pass nothing would move, and
`ω ← θ` is lost. Between resets Cov may be indefinite: its negative part is dropped and such steps are counted.

The estimate is unbiased, 2b evaluations a step and n at each reset (2n for a low rank: one more pass for the
basis).
Memory: d², 2d or (r + 2)d numbers; a dense one costs an eigendecomposition a step.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _check, _random, _tree, products
from ewsg_jax._module import module, static
from ewsg_jax._types import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients import batching
from ewsg_jax.gradients.covariance import STRUCTURES, Covariance, Structure, clipped
from ewsg_jax.gradients.period import Period, checked_period, epoch, period_at
from ewsg_jax.gradients.protocol import Estimate, Evaluations, OfRows, Weight
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows import gathering
from ewsg_jax.rows.blocks import Blocks
from ewsg_jax.rows.gathering import CHUNK_SIZE, num_rows
from ewsg_jax.rows.named import RowLawName, row_law
from ewsg_jax.tags import saved_as


@saved_as("gradient_moments")
class Moments(NamedTuple):
    """m₁, shape (d,), and m₂ in the structure: (d, d), its diagonal (d,), or its part in a basis (r, r)."""

    first: Array
    second: Array


@saved_as("tracking_memory")
class TrackingMemory(NamedTuple):
    """What is kept between steps.

    Attributes:
        anchor: ω.
        moments: m₁ and m₂.
        basis: shape (d, r) for a low rank, else None.
        num_clipped: how many steps so far had an indefinite covariance, int32.
        rows: of the row law.
    """

    anchor: Position
    moments: Moments
    basis: Array | None
    num_clipped: Array
    rows: PyTree


class TrackingReceipt(NamedTuple):
    """How a batch changes the moments, and whether the covariance was clipped."""

    change: Moments
    was_clipped: Array
    rows: PyTree


@module
class CovarianceTracking(OfRows[TrackingMemory]):
    """The estimator of `covariance_tracking`."""

    refresh_every: Period = static(default=None)
    structure: Structure = static(default="dense")
    rank: int = static(default=10)
    chunk_size: int = static(default=CHUNK_SIZE)

    @property
    def reports_covariance(self) -> bool:
        return True

    @property
    def passes(self) -> int:
        """How many passes over the data a reset takes."""
        return 2 if self.structure == "low_rank" else 1

    def period(self, data: Data) -> int:
        """Return K."""
        return period_at("refresh_every", self.refresh_every, epoch(self.batch_size), num_rows(data))

    def check(self, position: Position, data: Data) -> None:
        super().check(position, data)
        self.period(data)

    def moments_of(self, position: Position, part: Data, basis: Array | None, n: int) -> Moments:
        """Return what some rows add to m₁ and m₂."""
        g = self.posterior.flat_row_gradients(position, part)
        seen = g if basis is None else products.matmul(g, basis)
        second = jnp.sum(seen**2, axis=0) if self.structure == "diagonal" else products.matmul(seen.T, seen)
        return Moments(jnp.sum(g, axis=0), n * second)

    def init(self, key: Key, position: Position, data: Data) -> TrackingMemory:
        # The first step resets.
        basis_key, rows_key = jax.random.split(key)
        d = sum(x.size for x in jax.tree.leaves(position))
        one = jax.eval_shape(
            lambda p, rows: self.moments_of(p, rows, None, 1), position, jax.tree.map(lambda x: x[:1], data)
        )
        r = min(self.rank, d)
        basis = None
        if self.structure == "low_rank":
            some = _random.noise(basis_key, jax.ShapeDtypeStruct((d, r), one.first.dtype))
            basis = jnp.linalg.qr(some)[0]
        size = {"dense": (d, d), "diagonal": (d,), "low_rank": (r, r)}[self.structure]
        moments = Moments(jnp.zeros(d, one.first.dtype), jnp.zeros(size, one.second.dtype))
        return TrackingMemory(_tree.copy(position), moments, basis, jnp.int32(0), self.law.init(rows_key))

    def refresh(
        self, randomness: PyTree, memory: TrackingMemory, step: Array, point: Position, data: Data
    ) -> tuple[TrackingMemory, Position, Any]:
        n = num_rows(data)
        due = step % self.period(data) == 0

        def turned(basis: Array) -> Array:
            # One step of orthogonal iteration: the covariance times the last basis.
            def image(part: Data) -> tuple[Array, Array]:
                g = self.posterior.flat_row_gradients(point, part)
                return jnp.sum(g, axis=0), products.matmul(g.T, products.matmul(g, basis))

            first, second = gathering.sum_over_rows(image, data, self.chunk_size)
            return jnp.linalg.qr(n * second - jnp.outer(first, products.matmul(first, basis)))[0]

        def renew() -> tuple[Position, Moments, Array | None]:
            basis = None if memory.basis is None else turned(memory.basis)
            moments = gathering.sum_over_rows(
                lambda part: self.moments_of(point, part, basis, n), data, self.chunk_size
            )
            return point, moments, basis

        anchor, moments, basis = batching.where_due(due, renew, (memory.anchor, memory.moments, memory.basis))
        renewed = memory._replace(anchor=anchor, moments=moments, basis=basis)
        return renewed, point, jnp.where(due, self.passes * n, 0)

    def covariance_of(self, memory: TrackingMemory, n: int) -> tuple[Covariance, Array]:
        """Return the covariance of the estimate, and whether it was indefinite."""
        b = self.batch_size
        first = memory.moments.first
        if memory.basis is not None:
            first = products.matmul(memory.basis.T, first)
        mean = first**2 if self.structure == "diagonal" else jnp.outer(first, first)
        scale = 1 / b if self.law.independent else (n - b) / (max(n - 1, 1) * b)
        second = memory.moments.second
        # What a difference of sums over n rows may be below zero by rounding alone.
        rounding = 4 * n**0.5 * jnp.finfo(second.dtype).eps * scale * jnp.max(jnp.abs(second))
        matrix, was_clipped = clipped(scale * (second - mean), rounding)
        return Covariance(matrix, memory.basis), was_clipped

    def propose(
        self, randomness: PyTree, memory: TrackingMemory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, TrackingReceipt]:
        n = num_rows(data)
        batch = self.law.batch(randomness, memory.rows, data)
        part = gathering.rows_of(batch, data)
        here, there = (self.moments_of(at, part, memory.basis, n) for at in (point, memory.anchor))
        covariance, was_clipped = self.covariance_of(memory, n)
        estimate = Estimate(self._gradient(batch, point, data), batch.indices, covariance=covariance)
        change = _tree.combine((1, here), (-1, there))
        return estimate, TrackingReceipt(change, was_clipped, self.law.advance(memory.rows, data))

    def probe(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self._gradient(estimate.batch, position, data)

    def commit(self, receipt: TrackingReceipt, memory: TrackingMemory) -> TrackingMemory:
        return memory._replace(
            moments=_tree.combine((1, memory.moments), (1, receipt.change)),
            num_clipped=memory.num_clipped + receipt.was_clipped,
            rows=receipt.rows,
        )

    def evaluations(self, data: Data) -> Evaluations:
        b, n = self.batch_size, num_rows(data)
        return Evaluations(2 * b, b, per_refresh=self.passes * n, refresh_every=self.period(data))

    def _gradient(self, batch: Any, position: Position, data: Data) -> Position:
        return _tree.combine(
            (1, self.posterior.prior_gradient(position)),
            (1, self.posterior.batch_gradient(position, data, batch, widened=True)),
        )


def covariance_tracking(
    posterior: Posterior,
    *,
    batch_size: int,
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    replace: bool = True,
    rows: RowLawName = "random",
    chunk_size: int = CHUNK_SIZE,
) -> CovarianceTracking:
    """Estimate ∇V as `uniform` does, and report the covariance of the estimate.

    Args:
        posterior: what is sampled.
        batch_size: b, rows per step.
        refresh_every: K, steps from one reset to the next: a whole number, or a function of n that returns one.
            Default: ⌈n/b⌉.
        structure: `"dense"`, `"diagonal"`, or `"low_rank"`: within a basis that each reset turns towards the
            leading directions.
        rank: r, for a low rank; at most the numbers of a position are used.
        replace: as in `uniform`.
        rows: `"random"` or `"epochs"`, as in `uniform`: the covariance of a block's sum is another one.
        chunk_size: rows that a reset takes at once.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> estimator = ewsg.gradients.covariance_tracking(ewsg.models.gaussian_location(), batch_size=1)
        >>> nc_sghmc = ewsg.kernel(ewsg.dynamics.noise_corrected(1e-2, friction=10.0), estimator)
    """
    _check.instance("posterior", posterior, Posterior, "ewsg_jax.Posterior(…) or one of ewsg_jax.models")
    law = row_law(batch_size, replace, rows)
    if isinstance(law, Blocks):
        raise ValueError("rows must be 'random' or 'epochs': a block's covariance is not tracked; got 'blocks'")
    every = checked_period("refresh_every", refresh_every)
    _check.one_of("structure", structure, STRUCTURES)
    _check.integer("rank", rank)
    _check.integer("chunk_size", chunk_size)
    return CovarianceTracking(
        posterior=posterior,
        law=law,
        refresh_every=every,
        structure=structure,
        rank=int(rank),
        chunk_size=int(chunk_size),
    )
