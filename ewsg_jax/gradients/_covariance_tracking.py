"""The plain gradient with a running estimate of its covariance (EWSG-VR, Algorithm 2).

    g = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ)
    m₁ ← m₁ + Σ_{i∈I} (aᵢ(θ) − aᵢ(ω)),   m₂ ← m₂ + n Σ_{i∈I} (aᵢaᵢᵀ(θ) − aᵢaᵢᵀ(ω)),   aᵢ = ∇Vᵢ − c
    Cov = (m₂ − m₁m₁ᵀ)/b, times (n − b)/(n − 1) for subsets and for the rows of epochs

Every K steps, the first included, ω ← θ, c is the mean of ∇Vᵢ(ω), m₁ = 0 and m₂ = n Σᵢ aᵢaᵢᵀ(ω):
the covariance is then exact. The paper has c = 0, which gives the same Cov in exact arithmetic,
because as many rows enter the moments as leave them; but far from the mode its m₂ and m₁m₁ᵀ are
large compared with their difference. In its listing the inner loop is in an `else`, so that with a
reset in each pass nothing would move, and `ω ← θ` is missing; and each step uses the moments from
before the step, so that a reset takes effect one step late. Here it takes effect at once. Between
resets Cov may be indefinite: its negative part is dropped. Steps with such a covariance, or one
lost in rounding, are counted.

The estimate is unbiased, 2b evaluations a step, b of them at ω for the accepted batch alone, and n
at each reset (2n for a low rank: one more pass for the basis). Memory: d², 4d or (r + 3)d numbers;
a dense one costs an eigendecomposition a step.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import products, pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree
from ewsg_jax.gradients._covariance import Covariance, Structure, clipped
from ewsg_jax.gradients._period import Period
from ewsg_jax.gradients._protocol import Estimate, Evaluations, Weight
from ewsg_jax.gradients._spread import like_row, number_of, outer, share, some_basis, spread, turned
from ewsg_jax.gradients._with_covariance import WithCovariance, checked
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import CHUNK_SIZE, fetched, view


class GradientMoments(NamedTuple):
    """m₁, shape (d,), and m₂ in the structure: (d, d), diagonal (d,), or (r, r) in a basis."""

    first: Array
    second: Array


class TrackingMemory(NamedTuple):
    """What is kept between steps.

    Attributes:
        anchor: ω.
        center: c, shape (d,).
        moments: m₁ and m₂.
        rounding: bound of what rounding of the ∇Vᵢ(ω) may have added to m₂, a scalar.
        basis: shape (d, r) for a low rank, else None.
        num_clipped: number of steps so far whose covariance was indefinite or lost in rounding,
            int32.
    """

    anchor: Position
    center: Array
    moments: GradientMoments
    rounding: Array
    basis: Array | None
    num_clipped: Array


class TrackingUpdate(NamedTuple):
    """What `commit` computes the change of the moments from, and whether Cov was clipped.

    Attributes:
        row_gradients: `Posterior.row_gradients` of the batch at θ.
        batch: the rows of the batch.
        num_rows: n; on a part of the data the number of its rows.
        was_clipped: whether Cov was indefinite or lost in rounding, a bool.
    """

    row_gradients: PyTree
    batch: Data
    num_rows: np.int32 | Array
    was_clipped: Array


@module
class CovarianceTracking(WithCovariance[P]):
    """The estimator of `covariance_tracking`."""

    def init(self, key: Key, position: Position, data: Data) -> TrackingMemory:
        # The first step resets.
        basis_key, _ = jax.random.split(key)
        row = like_row(self.posterior, position, data)
        (d,), dtype = row.shape, row.dtype
        basis = some_basis(basis_key, self.rank, row) if self.structure == "low_rank" else None
        # A basis has no more directions than the position has numbers.
        r = min(self.rank, d)
        size = {"dense": (d, d), "diagonal": (d,), "low_rank": (r, r)}[self.structure]
        moments = GradientMoments(jnp.zeros(d, dtype), jnp.zeros(size, dtype))
        rounding = jnp.zeros((), dtype)
        start = pytrees.copy(position), jnp.zeros(d, dtype)
        return TrackingMemory(*start, moments, rounding, basis, jnp.int32(0))

    def renewed(self, memory: TrackingMemory, point: Position, data: Data) -> TrackingMemory:
        basis = memory.basis
        if basis is not None:
            # The basis first, for moments are kept within it.
            basis = turned(self.posterior, point, data, self.chunk_size, view(data).same(basis))
        center, second = spread(self.posterior, point, data, self.chunk_size, self.structure, basis)
        here = number_of(data, center.dtype)
        return memory._replace(
            anchor=point,
            center=center,
            moments=GradientMoments(jnp.zeros_like(memory.moments.first), second),
            # The mean is subtracted row by row, so its own rounding is squared into m₂.
            rounding=(jnp.finfo(center.dtype).eps * here * jnp.max(jnp.abs(center))) ** 2,
            basis=basis,
        )

    def covariance_of(self, memory: TrackingMemory, data: Data) -> tuple[Covariance, Array]:
        """Return the estimate's covariance, and whether it was indefinite or lost in rounding."""
        first = memory.moments.first
        if memory.basis is not None:
            first = products.matmul(memory.basis.T, first)
        # m₂ − m₁m₁ᵀ, both as sums over rows less c.
        mean = first**2 if self.structure == "diagonal" else jnp.outer(first, first)
        second = memory.moments.second
        scale, n = share(self.law, data, second.dtype), number_of(data, second.dtype)
        # What a difference of sums over n rows may be below zero by rounding alone.
        rounding = (
            4 * n**0.5 * jnp.finfo(second.dtype).eps * jnp.max(jnp.abs(second)) + memory.rounding
        )
        # Parts of the data add their covariances; their rounding adds, too.
        matrix, rounding = view(data).across((scale * (second - mean), scale * rounding))
        return clipped(matrix, rounding, view(data).same(memory.basis))

    def propose(
        self,
        randomness: PyTree,
        memory: TrackingMemory,
        point: Position,
        data: Data,
        weight: Weight,
    ) -> tuple[Estimate, TrackingUpdate]:
        n = view(data).counted
        batch = fetched(randomness, data)
        part = batch.rows
        row_gradients = self.posterior.row_gradients(point, part)
        gradient = self.posterior.total(
            point, data, self.posterior.estimate_from_rows(row_gradients, part, data)
        )
        covariance, was_clipped = self.covariance_of(memory, data)
        number = np.int32(n) if isinstance(n, int) else n
        update = TrackingUpdate(row_gradients, part, number, was_clipped)
        return Estimate(gradient, batch, covariance=covariance), update

    def commit(self, update: TrackingUpdate, memory: TrackingMemory) -> TrackingMemory:
        # Here and not in `propose`: gradients at ω are evaluated for the accepted batch alone.
        here = self.posterior.flat_rows(update.row_gradients, update.batch) - memory.center[None]
        there = self.posterior.flat_row_gradients(memory.anchor, update.batch) - memory.center[None]
        first, second = memory.moments
        # Only the accepted batch's rows change; the others still have their gradients at ω.
        change = outer(here, self.structure, memory.basis) - outer(
            there, self.structure, memory.basis
        )
        return memory._replace(
            moments=GradientMoments(
                first + jnp.sum(here - there, axis=0),
                second + update.num_rows.astype(second.dtype) * change,
            ),
            num_clipped=memory.num_clipped + update.was_clipped.astype(jnp.int32),
        )

    def evaluations(self, data: Data) -> Evaluations:
        b = self.batch_size
        return super().evaluations(data)._replace(per_step=2 * b, per_accepted=b)


