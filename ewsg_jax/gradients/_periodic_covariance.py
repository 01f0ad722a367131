"""The plain gradient with a covariance that is computed every K steps and kept in between.

    g = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ)
    Cov = (1/b)(n Σᵢ ∇Vᵢ∇Vᵢᵀ − Σᵢ∇Vᵢ Σᵢ∇Vᵢᵀ) at ω, times (n − b)/(n − 1) for subsets and for the
    rows of epochs

Every K steps, the first included, ω ← θ and Cov is exact; until the next such step Cov at ω is
used, kept as its eigenvalues and eigenvectors. So a step costs a plain step and a product with d²
numbers (`covariance_tracking` follows the batches instead, with a second gradient of each and an
eigendecomposition a step). The error in between is the change of Cov from ω to θ: if the posterior
is narrow about its mode, a share of order 1/√n; far from the mode, as in a burn-in, K steps of a
friction that is too strong or too weak.

The estimate is unbiased, b evaluations a step and n at each reset (2n for a low rank: one more pass
for the basis). Memory: d², d or rd numbers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Data, Key, P, Position, PyTree
from ewsg_jax.gradients._covariance import Covariance, Structure
from ewsg_jax.gradients._covariance_at import exact_covariance
from ewsg_jax.gradients._period import Period
from ewsg_jax.gradients._protocol import Estimate, Weight
from ewsg_jax.gradients._spread import like_row, some_basis, turned
from ewsg_jax.gradients._with_covariance import WithCovariance, checked
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import CHUNK_SIZE, view


class PeriodicMemory(NamedTuple):
    """The covariance of the estimates at ω, as eigenvalues in a basis or as its diagonal."""

    covariance: Covariance


@module
class PeriodicCovariance(WithCovariance[P]):
    """The estimator of `periodic_covariance`, printed by its older name as in saved runs."""

    made_by = "kept_covariance"

    def init(self, key: Key, position: Position, data: Data) -> PeriodicMemory:
        # The first step resets.
        basis_key, _ = jax.random.split(key)
        row = like_row(self.posterior, position, data)
        basis = None
        if self.structure != "diagonal":
            rank = self.rank if self.structure == "low_rank" else row.shape[0]
            # A dense matrix is kept by eigenvectors: noise and friction are functions of it.
            basis = some_basis(basis_key, rank, row)
        zero = jnp.zeros(row.shape if basis is None else basis.shape[1:], row.dtype)
        return PeriodicMemory(Covariance(zero, basis))

    def renewed(self, memory: PeriodicMemory, point: Position, data: Data) -> PeriodicMemory:
        basis = memory.covariance.basis if self.structure == "low_rank" else None
        if basis is not None:
            basis = turned(self.posterior, point, data, self.chunk_size, view(data).same(basis))
        return PeriodicMemory(
            exact_covariance(
                self.posterior, self.law, point, data, self.structure, basis, self.chunk_size
            )
        )

    def propose(
        self,
        randomness: PyTree,
        memory: PeriodicMemory,
        point: Position,
        data: Data,
        weight: Weight,
    ) -> tuple[Estimate, PyTree]:
        estimate, update = super().propose(randomness, memory, point, data, weight)
        # Parts that lie on one device hold copies: one of them is read.
        return estimate._replace(covariance=view(data).same(memory.covariance)), update


def periodic_covariance(
    posterior: Posterior[P],
    *,
    batch_size: int,
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    replace: bool = True,
    rows: Rows = "random",
    chunk_size: int = CHUNK_SIZE,
) -> PeriodicCovariance[P]:
    """Estimate ∇V as `uniform` does, and report the estimate's covariance at the last reset.

    Args:
        posterior: the target.
        batch_size: b, the number of rows in a batch.
        refresh_every: K, steps from one reset to the next: a whole number, or a function of n that
            returns one. Default: ⌈n/b⌉, one reset per pass over the data, as costly as the steps of
            the pass; with ten times as many steps (`lambda n: 10 * n // b`) a tenth of their cost.
        structure: form of the covariance: `"dense"` (default), `"diagonal"`, or `"low_rank"`:
            within a basis that each reset turns towards the leading directions.
        rank: r, the rank with `"low_rank"`; at most d are used. Default 10.
        replace: as in `uniform`.
        rows: `"random"` (default) or `"epochs"`, as in `uniform`; the covariance of a block's sum
            is not computed.
        chunk_size: number of rows that a reset takes at once, which bounds its memory.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> estimator = ewsg.gradients.periodic_covariance(
        ...     ewsg.models.gaussian_location(), batch_size=1
        ... )
        >>> nc_sghmc = ewsg.kernel(ewsg.dynamics.noise_corrected(1e-2, friction=10.0), estimator)
    """
    return PeriodicCovariance(
        **checked(posterior, batch_size, refresh_every, structure, rank, replace, rows, chunk_size)
    )
