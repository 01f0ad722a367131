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

from ewsg_jax import _batching, _check, _random, _rows, _tree
from ewsg_jax._rows import CHUNK_SIZE, num_rows
from ewsg_jax._tags import saved_as
from ewsg_jax._types import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients._covariance import STRUCTURES, Covariance, Structure, clipped
from ewsg_jax.gradients._period import Period, epoch, period
from ewsg_jax.gradients._protocol import Estimate, Evaluations, GradientEstimator, Weight
from ewsg_jax.gradients._row_laws import RowLawName, row_law
from ewsg_jax.posterior import Posterior


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
) -> GradientEstimator:
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
    if rows == "blocks":
        raise ValueError("rows must be 'random' or 'epochs': a block's covariance is not tracked; got 'blocks'")
    steps_per_reset = period("refresh_every", refresh_every, epoch(batch_size))
    _check.one_of("structure", structure, STRUCTURES)
    _check.integer("rank", rank)
    _check.integer("chunk_size", chunk_size)
    is_low_rank = structure == "low_rank"

    def check(position: Position, data: Data) -> None:
        posterior.check(position, data)
        law.check(data)
        steps_per_reset(num_rows(data))

    def moments_of(position: Position, part: Data, basis: Array | None, n: int) -> Moments:
        g = posterior.flat_row_gradients(position, part)
        seen = g if basis is None else g @ basis
        second = jnp.sum(seen**2, axis=0) if structure == "diagonal" else seen.T @ seen
        return Moments(jnp.sum(g, axis=0), n * second)

    def init(key: Key, position: Position, data: Data) -> TrackingMemory:
        # The first step resets.
        basis_key, rows_key = jax.random.split(key)
        d = sum(x.size for x in jax.tree.leaves(position))
        one = moments_of_shape(position, data)
        basis = None
        if is_low_rank:
            some = _random.noise(basis_key, jax.ShapeDtypeStruct((d, min(rank, d)), one.first.dtype))
            basis = jnp.linalg.qr(some)[0]
        size = {"dense": (d, d), "diagonal": (d,), "low_rank": (min(rank, d),) * 2}[structure]
        moments = Moments(jnp.zeros(d, one.first.dtype), jnp.zeros(size, one.second.dtype))
        return TrackingMemory(_tree.copy(position), moments, basis, jnp.int32(0), law.init(rows_key))

    def moments_of_shape(position: Position, data: Data) -> Moments:
        part = jax.tree.map(lambda x: x[:1], data)
        return jax.eval_shape(lambda p, rows: moments_of(p, rows, None, 1), position, part)

    def refresh(
        randomness: PyTree, memory: TrackingMemory, step: Array, point: Position, data: Data
    ) -> tuple[TrackingMemory, Position, Any]:
        n = num_rows(data)
        due = step % steps_per_reset(n) == 0

        def turned(basis: Array) -> Array:
            # One step of orthogonal iteration: the covariance times the last basis.
            def image(part: Data) -> tuple[Array, Array]:
                g = posterior.flat_row_gradients(point, part)
                return jnp.sum(g, axis=0), g.T @ (g @ basis)

            first, second = _rows.sum_over_rows(image, data, chunk_size)
            return jnp.linalg.qr(n * second - jnp.outer(first, first @ basis))[0]

        def renew() -> tuple[Position, Moments, Array | None]:
            basis = None if memory.basis is None else turned(memory.basis)
            moments = _rows.sum_over_rows(lambda part: moments_of(point, part, basis, n), data, chunk_size)
            return point, moments, basis

        anchor, moments, basis = _batching.where_due(due, renew, (memory.anchor, memory.moments, memory.basis))
        passes = 2 if is_low_rank else 1
        return memory._replace(anchor=anchor, moments=moments, basis=basis), point, jnp.where(due, passes * n, 0)

    def covariance_of(memory: TrackingMemory, n: int) -> tuple[Covariance, Array]:
        first = memory.moments.first if memory.basis is None else memory.basis.T @ memory.moments.first
        mean = first**2 if structure == "diagonal" else jnp.outer(first, first)
        independent = replace and rows == "random"
        scale = 1 / batch_size if independent else (n - batch_size) / (max(n - 1, 1) * batch_size)
        second = memory.moments.second
        # What a difference of sums over n rows may be below zero by rounding alone.
        rounding = 4 * n**0.5 * jnp.finfo(second.dtype).eps * scale * jnp.max(jnp.abs(second))
        matrix, was_clipped = clipped(scale * (second - mean), rounding)
        return Covariance(matrix, memory.basis), was_clipped

    def gradient(batch: Any, position: Position, data: Data) -> Position:
        return _tree.combine(
            (1, posterior.prior_gradient(position)), (1, posterior.batch_gradient(position, data, batch))
        )

    def propose(
        randomness: PyTree, memory: TrackingMemory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, TrackingReceipt]:
        n = num_rows(data)
        batch = law.batch(randomness, memory.rows, data)
        part = _rows.rows_of(batch, data)
        here, there = (moments_of(at, part, memory.basis, n) for at in (point, memory.anchor))
        covariance, was_clipped = covariance_of(memory, n)
        estimate = Estimate(gradient(batch, point, data), batch.indices, covariance=covariance)
        change = _tree.combine((1, here), (-1, there))
        return estimate, TrackingReceipt(change, was_clipped, law.advance(memory.rows, data))

    def probe(estimate: Estimate, position: Position, data: Data) -> Position:
        return gradient(estimate.batch, position, data)

    def commit(receipt: TrackingReceipt, memory: TrackingMemory) -> TrackingMemory:
        return memory._replace(
            moments=_tree.combine((1, memory.moments), (1, receipt.change)),
            num_clipped=memory.num_clipped + receipt.was_clipped,
            rows=receipt.rows,
        )

    def evaluations(data: Data) -> Evaluations:
        n = num_rows(data)
        return Evaluations(
            2 * batch_size, batch_size, per_refresh=(2 if is_low_rank else 1) * n, refresh_every=steps_per_reset(n)
        )

    return GradientEstimator(
        law.draw,
        propose,
        probe,
        posterior.prior_gradient,
        evaluations,
        check,
        law.gather,
        init,
        refresh,
        commit,
        batches=law.batches,
        exchangeable=law.exchangeable,
        reports_covariance=True,
    )
