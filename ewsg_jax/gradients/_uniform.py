"""The plain stochastic gradient: g(θ; I) = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ), I uniform.

Unbiased; its covariance is (n²/b) S with replacement and (n²/b) S (n−b)/(n−1) without, S the
covariance of ∇Vᵢ over the rows (divided by n). b evaluations a step, no memory.
"""

from ewsg_jax import _check, _tree
from ewsg_jax._rows import Batch
from ewsg_jax._types import Data, Key, Position, PyTree
from ewsg_jax.gradients._protocol import Estimate, Evaluations, GradientEstimator, Memory, Weight
from ewsg_jax.gradients._row_laws import RowLawName, row_law
from ewsg_jax.posterior import Posterior


def uniform(
    posterior: Posterior, *, batch_size: int, replace: bool = True, rows: RowLawName = "random"
) -> GradientEstimator:
    """Estimate ∇V from b rows, at a cost that does not depend on n.

    Args:
        posterior: what is sampled.
        batch_size: b, rows per step.
        replace: draw with replacement, or (False) a uniform subset.
        rows: `"random"`: independent rows or a subset; `"blocks"`: b consecutive rows from a uniform start, the
            first row following on the last, quick to fetch (the covariance is that of sums over blocks: for rows
            in random order nearly that of a subset); `"epochs"`: every row once in each n draws, in a new order
            each time (batches of successive steps are then dependent; the law is no longer a Markov chain's in θ).

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; at `init`, a batch larger than n
            where no row comes twice.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> estimator = ewsg.gradients.uniform(model, batch_size=2, replace=False)
        >>> rows = estimator.draw(jax.random.key(0), jnp.zeros((5, 1)))
        >>> rows.shape, len(set(rows.tolist()))
        ((2,), 2)
    """
    _check.instance("posterior", posterior, Posterior, "ewsg_jax.Posterior(…) or one of ewsg_jax.models")
    law = row_law(batch_size, replace, rows)

    def check(position: Position, data: Data) -> None:
        posterior.check(position, data)
        law.check(data)

    def gradient(batch: Batch, position: Position, data: Data) -> Position:
        return _tree.combine(
            (1, posterior.prior_gradient(position)), (1, posterior.batch_gradient(position, data, batch))
        )

    def init(key: Key, position: Position, data: Data) -> Memory:
        return law.init(key)

    def propose(
        randomness: PyTree, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        batch = law.batch(randomness, memory, data)
        return Estimate(gradient(batch, point, data), batch.indices), law.advance(memory, data)

    def probe(estimate: Estimate, position: Position, data: Data) -> Position:
        return gradient(estimate.batch, position, data)

    def commit(receipt: PyTree, memory: Memory) -> Memory:
        return receipt

    return GradientEstimator(
        law.draw,
        propose,
        probe,
        posterior.prior_gradient,
        lambda data: Evaluations(batch_size, batch_size),
        check,
        law.gather,
        init,
        commit=commit,
        batches=law.batches,
        exchangeable=law.exchangeable,
    )
