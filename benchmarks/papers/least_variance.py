"""The unbiased law of batches of the least variance (EWSG, Theorem 4.1), and an estimator that
draws from it.

    min over p of Σₖ pₖ ‖gₖ − ∇V‖²,   Σₖ pₖ (gₖ − ∇V) = 0,
    p a law on the N equally probable batches

gₖ is the estimate of batch k. SciPy solves this linear program on the host. Its solution is sparse:
at most d + 1 batches have a probability. The estimator is unbiased as the wrapped one is, and its
variance is never above that of uniform batches. But it takes the estimates of all batches, which
give ∇V itself: for small n, to see what a law of batches does at best.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import linprog

import ewsg_jax as ewsg
from benchmarks.papers.annotations import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients import Estimate, Evaluations, GradientEstimator, OfRows, Weight


def least_variance_law(deviations: np.ndarray) -> np.ndarray:
    """Return p, shape (…, N), of deviations b, shape (…, N, d), whose mean over N is 0: one program
    for each.

    A vertex of the feasible set: at most d + 1 of the N are not 0. NaN where a deviation is not
    finite.
    """
    deviations = np.asarray(deviations)
    flat = deviations.reshape(-1, *deviations.shape[-2:])
    laws = np.array([_law(one.astype(np.float64)) for one in flat])
    return laws.reshape(deviations.shape[:-1]).astype(deviations.dtype)


def _law(b: np.ndarray) -> np.ndarray:
    count, d = b.shape
    if not np.isfinite(b).all():
        return np.full(count, np.nan)
    sizes = np.abs(b).max(axis=0)
    scaled = b / np.where(sizes > 0, sizes, 1)
    cost = np.sum((b / max(sizes.max(), np.finfo(float).tiny)) ** 2, axis=1)
    equations, right = np.vstack([np.ones(count), scaled.T]), np.append(1.0, np.zeros(d))
    # The dual simplex method ends at a vertex; an interior one would not.
    found = linprog(cost, A_eq=equations, b_eq=right, bounds=(0, None), method="highs-ds")
    if found.x is None:
        return np.full(count, np.nan)
    # The solver meets the equations to 1e-7: on the batches that it chose they are solved to
    # rounding.
    support = np.sort(np.argsort(-found.x, kind="stable")[: d + 1])
    support = support[found.x[support] > 1e-12]
    exact = np.linalg.lstsq(equations[:, support], right, rcond=None)[0]
    law = np.zeros(count)
    law[support] = np.maximum(exact, 0)
    return law / law.sum()


class LawDraw(NamedTuple):
    """One batch, which only a refresh of the wrapped estimator sees, and the log of the number that
    chooses.
    """

    batch: PyTree
    log_uniform: Array


@ewsg.module
class LeastVariance(GradientEstimator):
    """The estimator of `least_variance`.

    Attributes:
        estimator: the wrapped one, whose posterior and memory are this one's.
    """

    estimator: OfRows

    def check(self, position: Position, data: Data) -> None:
        self.estimator.check(position, data)
        self.estimator.batches(data)

    def draw(self, key: Key, data: Data, order: ewsg.rows.Order | None = None) -> LawDraw:
        batch_key, chosen_key = jax.random.split(key)
        # u in (0, 1], so that its log is finite.
        return LawDraw(
            self.estimator.draw(batch_key, data, order), jnp.log1p(-jax.random.uniform(chosen_key))
        )

    def init(self, key: Key, position: Position, data: Data) -> Any:
        return self.estimator.init(key, position, data)

    def refresh(
        self, randomness: LawDraw, memory: Any, step: Array, point: Position, data: Data
    ) -> tuple[Any, Position, Any]:
        return self.estimator.refresh(randomness.batch, memory, step, point, data)

    def law(self, gradients: Position) -> Array:
        """Return p of the estimates of all batches, on a leading axis."""
        flat = jax.vmap(lambda one: ravel_pytree(one)[0])(gradients)
        deviations = flat - jnp.mean(flat, axis=0)
        shape = jax.ShapeDtypeStruct(flat.shape[:1], flat.dtype)
        return jax.pure_callback(least_variance_law, shape, deviations, vmap_method="broadcast_all")

    def propose(
        self, randomness: LawDraw, memory: Any, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        listed = self.estimator.batches(data)
        proposals = jax.vmap(
            lambda batch: self.estimator.propose(batch, memory, point, data, weight)
        )(listed)
        cumulative = jnp.cumsum(self.law(proposals[0].gradient))
        # The first place where the sum reaches u in (0, 1]: never one of probability 0.
        chosen = jnp.searchsorted(cumulative, jnp.exp(randomness.log_uniform) * cumulative[-1])
        chosen = jnp.minimum(chosen, cumulative.shape[0] - 1)
        estimate, update = jax.tree.map(lambda x: jnp.asarray(x)[chosen], proposals)
        is_law = jnp.isfinite(cumulative[-1])
        gradient = jax.tree.map(lambda g: jnp.where(is_law, g, jnp.nan), estimate.gradient)
        # A covariance that the wrapped one reports is that under uniform batches.
        return estimate._replace(gradient=gradient, covariance=()), update

    def gradient_at(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self.estimator.gradient_at(estimate, position, data)

    def commit(self, update: PyTree, memory: Any) -> Any:
        return self.estimator.commit(update, memory)

    def evaluations(self, data: Data) -> Evaluations:
        count = jax.tree.leaves(self.estimator.batches(data))[0].shape[0]
        return self.estimator.evaluations(data).of_candidates(count)


def least_variance(estimator: OfRows) -> LeastVariance:
    """Draw the batch from the unbiased law of the least variance (EWSG, Theorem 4.1): for small n.

    Every step evaluates the estimates of all batches and solves a linear program on the host.

    Args:
        estimator: the wrapped one, unbiased; its batches must be such that they can be listed: of
            rows at random.

    Raises:
        ValueError: its batches cannot be listed; at `init`, there are more of them than may be.
    """
    if not isinstance(estimator, OfRows) or not ewsg.rows.lists_batches(estimator):
        raise ValueError(
            "estimator must have batches that can be listed, as those of rows at random; got "
            f"{estimator!r}"
        )
    return LeastVariance(posterior=estimator.posterior, estimator=estimator)
