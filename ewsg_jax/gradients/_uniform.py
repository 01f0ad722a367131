"""The plain stochastic gradient: g(θ; I) = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ), I uniform.

Unbiased; its covariance is (n²/b) S with replacement and (n²/b) S (n−b)/(n−1) without, S the
covariance of ∇Vᵢ over the rows (divided by n). b evaluations a step, no memory.
"""

from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Data, P
from ewsg_jax.gradients._protocol import NoiseModel, OfRows
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._named import Rows, sampling_scheme


@module
class Uniform(OfRows[P]):
    """The estimator of `uniform`."""

    needs = frozenset()

    def noise_model(self, data: Data) -> NoiseModel:
        return NoiseModel(self, order=self.order_of_errors(data))


def uniform(
    posterior: Posterior[P], *, batch_size: int, replace: bool = True, rows: Rows = "random"
) -> Uniform[P]:
    """Estimate ∇V from b rows, at a cost that does not depend on n.

    Args:
        posterior: what is sampled.
        batch_size: b, rows per step.
        replace: draw with replacement, or (False) a uniform subset.
        rows: `"random"`: independent rows or a subset; `"blocks"`: b consecutive rows from a
            uniform start, the first row following on the last, quick to fetch (the covariance is
            that of sums over blocks: for rows in random order nearly that of a subset); `"epochs"`:
            each row at most once in ⌊n/b⌋ steps, in a new order each time, the n mod b rows that
            are left out others each time (batches of successive steps are then dependent; the law
            is no longer a Markov chain's in θ); `"block_epochs"`: the data, which you have shuffled
            once, are cut into ⌊n/b⌋ blocks of b consecutive rows, and an epoch takes each of them
            once, in a new order each time; `"block_sweeps"`: each such order forward, then
            backwards, a new one for each pair (Paulin et al. 2024). Where b does not divide n the
            rows are a circle, and each order cuts its blocks from a uniform row: all rows are as
            probable, and estimates are unbiased. Or what `ewsg_jax.rows.by_probability` or
            `leverage` returns, or a law of your own, an `ewsg_jax.rows.SamplingScheme` of the same
            `batch_size`. With all but `"random"` `replace` must be True.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, a batch larger
            than n where no row comes twice.

    References:
        D. Paulin, P. A. Whalley, N. K. Chada and B. Leimkuhler, Sampling from Bayesian neural
            network posteriors with symmetric minibatch splitting Langevin dynamics, 2024: sweeps.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> estimator = ewsg.gradients.uniform(model, batch_size=2, replace=False)
        >>> rows = estimator.draw(jax.random.key(0), jnp.zeros((5, 1))).indices
        >>> rows.shape, len(set(rows.tolist()))
        ((2,), 2)
    """
    check_posterior(posterior)
    return Uniform(posterior=posterior, law=sampling_scheme(batch_size, replace, rows))
