"""The plain stochastic gradient: g(θ; I) = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ), I uniform.

Unbiased; its covariance is (n²/b) S with replacement and (n²/b) S (n−b)/(n−1) without, with S the
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
        posterior: the target.
        batch_size: b, the number of rows in a batch.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: the sampling scheme; all but `"random"` need `replace=True`.
            `"random"` (default): independent rows, or a subset.
            `"blocks"`: b consecutive rows from a uniform start, with the first row after the last;
            quick to fetch. The covariance is the one of sums over blocks: with rows in random
            order nearly a subset's.
            `"epochs"`: each row at most once in ⌊n/b⌋ steps, in a new order each time; another n
            mod b rows are left out each time. Batches of successive steps are then dependent: θ
            alone is no Markov chain.
            `"block_epochs"`: the data, shuffled once by you, are cut into ⌊n/b⌋ blocks of b
            consecutive rows, and an epoch takes each block once, in a new order each time.
            `"block_sweeps"`: each such order forward, then backwards, and a new one for each pair
            (Paulin et al. 2024). If b does not divide n the rows form a circle and each order cuts
            its blocks from a uniform row: rows are equally probable, and estimates unbiased.
            Or what `ewsg_jax.rows.importance_weighted` or `leverage` returns, or your own scheme,
            an `ewsg_jax.rows.SamplingScheme` of the same `batch_size`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, a batch larger
            than n although no row may come twice.

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
