"""SVRG: gradients from a snapshot and a batch, under Langevin and underdamped dynamics."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Hyperparameter, P
from ewsg_jax.dynamics._mass import InverseMass
from ewsg_jax.gradients._period import Period
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.methods.langevin import sgld
from ewsg_jax.methods.underdamped import sghmc
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows


@method(
    title="Langevin with SVRG gradients",
    dynamics=("langevin",),
    estimator="svrg",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Dubey et al. 2016",
    hazard="far from its snapshot worse than `sgld`; waits for full gradients",
    example={"batch_size": 2, "refresh_every": 3},
    like=(sgld,),
)
def svrg_ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Langevin dynamics with SVRG gradients (SVRG-LD).

    Update: θ' = θ − h g + √(2hT) ξ, g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w). The
        snapshot w is taken every K steps.
    Target: exp(−V/T).
    Bias: The bias of `ld`; minibatches add order h², because the snapshot is recent.
    When: several data passes are affordable. In a run of a pass or two, `sgld` is cheaper.

    Args:
        refresh_every: K, steps from one snapshot to the next; an integer or a function of n.
            Default: ⌈n/b⌉.
        option: which position becomes the snapshot, `"II"` (default) or `"I"`, whose variances are
            too small with a momentum, as `ewsg_jax.gradients.svrg` says.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(
            step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass
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


@method(
    title="Underdamped with SVRG gradients",
    dynamics=("semi_implicit",),
    estimator="svrg",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 1",
    hazard="as `svrg_ld`",
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
    like=(sghmc, svrg_ld),
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
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Underdamped Langevin dynamics, semi-implicit, with SVRG gradients (SVRG-HMC).

    Update: p' = (1 − hγ) p − h g + √(2hγT) ξ, θ' = θ + h p' with g = ∇V₀(θ) + (n/b) Σ_{i∈I}
        (∇Vᵢ(θ) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w). The snapshot w is taken every K steps.
    Target: exp(−(V + ‖p‖²/2)/T).
    Bias: On a quadratic, only the momentum is biased.
    When: as `svrg_ld`. `svrg2nd_hmc` costs the same and has the smaller bias.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_hmc(
        ...     ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10
        ... )
    """
    return kernel(
        dynamics.semi_implicit(
            step_size,
            friction=friction,
            temperature=temperature,
            noise=noise,
            inverse_mass=inverse_mass,
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


@method(
    title="The splitting with SVRG gradients",
    dynamics=("splitting",),
    estimator="svrg",
    bias="h²",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 3",
    hazard="as `svrg_ld`",
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
    like=(sghmc, svrg_ld),
)
def svrg2nd_hmc(
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
) -> Kernel[P]:
    """Underdamped Langevin dynamics, symmetric splitting, with SVRG gradients (SVRG2nd-HMC).

    Update: p' = e^{−γh/2}(e^{−γh/2} p − h g + √(2hγT) ξ), θ' = θ + h (p + p')/2, with g taken
        at x = θ + hp/2: g = ∇V₀(x) + (n/b) Σ_{i∈I} (∇Vᵢ(x) − ∇Vᵢ(w)) + Σᵢ ∇Vᵢ(w). The snapshot w
        becomes x every K steps.
    Target: exp(−(V + ‖p‖²/2)/T).
    Bias: h² at fixed K: the distance to the snapshot, and with it the minibatch's part, shrinks
        with h too.
    When: the first to try if several data passes are affordable.
    Source: Equations 12–18.

    Args:
        inverse_mass: C > 0: number, pytree, matrix or `LowRank`, as in
            `ewsg_jax.dynamics.splitting`. Default 1.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg2nd_hmc(
        ...     ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10
        ... )
    """
    return kernel(
        dynamics.splitting(
            step_size, friction=friction, temperature=temperature, inverse_mass=inverse_mass
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
