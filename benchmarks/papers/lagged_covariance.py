"""The covariance of EWSG-VR as its listing has it, Algorithm 2 of Li, Wang, Zha & Tao: one step
late.

The first step has none (Γ₀ = γ). Each later step has that of the moments after the last one, so
that a reset is seen one step late, and the first step of a pass moves with the friction of the pass
before. `covariance_tracking` reports the covariance of the moments at the step; the rest is the
same.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from benchmarks.papers.annotations import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients import CovarianceTracking, Estimate, Weight, covariance_tracking


class LaggedMemory(NamedTuple):
    """The memory of `covariance_tracking`, now and as the last step left it."""

    now: Any
    before: Any


@ewsg.module
class LaggedCovariance(CovarianceTracking):
    """The estimator of `lagged_covariance`."""

    def init(self, key: Key, position: Position, data: Data) -> Any:
        # Moments of 0, of which the covariance is 0: the first step resets after it was read.
        now = super().init(key, position, data)
        return LaggedMemory(now, jax.tree.map(jnp.copy, now))

    def refresh(
        self, randomness: PyTree, memory: Any, step: Array, point: Position, data: Data
    ) -> tuple[Any, Position, Any]:
        renewed, point, evaluations = super().refresh(randomness, memory.now, step, point, data)
        return LaggedMemory(renewed, memory.now), point, evaluations

    def propose(
        self, randomness: PyTree, memory: Any, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, Any]:
        estimate, update = super().propose(randomness, memory.now, point, data, weight)
        covariance, was_clipped = self.covariance_of(memory.before, data)
        return estimate._replace(covariance=covariance), update._replace(was_clipped=was_clipped)

    def commit(self, update: Any, memory: Any) -> Any:
        return memory._replace(now=super().commit(update, memory.now))


def lagged_covariance(posterior: ewsg.Posterior[Any], **options: Any) -> LaggedCovariance:
    """Estimate ∇V as `uniform` does, and report the covariance of the last step's estimate.

    Args:
        posterior: what is sampled.
        options: those of `ewsg_jax.gradients.covariance_tracking`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        EWSG-VR as it is printed, `refresh_every` its length of a pass:

        >>> import ewsg_jax as ewsg
        >>> from benchmarks.papers.lagged_covariance import lagged_covariance
        >>> lagged = lagged_covariance(
        ...     ewsg.models.gaussian_location(), batch_size=1, refresh_every=10
        ... )
        >>> weighted = ewsg.gradients.exponentially_weighted(lagged, chain_length=1)
        >>> kernel = ewsg.kernel(
        ...     ewsg.dynamics.noise_corrected(1e-2, friction=10.0, integrator="euler"), weighted
        ... )
    """
    made = covariance_tracking(posterior, **options)
    return LaggedCovariance(
        **{field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
    )
