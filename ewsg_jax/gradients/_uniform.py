"""The plain stochastic gradient: g(θ; I) = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ), I uniform.

Unbiased; its covariance is (n²/b) S with replacement and (n²/b) S (n−b)/(n−1) without, S the
covariance of ∇Vᵢ over the rows (divided by n). b evaluations a step, no memory.
"""

import itertools
import math

import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _random, _rows, _tree
from ewsg_jax._rows import Batch, num_rows
from ewsg_jax._types import Array, Data, Key, Position
from ewsg_jax.gradients._protocol import Estimate, Evaluations, GradientEstimator, Memory, Weight
from ewsg_jax.posterior import Posterior

MOST_BATCHES = 100_000
"""How many batches `batches` lists at the most."""


def uniform(posterior: Posterior, *, batch_size: int, replace: bool = True) -> GradientEstimator:
    """Estimate ∇V from b rows drawn uniformly, at a cost that does not depend on n.

    Args:
        posterior: what is sampled.
        batch_size: b, rows per step.
        replace: draw with replacement, or (False) a uniform subset.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; at `init`, a batch larger than n
            without replacement.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> estimator = ewsg.gradients.uniform(model, batch_size=2, replace=False)
        >>> rows = estimator.draw(jax.random.key(0), jnp.zeros((5, 1)))
        >>> rows.shape, len(set(rows.tolist()))
        ((2,), 2)
    """
    _check.instance("posterior", posterior, Posterior, "ewsg_jax.Posterior(…) or one of ewsg_jax.models")
    _check.integer("batch_size", batch_size)
    _check.boolean("replace", replace)

    def check(position: Position, data: Data) -> None:
        posterior.check(position, data)
        if not replace and batch_size > num_rows(data):
            raise ValueError(
                f"batch_size must be at most n = {num_rows(data)} when replace=False; got {batch_size}"
            )

    def draw(key: Key, data: Data) -> Array:
        return _random.rows(key, num_rows(data), batch_size, replace)

    def gather(batch: Array, data: Data) -> Batch:
        return _rows.gather(data, batch)

    def gradient(batch: Batch | Array, position: Position, data: Data) -> Position:
        return _tree.combine(
            (1, posterior.prior_gradient(position)), (1, posterior.batch_gradient(position, data, batch))
        )

    def propose(
        batch: Batch | Array, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, tuple[()]]:
        return Estimate(gradient(batch, point, data), batch, np.float32(1.0)), ()

    def probe(estimate: Estimate, position: Position, data: Data) -> tuple[Position, int]:
        return gradient(estimate.batch, position, data), batch_size

    def batches(data: Data) -> Array:
        n = num_rows(data)
        count = n**batch_size if replace else math.comb(n, batch_size)
        if count > MOST_BATCHES:
            # Python refuses to write out numbers of thousands of digits.
            number = f"{count:,}" if count < 10**18 else f"about 10^{math.log10(count):.0f}"
            raise ValueError(
                f"exact weights need every batch: n = {n} and batch_size = {batch_size} give {number} of them, "
                f"at most {MOST_BATCHES:,} are listed; take batch_size=1 or a finite chain_length"
            )
        listed = (
            itertools.product(range(n), repeat=batch_size)
            if replace
            else itertools.combinations(range(n), batch_size)
        )
        return jnp.asarray(np.array(list(listed), np.int32))

    return GradientEstimator(
        draw, propose, probe, lambda data: Evaluations(batch_size), check, gather, batches=batches
    )