def covariance_tracking(
    posterior: Posterior[P],
    *,
    batch_size: int,
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    replace: bool = True,
    rows: Rows = "random",
    chunk_size: int = CHUNK_SIZE,
) -> CovarianceTracking[P]:
    """Estimate ∇V as `uniform` does, and report the covariance of the estimate.

    Args:
        posterior: the target.
        batch_size: b, the number of rows in a batch.
        refresh_every: K, steps from one reset to the next: a whole number, or a function of n that
            returns one. Default: ⌈n/b⌉.
        structure: form of the covariance: `"dense"` (default), `"diagonal"`, or `"low_rank"`:
            within a basis that each reset turns towards the leading directions.
        rank: r, the rank with `"low_rank"`; at most d are used. Default 10.
        replace: as in `uniform`.
        rows: `"random"` (default) or `"epochs"`, as in `uniform`; the covariance of a block's sum
            is not tracked.
        chunk_size: number of rows that a reset takes at once, which bounds its memory.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> estimator = ewsg.gradients.covariance_tracking(
        ...     ewsg.models.gaussian_location(), batch_size=1
        ... )
        >>> nc_sghmc = ewsg.kernel(ewsg.dynamics.noise_corrected(1e-2, friction=10.0), estimator)
    """
    return CovarianceTracking(
        **checked(posterior, batch_size, refresh_every, structure, rank, replace, rows, chunk_size)
    )
