"""Underdamped Langevin dynamics with weighted minibatches and a friction that takes up their heat."""

from typing import Literal

from ewsg_jax import _check, dynamics, gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, P, PyTree
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.gradients.covariance import Structure
from ewsg_jax.gradients.period import Period, epoch
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method


@method(
    title="EWSG with a friction matrix",
    dynamics=("noise_corrected",),
    estimator="exponentially_weighted(covariance_tracking)",
    bias="h",
    evaluations="(M+2) b, and n every K steps",
    memory="d², 4d or (r+3)d",
    source="Li, Wang, Zha & Tao, Algorithm 2",
    hazard="counts the friction twice: too narrow; diverges where hΓ ≥ 2",
    integrators=("semi_implicit", "euler"),
    example={"friction": 2.0, "batch_size": 2, "chain_length": 2, "refresh_every": 3},
)
def ewsg_vr(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    chain_length: int = 1,
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    lagged: bool = False,
    frozen_noise: str | PyTree = "momentum",
    carry_index: bool = False,
    integrator: Literal["semi_implicit", "euler"] = "semi_implicit",
    replace: bool = True,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel[P]:
    """EWSG with a friction matrix from a tracked covariance (EWSG-VR: Li, Wang, Zha & Tao, Algorithm 2, mended).

    The update of `nc_sghmc`, which the paper adds to `integrator="euler"`, its batches chosen as in `ewsg`; the
    covariance is reset every ⌈n/(b(M+1))⌉ steps, the paper's L = 1. Targets exp(−(V + ‖p‖²/2)/T) with a bias of
    order h: the weights and the friction both damp the minibatch's heat, so it is taken away twice and the chain is
    too cold; `nc_sghmc` takes it away once. b(M+2) evaluations a step and n at each reset; memory as `nc_sghmc`.
    When to use it: to reproduce the paper.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule (a function of the step's number).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch.
        chain_length: M ≥ 0, proposals per step. Default 1.
        refresh_every: K, steps from one reset of the covariance to the next: a whole number, or a function of n
            that returns one. Default: ⌈n/(b(M+1))⌉.
        structure: of the covariance: `"dense"` (default), `"diagonal"`, or `"low_rank"`: within a basis that each
            reset turns towards the leading directions.
        rank: r, for a low rank; at most the numbers of a position are used. Default 10.
        lagged: use the covariance as the paper's listing does: none in the first step (Γ₀ = γ), then that of the
            moments after the last step, so that a pass begins with the friction of the one before. Default False:
            each reset counts at once.
        frozen_noise: the x of the weight ½‖x + a‖², a the gradient in units of the noise (Fig. 1b of the paper):
            `"momentum"` (default), its most likely value (no change of momentum); `"zero"`; `"one"`, all ones;
            `"rest"`, the noise that brings the momentum to rest; or a tree shaped like the position.
        carry_index: begin each step's index chain with the batch that the last step accepted (section 4.4 of the
            paper), which each chain then keeps by its row numbers; default False: with a new one (Algorithm 1).
        integrator: what the friction is added to: `"semi_implicit"` (default), or `"euler"`, the paper's.
        replace: draw rows with replacement (default), or (False) a uniform subset.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights).

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; a `frozen_noise` that the dynamics does not have;
            at `init`, a batch larger than n where no row comes twice.

    References:
        R. Li, X. Wang, H. Zha and M. Tao, Improving sampling accuracy of stochastic gradient MCMC methods via
            non-uniform subsampling of gradients, Foundations of Data Science.

    Example:
        The numbers are for about 20 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg_vr(ewsg.models.gaussian_location(), 1e-2, friction=10.0, batch_size=1)
    """
    _check.integer("batch_size", batch_size)
    _check.integer("chain_length", chain_length, minimum=0)
    every = epoch(batch_size * (chain_length + 1)) if refresh_every is None else refresh_every
    return kernel(
        dynamics.noise_corrected(
            step_size,
            friction=friction,
            temperature=temperature,
            noise=noise,
            integrator=integrator,
            inverse_mass=inverse_mass,
        ),
        gradients.exponentially_weighted(
            gradients.covariance_tracking(
                posterior,
                batch_size=batch_size,
                refresh_every=every,
                structure=structure,
                rank=rank,
                replace=replace,
                lagged=lagged,
            ),
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            carry_index=carry_index,
        ),
    )
