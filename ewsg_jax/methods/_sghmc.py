"""Underdamped Langevin dynamics with uniform minibatches."""

from ewsg_jax import gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.methods.underdamped import INTEGRATORS, Integrator, underdamped
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Stochastic-gradient HMC",
    dynamics=INTEGRATORS,
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Chen, Fox & Guestrin 2014",
    hazard="heat h·Cov/(2γ): far too wide on tall data at usual steps",
    integrators=INTEGRATORS,
    example={"friction": 2.0, "batch_size": 2},
)
def sghmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    integrator: Integrator = "semi_implicit",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Stochastic-gradient Hamiltonian Monte Carlo: underdamped Langevin with b uniform rows a step.

    With the first integrator p' = (1 − hγ) p − h g(θ) + √(2hγT) ξ, θ' = θ + h p', where g = ∇V₀(θ) + (n/b) Σ_{i∈I}
    ∇Vᵢ(θ).

    Chen et al. (2014) with no estimate of the gradient's noise; with `integrator="euler"` it is what EWSG's paper
    calls SGULD. Targets exp(−V/T) with a bias of order h, h·Cov(g)/(2γ) of it from the minibatch. b evaluations a
    step.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule (a function of the step's number).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        integrator: the scheme of `ewsg_jax.dynamics`: `"semi_implicit"` (default); `"euler"`, the papers';
            `"splitting"`, of order h² with an exact gradient; `"ABOBA"` or `"BAOAB"` (`palindrome`), then
            without any on Gaussians; or `"exact"`, exact for a frozen one.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        rows: `"random"` (default): independent rows, or the subset; `"blocks"`: b consecutive rows from a uniform
            start, quick to fetch, for data in random order; `"epochs"`: every row once in each n, in a new order
            each time; `"block_epochs"`: each of ⌊n/b⌋ such blocks once, in a new order each time;
            `"block_sweeps"`: each such order forward, then backwards; or what `ewsg_jax.rows.by_probability` or
            `leverage` returns. With all but the first `replace` must be True.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights); the second with `"semi_implicit"` and `"euler"` only.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, or one that the integrator does not have; at
            `init`, a batch larger than n where no row comes twice.

    References:
        T. Chen, E. B. Fox and C. Guestrin, Stochastic gradient Hamiltonian Monte Carlo, ICML 2014.
        R. Li, X. Wang, H. Zha and M. Tao, Improving sampling accuracy of stochastic gradient MCMC methods via
            non-uniform subsampling of gradients, Foundations of Data Science.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sghmc(ewsg.models.logistic_regression(), 1e-3, friction=50.0, batch_size=50)
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
