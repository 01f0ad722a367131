"""Underdamped Langevin dynamics, semi-implicit, with anchored gradients."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.gradients.period import Period
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method
from ewsg_jax.rows.named import Rows


@method(
    title="Underdamped with anchored gradients",
    dynamics=("semi_implicit",),
    estimator="svrg",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 1",
    hazard="as `svrg_ld`",
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
)
def svrg_hmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Underdamped Langevin, semi-implicit, with anchored gradients (SVRG-HMC, Li et al. 2019, Algorithm 1).

    p' = (1 − hγ) p − h g(θ) + √(2hγT) ξ, θ' = θ + h p', where g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ
    ∇Vᵢ(w), the anchor w renewed every K steps. Targets exp(−(V + ‖p‖²/2)/T) with a bias of order h, which on a
    quadratic falls on the momentum. 2b evaluations a step and n every K steps; memory of two positions. When to use
    it: as `svrg_ld`; `svrg2nd_hmc` costs the same and has the smaller bias.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule (a function of the step's number).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        refresh_every: K, steps from one anchor to the next: a whole number, or a function of n that returns one.
            Default: ⌈n/b⌉.
        option: how the anchor moves: `"II"` (default), to the point where the gradient is wanted; `"I"`, to that of
            ℓ steps ago, ℓ uniform on 0 … K − 1, where the chain restarts.
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
        Z. Li, T. Zhang, S. Cheng, J. Zhu and J. Li, Stochastic gradient Hamiltonian Monte Carlo with variance
            reduction for Bayesian inference, Machine Learning 108, 2019.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.semi_implicit(
            step_size, friction=friction, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )
