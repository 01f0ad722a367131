"""The full gradient: ∇V = ∇V₀ + Σᵢ ∇Vᵢ. Exact, n evaluations a step, no memory."""

import math

from ewsg_jax.base import checks
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Data, Key, P, Position
from ewsg_jax.gradients._protocol import (
    Estimate,
    Evaluations,
    GradientEstimator,
    NoiseModel,
    Weight,
)
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._scheme import Order
from ewsg_jax.rows._view import CHUNK_SIZE, all_rows


@module
class Full(GradientEstimator[P]):
    """The estimator of `full`."""

    needs = frozenset()

    uses_batches = False

    chunk_size: int = static(default=CHUNK_SIZE)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> tuple[()]:
        return ()

    def propose(
        self, randomness: tuple[()], memory: tuple[()], point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, tuple[()]]:
        return Estimate(self.posterior.gradient(point, data, self.chunk_size), ()), ()

    def gradient_at(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self.posterior.gradient(position, data, self.chunk_size)

    def evaluations(self, data: Data) -> Evaluations:
        return Evaluations(all_rows(data), all_rows(data))

    def noise_model(self, data: Data) -> NoiseModel:
        return NoiseModel(order=math.inf)


def full(posterior: Posterior[P], *, chunk_size: int = CHUNK_SIZE) -> Full[P]:
    """Return ∇V itself as the estimate, summed over `chunk_size` rows at a time.

    Args:
        posterior: the target.
        chunk_size: number of rows taken at once, which bounds memory by one chunk (times the chains
            under `vmap`). Default 4,096.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> ld = ewsg.kernel(ewsg.dynamics.langevin(1e-2), ewsg.gradients.full(model))
    """
    check_posterior(posterior)
    return Full(posterior=posterior, chunk_size=checks.integer("chunk_size", chunk_size))
