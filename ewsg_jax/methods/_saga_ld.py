"""Langevin dynamics with a table of gradients."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.gradients._saga import MEMORY_LIMIT
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Langevin with a table of gradients",
    dynamics=("langevin",),
    estimator="saga",
    bias="h",
    evaluations="b",
    memory="n per predictor, or nd",
    source="Dubey et al. 2016",
    hazard="the table: n numbers a chain, or nd",
    example={"batch_size": 2},
)
def saga_ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Langevin dynamics with a table of gradients (Dubey et al. 2016): θ' = θ − h g + √(2hT) ξ.

    g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − αᵢ) + Σᵢ αᵢ, αᵢ the gradient of datum i when it was last seen. Targets
    exp(−V/T) with a bias of order h: that of `ld`; the heat of minibatches is of order h², for the table is young.
    b evaluations a step and n at the start; memory of n numbers per linear predictor, or of n positions. For linear
    models, where it costs what `sgld` does; for networks the table is out of reach.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, multiplies ∇V of the whole sum; a number, a traced scalar or a schedule (a function of the
            step's number).
        batch_size: b, rows in a batch.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default): independent rows, or the subset; `"blocks"`: b consecutive rows from a uniform
            start, quick to fetch, for data in random order; `"epochs"`: every row once in each n, in a new order
            each time; `"block_epochs"`: each of ⌊n/b⌋ such blocks once, in a new order each time;
            `"block_sweeps"`: each such order forward, then backwards; or what `ewsg_jax.rows.by_probability` or
            `leverage` returns. With all but the first `replace` must be True.
        memory_limit: bytes that the tables of all chains may take; a run that needs more is refused. Default 4 GiB.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; at `init`, a batch larger than n where no row comes
            twice, or a table larger than `memory_limit`.

    References:
        K. A. Dubey, S. J. Reddi, S. A. Williamson, B. Póczos, A. J. Smola and E. P. Xing, Variance reduction in
            stochastic gradient Langevin dynamics, NIPS 2016.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )
