"""Exponentially weighted minibatches (EWSG), and the friction matrix of its second algorithm."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax.base import checks
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, P
from ewsg_jax.dynamics._mass import InverseMass, is_one
from ewsg_jax.gradients._covariance import Covariance, Structure
from ewsg_jax.gradients._exponentially_weighted import proposals_argument
from ewsg_jax.gradients._period import Epoch, Period
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.methods.langevin import sgld
from ewsg_jax.methods.underdamped import INTEGRATORS, Integrator, sghmc, underdamped
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows

BALANCES = ("friction", "noise")
COVARIANCE_ESTIMATORS = {
    "tracked": gradients.covariance_tracking,
    "periodic": gradients.periodic_covariance,
    "kept": gradients.periodic_covariance,
}
"""What estimates Cov(g), by the values of `covariance`; "kept" is the older name of "periodic"."""


@method(
    title="Exponentially weighted stochastic gradients",
    dynamics=INTEGRATORS,
    estimator="exponentially_weighted(uniform)",
    bias="h",
    evaluations="(M+1) b",
    memory="none",
    source="Li, Wang, Zha & Tao, Algorithm 1",
    hazard="skewed gradients move the mean, by order h",
    integrators=INTEGRATORS,
    example={"friction": 2.0, "batch_size": 2, "num_proposals": 2},
    like=(sghmc,),
)
def ewsg(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    num_proposals: int | float | None = None,
    frozen_noise: str = "momentum",
    carry_index: bool = False,
    chain_length: int | float | None = None,
    integrator: Integrator = "semi_implicit",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Exponentially weighted stochastic gradients (EWSG): `sghmc` with chosen batches.

    Update: draws a batch I; M times it draws another, J, and replaces I by J with probability
        min(1, exp(w(J) − w(I))). w is the exponent ½‖x + a‖² of the step's noise; a is the
        batch's gradient in units of the noise, x the frozen noise. Then it steps as `sghmc`
        does. The paper integrates with `integrator="euler"`.
    Target: exp(−V/T).
    Bias: The weights damp the gradient noise of minibatches and stiffen the force: for small h the
        variance of θ is as much too small as that of `sghmc` is too large (docs/bias.md).
    When: plain minibatches are all there is, and steps are large. At small steps `ewsg_ld` has the
        smaller bias. A larger M is not better in general: M = 1 has the whole effect to first order
        in h.
    Source: Equations 3–4; the choices of x in Fig. 1b, the carried index in section 4.4.

    Args:
        num_proposals: M ≥ 0, the number of proposals per step; `math.inf`: full weights of all
            batches, for small n. Default 1.
        frozen_noise: x: `"momentum"` (default), `"zero"`, `"one"` or `"rest"` (not with
            `integrator="exact"`), as in `ewsg_jax.gradients.exponentially_weighted`.
        carry_index: start each index chain with the last step's batch. Default False: with a new
            one.
        chain_length: another name for `num_proposals`. Default None.
        rows: `"random"` (default), or `"blocks"` or probabilities (`ewsg_jax.rows`), which need
            `replace=True`. No epochs: the batches of a step must be exchangeable.
        noise: `"gaussian"` (default); with `"semi_implicit"` and `"euler"` also, cheaper,
            `"moment_matched"` (256 values, seven moments of a Gaussian) or `"rademacher"` (±1),
            of the same weak order; then the weights are heuristic.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or one that the integrator
            does not take; a `frozen_noise` that the dynamics does not have; at `init`, b > n
            although no row may come twice.

    Example: for about 10 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg(ewsg.models.gaussian_location(), 5e-2, friction=10.0, batch_size=1)
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.exponentially_weighted(
            gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
            num_proposals=num_proposals,
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            carry_index=carry_index,
        ),
    )


@method(
    title="The same on Langevin dynamics",
    dynamics=("langevin",),
    estimator="exponentially_weighted(uniform)",
    bias="h",
    evaluations="(M+1) b",
    memory="none",
    source="Li, Wang, Zha & Tao, Appendix E",
    hazard="skewed gradients move the mean, by order h",
    example={"batch_size": 2, "num_proposals": 2},
    like=(sgld, ewsg),
)
def ewsg_ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    num_proposals: int | float | None = None,
    frozen_noise: str = "momentum",
    carry_index: bool = False,
    chain_length: int | float | None = None,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Exponentially weighted stochastic gradients on Langevin dynamics (EWSG-LD): `sgld` with
    chosen batches.

    Update: θ' = θ − h g + √(2hT) ξ, the batch of g chosen as in `ewsg`.
    Target: exp(−V/T).
    When: as `ewsg`, and at small steps too: there the damping and the stiffening by the weights
        cancel.
    Source: With the factor n that its drift lacks: −h n ∇V_I.

    Args:
        frozen_noise: x: `"momentum"` (default) or `"zero"`, the same without a momentum; or
            `"one"`, as in `ewsg_jax.gradients.exponentially_weighted`.
        rows: `"random"` (default), or `"blocks"` or probabilities (`ewsg_jax.rows`), which need
            `replace=True`. No epochs: the batches of a step must be exchangeable.
        noise: `"gaussian"` (default) or, cheaper, `"moment_matched"` (256 values, seven moments of
            a Gaussian) or `"rademacher"` (±1), of the same weak order; then the weights are
            heuristic.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; a `frozen_noise` that the
            dynamics does not have; at `init`, b > n although no row may come twice.

    Example: for about 10 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg_ld(ewsg.models.gaussian_location(), 5e-3, batch_size=1)
    """
    return kernel(
        dynamics.langevin(
            step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.exponentially_weighted(
            gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
            num_proposals=num_proposals,
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            carry_index=carry_index,
        ),
    )


@method(
    title="Stochastic-gradient HMC with a friction matrix",
    dynamics=("noise_corrected",),
    estimator="covariance_tracking",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="d², 4d or (r+3)d",
    source="the friction of Li, Wang, Zha & Tao, Algorithm 2, alone",
    hazard="diverges if hΓ ≥ 2; a dense Γ costs an eigendecomposition a step",
    integrators=("semi_implicit", "euler"),
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
    like=(sghmc, sgld),
)
def nc_sghmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    covariance: Literal["tracked", "periodic", "kept"] | Covariance | Array = "tracked",
    balance: Literal["friction", "noise"] = "friction",
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    integrator: Literal["semi_implicit", "euler"] = "semi_implicit",
    replace: bool = True,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Stochastic-gradient HMC with a friction matrix against the gradient noise (NC-SGHMC).

    Update: p' = p − h (g(θ) + Γp) + √(2hγT) ξ, θ' = θ + h p' (or θ + h p with `"euler"`) with Γ =
        γ I + h Cov(g)/(2T) and g as in `sghmc`. Cov(g) is exact every K steps and follows the
        batches between.
    Target: exp(−(V + ‖p‖²/2)/T).
    Bias: The minibatch adds none while hΓ < 2 in every direction.
    Cost: The memory is for `"dense"`, `"diagonal"` and `"low_rank"`. With a periodic or given
        `covariance`, b evaluations a step and a product with d² numbers, but the covariance belongs
        to another point.
    When: few dimensions, and minibatches whose noise inflates the variance. Not if h² Cov(g)/(2T)
        reaches 2, which is often so for b = 1.
    Source: Chen, Fox & Guestrin 2014.

    Args:
        covariance: Cov(g) between resets: `"tracked"` (default), it follows the batches;
            `"periodic"` (also `"kept"`), the covariance of the last reset; or one for all steps and
            chains: what `ewsg_jax.gradients.covariance_at` returns, a matrix (d, d) in
            `ravel_pytree` order, or its diagonal (d,). It excludes `refresh_every` and `structure`.
        balance: what compensates Cov(g): `"friction"` (default), or `"noise"`: that much less is
            injected (B̂ = h Cov/2 in the second source), and friction compensates the rest if
            h Cov > 2γT.
        refresh_every: K, steps between resets of the covariance; an integer or a function of n.
            Default: ⌈n/b⌉.
        structure: form of the covariance: `"dense"` (default), `"diagonal"`, or `"low_rank"`:
            within a basis that each reset turns towards the leading directions.
        rank: r, the rank with `"low_rank"`; at most d are used. Default 10.
        integrator: scheme that the friction is added to: `"semi_implicit"` (default) or `"euler"`,
            the first source's.
        inverse_mass: C > 0, as in `ewsg_jax.dynamics.noise_corrected`; with `balance="friction"`
            only. Default 1.

    Example: for about 10 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.nc_sghmc(
        ...     ewsg.models.gaussian_location(), 2e-2, friction=10.0, batch_size=1
        ... )
    """
    checks.one_of("balance", balance, BALANCES)
    batch = {"batch_size": batch_size, "replace": replace}
    if isinstance(covariance, str):
        checks.one_of("covariance", covariance, COVARIANCE_ESTIMATORS)
        estimator = COVARIANCE_ESTIMATORS[covariance](
            posterior, refresh_every=refresh_every, structure=structure, rank=rank, **batch
        )
        constant_covariance = None
    elif refresh_every is None and structure == "dense":
        estimator, constant_covariance = gradients.uniform(posterior, **batch), covariance
    else:
        raise ValueError(
            "refresh_every and structure must be left out if covariance is given; got "
            f"refresh_every={checks.describe(refresh_every)} and structure={structure!r}"
        )
    shared = {
        "friction": friction,
        "temperature": temperature,
        "noise": noise,
        "integrator": integrator,
        "covariance": constant_covariance,
    }
    if balance == "friction":
        return kernel(
            dynamics.noise_corrected(step_size, inverse_mass=inverse_mass, **shared), estimator
        )
    if is_one(inverse_mass):
        return kernel(dynamics.noise_reduced(step_size, **shared), estimator)
    raise ValueError(
        f"inverse_mass must be 1 with balance='noise'; got {checks.describe(inverse_mass)}"
    )


@method(
    title="EWSG with a friction matrix",
    dynamics=("noise_corrected",),
    estimator="exponentially_weighted(covariance_tracking)",
    bias="h",
    evaluations="(M+2) b, and n every K steps",
    memory="d², 4d or (r+3)d",
    source="Li, Wang, Zha & Tao, Algorithm 2",
    hazard="counts the friction twice: too narrow; diverges if hΓ ≥ 2",
    integrators=("semi_implicit", "euler"),
    example={"friction": 2.0, "batch_size": 2, "num_proposals": 2, "refresh_every": 3},
    like=(nc_sghmc, ewsg_ld),
)
def ewsg_vr(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    num_proposals: int | None = None,
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    frozen_noise: str = "momentum",
    carry_index: bool = False,
    chain_length: int | None = None,
    integrator: Literal["semi_implicit", "euler"] = "semi_implicit",
    replace: bool = True,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """EWSG with a friction matrix from a tracked covariance (EWSG-VR).

    Update: as `nc_sghmc`, which the paper adds to `integrator="euler"`, with batches chosen as in
        `ewsg`. The covariance is reset every ⌈n/(b(M+1))⌉ steps, the paper's L = 1.
    Target: exp(−(V + ‖p‖²/2)/T).
    Bias: The weights and the friction both compensate the minibatch's gradient noise. `nc_sghmc`
        compensates it once.
    When: to reproduce the paper. Otherwise `nc_sghmc`.
    Source: Corrected here.

    Args:
        num_proposals: M ≥ 0, the number of proposals per step, an integer. Default 1.
        refresh_every: K, steps between resets of the covariance; an integer or a function of n.
            Default: ⌈n/(b(M+1))⌉.
        frozen_noise: x: `"momentum"` (default), `"zero"`, `"one"` or `"rest"`, as in
            `ewsg_jax.gradients.exponentially_weighted`.
        integrator: scheme that the friction is added to: `"semi_implicit"` (default) or `"euler"`,
            the paper's.
        inverse_mass: C > 0, as in `ewsg_jax.dynamics.noise_corrected`. Default 1.
        noise: `"gaussian"` (default) or, cheaper, `"moment_matched"` (256 values, seven moments of
            a Gaussian) or `"rademacher"` (±1), of the same weak order; then the weights are
            heuristic.

    Example: for about 20 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg_vr(
        ...     ewsg.models.gaussian_location(), 1e-2, friction=10.0, batch_size=1
        ... )
    """
    checks.integer("batch_size", batch_size)
    argument, length = proposals_argument(num_proposals, chain_length)
    length = checks.integer(argument, length, minimum=0)
    every = Epoch(batch_size * (length + 1)) if refresh_every is None else refresh_every
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
            ),
            num_proposals=num_proposals,
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            carry_index=carry_index,
        ),
    )
