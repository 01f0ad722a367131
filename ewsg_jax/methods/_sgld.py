"""Langevin dynamics with uniform minibatches."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Stochastic-gradient Langevin dynamics",
    dynamics=("langevin",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Welling & Teh 2011",
    hazard="heat h·Cov/2: far too wide on tall data at usual steps",
    example={"batch_size": 2},
)
def sgld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Stochastic-gradient Langevin dynamics (Welling & Teh 2011): `ld` with b uniform rows a step.

    θ' = θ − h g + √(2hT) ξ with g = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ). Targets exp(−V/T) with a bias of order h,
    h·Cov(g)/2 of it from the minibatch. b evaluations a step.

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
            twice.

    References:
        M. Welling and Y. W. Teh, Bayesian learning via stochastic gradient Langevin dynamics, ICML 2011.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-5, batch_size=50)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
