"""The full gradient: ∇V = ∇V₀ + Σᵢ ∇Vᵢ. Exact, n evaluations a step, no memory."""

import numpy as np

from ewsg_jax import _check
from ewsg_jax._rows import CHUNK_SIZE, num_rows
from ewsg_jax._types import Data, Key, Position
from ewsg_jax.gradients._protocol import Estimate, Evaluations, GradientEstimator, Memory, Weight
from ewsg_jax.posterior import Posterior


def full(posterior: Posterior, *, chunk_size: int = CHUNK_SIZE) -> GradientEstimator:
    """Estimate ∇V by itself, summed over `chunk_size` rows at a time.

    Args:
        posterior: what is sampled.
        chunk_size: rows taken at once; memory is bounded by one chunk (times the chains under `vmap`).

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> ld = ewsg.kernel(ewsg.dynamics.langevin(1e-2), ewsg.gradients.full(model))
    """
    _check.instance("posterior", posterior, Posterior, "ewsg_jax.Posterior(…) or one of ewsg_jax.models")
    _check.integer("chunk_size", chunk_size)

    def draw(key: Key, data: Data) -> tuple[()]:
        return ()

    def propose(
        randomness: tuple[()], memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, tuple[()]]:
        return Estimate(posterior.gradient(point, data, chunk_size), (), np.float32(1.0)), ()

    def probe(estimate: Estimate, position: Position, data: Data) -> Position:
        return posterior.gradient(position, data, chunk_size)

    def evaluations(data: Data) -> Evaluations:
        return Evaluations(num_rows(data), num_rows(data))

    return GradientEstimator(
        draw, propose, probe, posterior.prior_gradient, evaluations, posterior.check, uses_batches=False
    )
