"""The unbiased law of batches of the least variance (EWSG, Theorem 4.1), around any estimator.

    min over p of Σₖ pₖ ‖gₖ − ∇V‖²,   Σₖ pₖ (gₖ − ∇V) = 0,   p a law on the N equally probable batches

gₖ the estimate of batch k: a linear program, solved in every step by SciPy on the host. Its solution is sparse, at
most d + 1 batches. Unbiased as the wrapped estimator is, its variance never above that of uniform batches; but it
takes the estimates of all of them, which give ∇V itself: for small n, to see what a law of batches does at best.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ewsg_jax import _check, _random, _tree
from ewsg_jax._module import module
from ewsg_jax._types import Array, Data, Key, Memory, P, Position, PyTree
from ewsg_jax.gradients.least_variance_law import least_variance_law
from ewsg_jax.gradients.protocol import Estimate, Evaluations, GradientEstimator, Sharing, Weight
from ewsg_jax.rows.law import lists_batches


class LawDraw(NamedTuple):
    """One batch, which only a refresh of the wrapped estimator sees, and the uniform number that chooses."""

    batch: PyTree
    log_uniform: Array


@module
class LeastVariance(GradientEstimator[P]):
    """The estimator of `least_variance`.

    Attributes:
        estimator: the wrapped one, whose posterior and memory are this one's.
    """

    estimator: GradientEstimator[P]

    @property
    def reports_covariance(self) -> bool:
        # What the wrapped one reports is the covariance under uniform batches.
        return False

    @property
    def sharing(self) -> Sharing:
        return self.estimator.sharing

    def check(self, position: P, data: Data) -> None:
        self.estimator.check(position, data)
        self.estimator.batches(data)

    def draw(self, key: Key, data: Data) -> LawDraw:
        batch_key, chosen_key = jax.random.split(key)
        return LawDraw(self.estimator.draw(batch_key, data), _random.log_uniform(chosen_key, ()))

    def init(self, key: Key, position: Position, data: Data) -> Memory:
        return self.estimator.init(key, position, data)

    def refresh(
        self, randomness: LawDraw, memory: Memory, step: Array, point: Position, data: Data
    ) -> tuple[Memory, Position, Any]:
        return self.estimator.refresh(randomness.batch, memory, step, point, data)

    def law(self, gradients: Position) -> Array:
        """Return p of the estimates of all batches, on a leading axis."""
        flat = jax.vmap(lambda one: ravel_pytree(one)[0])(gradients)
        deviations = flat - jnp.mean(flat, axis=0)
        shape = jax.ShapeDtypeStruct(flat.shape[:1], flat.dtype)
        return jax.pure_callback(least_variance_law, shape, deviations, vmap_method="broadcast_all")

    def propose(
        self, randomness: LawDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        listed = self.estimator.batches(data)
        proposals = jax.vmap(lambda batch: self.estimator.propose(batch, memory, point, data, weight))(listed)
        cumulative = jnp.cumsum(self.law(proposals[0].gradient))
        # The first place where the sum reaches u in (0, 1]: never one of probability 0.
        chosen = jnp.searchsorted(cumulative, jnp.exp(randomness.log_uniform) * cumulative[-1])
        estimate, update = _tree.take(proposals, jnp.minimum(chosen, cumulative.shape[0] - 1))
        is_law = jnp.isfinite(cumulative[-1])
        gradient = jax.tree.map(lambda g: jnp.where(is_law, g, jnp.nan), estimate.gradient)
        return estimate._replace(gradient=gradient, covariance=()), update

    def gradient_at(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self.estimator.gradient_at(estimate, position, data)

    def commit(self, update: PyTree, memory: Memory) -> Memory:
        return self.estimator.commit(update, memory)

    def evaluations(self, data: Data) -> Evaluations:
        count = jax.tree.leaves(self.estimator.batches(data))[0].shape[0]
        return self.estimator.evaluations(data).of_candidates(count)

    def arguments(self) -> dict[str, Any]:
        return {"estimator": self.estimator}


def least_variance(estimator: GradientEstimator[P]) -> LeastVariance[P]:
    """Draw the batch from the unbiased law of the least variance (EWSG, Theorem 4.1): for small n.

    Every step evaluates the estimates of all batches and solves a linear program on the host, with SciPy. At most
    d + 1 batches have a probability.

    Args:
        estimator: the wrapped one, unbiased; its batches must be such that they can be listed: of rows at random.

    Raises:
        TypeError, ValueError: the argument is of the wrong kind; at `init`, more batches than may be listed.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> best = ewsg.gradients.least_variance(ewsg.gradients.uniform(model, batch_size=1))
        >>> kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-2), best)
        >>> data = jnp.arange(5.0)[:, None]
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1), data)
        >>> state, info = kernel.step(jax.random.key(1), state, data)
        >>> int(info.gradient_evaluations)
        5
    """
    _check.instance("estimator", estimator, GradientEstimator, "one of ewsg_jax.gradients")
    if estimator.frozen_noise is not None:
        raise ValueError("estimator must not be exponentially weighted: a batch has one law; got one that is")
    if not lists_batches(estimator):
        raise ValueError("estimator must have batches that can be listed, as those of rows at random; got others")
    return LeastVariance(posterior=estimator.posterior, estimator=estimator)
