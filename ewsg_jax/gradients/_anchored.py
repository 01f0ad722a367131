"""The estimate that an anchor w with its full gradient gives, for SVRG and control variates.

g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w)
"""

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Data, P, Position
from ewsg_jax.gradients._protocol import Estimate, OfRows
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import Batch


def anchored_estimate(
    posterior: Posterior,
    anchor: Position,
    anchor_gradient: Position,
    batch: Batch,
    point: Position,
    data: Data,
) -> Estimate:
    """Return g at a point, of a batch with rows; `anchor_gradient`: Σᵢ ∇Vᵢ(w), float32 at least."""
    if posterior.predictor is None:
        # What does not depend on the point: another gradient of the step adds it again.
        constant = pytrees.combine(
            (1, anchor_gradient), (-1, posterior.batch_sum(anchor, data, batch))
        )
        gradient = posterior.total(point, data, posterior.batch_sum(point, data, batch), constant)
        return Estimate(gradient, (batch, constant))
    # Two numbers a row are subtracted before the rows are summed: one sum, not two, and one without
    # the rounding of two of the size of n, which moves the mean where the posterior is wide
    # (Covertype: by 0.06 sd).
    part = batch.rows
    there, at_anchor = (
        pytrees.widened(posterior.row_gradients(place, part)) for place in (point, anchor)
    )
    differences = pytrees.combine((1, there), (-1, at_anchor))
    estimated = posterior.estimate_from_rows(differences, part, data, batch.weights)
    gradient = posterior.total(point, data, estimated, anchor_gradient)
    of_batch = posterior.estimate_from_rows(at_anchor, part, data, batch.weights)
    return Estimate(gradient, (batch, pytrees.combine((1, anchor_gradient), (-1, of_batch))))


@module
class Anchored(OfRows[P]):
    """An estimator whose estimates hold, beside the batch, what does not depend on the point."""

    def gradient_at(self, estimate: Estimate, position: P, data: Data) -> P:
        # Of the same batch and memory: the anchor's part is constant.
        batch, constant = estimate.batch
        of_batch = self.posterior.batch_sum(position, data, batch)
        return self.posterior.total(position, data, of_batch, constant)
