"""The estimate from a reference point w and its full gradient, for SVRG and control variates.

g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w)
"""

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Data, P, Position
from ewsg_jax.gradients._protocol import Estimate, OfRows
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import Batch


def estimate_from_reference(
    posterior: Posterior,
    reference: Position,
    reference_gradient: Position,
    batch: Batch,
    point: Position,
    data: Data,
) -> Estimate:
    """Return g at a point; the batch has its rows, `reference_gradient` is Σᵢ ∇Vᵢ(w)."""
    if posterior.predictor is None:
        # What does not depend on the point: another gradient of the step adds it again.
        constant = pytrees.combine(
            (1, reference_gradient), (-1, posterior.batch_sum(reference, data, batch))
        )
        gradient = posterior.total(point, data, posterior.batch_sum(point, data, batch), constant)
        return Estimate(gradient, (batch, constant))
    # Two numbers a row are subtracted before the rows are summed: one sum, not two, and without the
    # rounding of two sums of the size of n, which moves the mean if the posterior is wide (by 0.06
    # sd on Covertype).
    part = batch.rows
    there, at_reference = (
        pytrees.widened(posterior.row_gradients(place, part)) for place in (point, reference)
    )
    differences = pytrees.combine((1, there), (-1, at_reference))
    estimated = posterior.estimate_from_rows(differences, part, data, batch.weights)
    gradient = posterior.total(point, data, estimated, reference_gradient)
    of_batch = posterior.estimate_from_rows(at_reference, part, data, batch.weights)
    return Estimate(gradient, (batch, pytrees.combine((1, reference_gradient), (-1, of_batch))))


@module
class SplitEstimator(OfRows[P]):
    """An estimator whose estimates keep the batch and the part that is the same at all points."""

    def gradient_at(self, estimate: Estimate, position: P, data: Data) -> P:
        # The batch and the memory are the same, so the reference point's part is constant.
        batch, constant = estimate.batch
        of_batch = self.posterior.batch_sum(position, data, batch)
        return self.posterior.total(position, data, of_batch, constant)
