"""The estimate that an anchor w with its full gradient gives, for SVRG and control variates.

g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w)
"""

from ewsg_jax import _tree
from ewsg_jax._types import Array, Data, Position, PyTree
from ewsg_jax.gradients.protocol import Estimate, OfRows
from ewsg_jax.rows import gathering
from ewsg_jax.rows.gathering import Batch


def anchored_estimate(
    estimator: OfRows, anchor: Position, anchor_gradient: Position, batch: Batch, point: Position, data: Data
) -> Estimate:
    """Return g at a point; `anchor_gradient` is Σᵢ ∇Vᵢ(w), at least in float32."""
    posterior = estimator.posterior
    if posterior.predictor is None:
        at_anchor = estimator.batch_gradient(batch, anchor, data)
        constant = _tree.combine((1, anchor_gradient), (-1, at_anchor))
        return Estimate(_gradient(estimator, batch, constant, point, data), (batch.indices, constant))
    # Two numbers a row are subtracted before the rows are summed: one sum, not two, and one without the rounding of
    # two of the size of n, which moves the mean where the posterior is wide (Covertype: by 0.06 sd).
    part, weights = gathering.rows_of(batch, data), estimator.weights_of(batch, data)
    there, at_anchor = (_tree.widened(posterior.row_gradients(place, part)) for place in (point, anchor))
    differences = _tree.combine((1, there), (-1, at_anchor))
    estimated = posterior.estimate_from_rows(differences, part, data, weights)
    gradient = posterior.total(point, data, estimated, anchor_gradient)
    of_batch = posterior.estimate_from_rows(at_anchor, part, data, weights)
    return Estimate(gradient, (batch.indices, _tree.combine((1, anchor_gradient), (-1, of_batch))))


def anchored_gradient_at(estimator: OfRows, estimate: Estimate, position: Position, data: Data) -> Position:
    """Return g at another point, of the estimate's own batch and memory."""
    indices, constant = estimate.batch
    return _gradient(estimator, indices, constant, position, data)


def _gradient(
    estimator: OfRows, batch: Batch | Array, constant: PyTree, position: Position, data: Data
) -> Position:
    """∇V₀ + (n/b) Σ ∇Vᵢ + what does not depend on the position."""
    of_batch = estimator.batch_gradient(batch, position, data)
    return estimator.posterior.total(position, data, of_batch, constant)
