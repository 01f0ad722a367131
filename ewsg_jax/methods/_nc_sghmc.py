"""Underdamped Langevin dynamics whose friction takes up the minibatch's heat."""

from typing import Literal

from ewsg_jax import _check, dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Array, Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass, is_one
from ewsg_jax.gradients.covariance import Covariance, Structure
from ewsg_jax.gradients.period import Period
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method

BALANCES = ("friction", "noise")
ESTIMATORS = {"tracked": gradients.covariance_tracking, "kept": gradients.kept_covariance}


@method(
    title="Stochastic-gradient HMC with a friction matrix",
    dynamics=("noise_corrected",),
    estimator="covariance_tracking",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="d², 4d or (r+3)d",
    source="the friction of Li, Wang, Zha & Tao, Algorithm 2, alone",
    hazard="diverges where hΓ ≥ 2; a dense Γ costs an eigendecomposition a step",
    integrators=("semi_implicit", "euler"),
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
)
def nc_sghmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    covariance: Literal["tracked", "kept"] | Covariance | Array = "tracked",
    balance: Literal["friction", "noise"] = "friction",
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    integrator: Literal["semi_implicit", "euler"] = "semi_implicit",
    replace: bool = True,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """Stochastic-gradient HMC with the matrix friction of EWSG-VR over uniform minibatches.

    p' = p − h (g(θ) + Γp) + √(2hγT) ξ, θ' = θ + h p' (or θ + h p with `"euler"`), where g = ∇V₀(θ) + (n/b) Σ_{i∈I}
    ∇Vᵢ(θ), Γ = γ I + h Cov(g)/(2T), and Cov(g) is exact every K steps and follows the batches between. Targets
    exp(−(V + ‖p‖²/2)/T) with a bias of order h, none of it from the minibatch's heat while hΓ < 2 in every
    direction (beyond that chains diverge). 2b evaluations a step and n every K steps; memory of d² numbers
    (`"diagonal"`: 4d, `"low_rank"`: (r + 3)d), and with `"dense"` an eigendecomposition a step. Kept from reset to
    reset, or given (`covariance`), it costs b evaluations a step and a product with d² numbers, and is that of
    another point. When to use it: few dimensions and minibatches that heat the chain; not where h² Cov(g)/(2T)
    reaches 2, which is often so for b = 1.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule (a function of the step's number).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        covariance: of the gradient between resets: `"tracked"` (default), it follows the batches; `"kept"`, it
            stays that of the last reset; or one for all steps and chains, such as
            `ewsg_jax.gradients.covariance_at` returns: a matrix (d, d) over the position raveled leaf after leaf,
            or its diagonal (d,).
        balance: what makes up for the minibatch's heat: `"friction"` (default), or `"noise"`: so much less noise is
            injected (Chen et al.'s B̂ is h Cov/2), and friction takes up the rest where h Cov > 2γT.
        refresh_every: K, steps from one reset of the covariance to the next: a whole number, or a function of n
            that returns one. Default: ⌈n/b⌉.
        structure: of the covariance: `"dense"` (default), `"diagonal"`, or `"low_rank"`: within a basis that each
            reset turns towards the leading directions.
        rank: r, for a low rank; at most the numbers of a position are used. Default 10.
        integrator: what the friction is added to: `"semi_implicit"` (default), or `"euler"`, the paper's.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. With `balance="friction"` only. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; at `init`, a batch larger than n where no row comes
            twice.

    References:
        T. Chen, E. B. Fox and C. Guestrin, Stochastic gradient Hamiltonian Monte Carlo, ICML 2014.
        R. Li, X. Wang, H. Zha and M. Tao, Improving sampling accuracy of stochastic gradient MCMC methods via
            non-uniform subsampling of gradients, Foundations of Data Science.

    Example:
        The numbers are for about 10 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.nc_sghmc(ewsg.models.gaussian_location(), 2e-2, friction=10.0, batch_size=1)
    """
    _check.one_of("balance", balance, BALANCES)
    of_rows = {"batch_size": batch_size, "replace": replace}
    if isinstance(covariance, str):
        _check.one_of("covariance", covariance, ESTIMATORS)
        estimator = ESTIMATORS[covariance](
            posterior, refresh_every=refresh_every, structure=structure, rank=rank, **of_rows
        )
        given = None
    elif refresh_every is None and structure == "dense":
        estimator, given = gradients.uniform(posterior, **of_rows), covariance
    else:
        raise ValueError(
            "refresh_every and structure must be left out where covariance is given; got "
            f"refresh_every={_check.describe(refresh_every)} and structure={structure!r}"
        )
    shared = {"friction": friction, "temperature": temperature, "noise": noise, "integrator": integrator}
    if balance == "friction":
        own = dynamics.noise_corrected(step_size, covariance=given, inverse_mass=inverse_mass, **shared)
    elif is_one(inverse_mass):
        own = dynamics.noise_reduced(step_size, covariance=given, **shared)
    else:
        raise ValueError(f"inverse_mass must be 1 with balance='noise'; got {_check.describe(inverse_mass)}")
    return kernel(own, estimator)
