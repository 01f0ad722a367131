"""SAGA: a table of each row's last gradient, under Langevin and underdamped dynamics."""

from ewsg_jax import dynamics, gradients
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Hyperparameter, P
from ewsg_jax.dynamics._mass import InverseMass
from ewsg_jax.gradients._saga import MEMORY_LIMIT
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.methods.langevin import sgld
from ewsg_jax.methods.underdamped import sghmc
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows


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
    like=(sgld,),
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
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Langevin dynamics with a table of gradients (SAGA-LD).

    Update: θ' = θ − h g + √(2hT) ξ, g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − αᵢ) + Σᵢ αᵢ. αᵢ is
        the last gradient of row i.
    Target: exp(−V/T).
    Bias: The bias of `ld`; minibatches add order h², because the table is recent.
    Cost: n evaluations at the start. The table has n numbers per linear predictor, or n positions.
    When: linear models, for which it costs what `sgld` does. Not networks: their table is too
        large.

    Args:
        memory_limit: bytes that the tables of all chains may take; a run that needs more is
            refused. Default 4 GiB.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n although
            no row may come twice, or a table larger than `memory_limit`.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(
            step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.saga(
            posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit
        ),
    )


@method(
    title="Underdamped with a table of gradients",
    dynamics=("semi_implicit",),
    estimator="saga",
    bias="h",
    evaluations="b",
    memory="n per predictor, or nd",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 2",
    hazard="as `saga_ld`",
    example={"friction": 2.0, "batch_size": 2},
    like=(sghmc, saga_ld),
)
def saga_hmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Underdamped Langevin dynamics, semi-implicit, with a table of gradients (SAGA-HMC).

    Update: p' = (1 − hγ) p − h g + √(2hγT) ξ, θ' = θ + h p' with g = ∇V₀(θ) + (n/b) Σ_{i∈I}
        (∇Vᵢ(θ) − αᵢ) + Σᵢ αᵢ and αᵢ is the last gradient of row i.
    Target: exp(−(V + ‖p‖²/2)/T).
    Bias: On a quadratic, only the momentum is biased.
    Cost: n evaluations at the start. The table has n numbers per linear predictor, or n positions.
    When: as `saga_ld`. `saga2nd_hmc` costs the same and has the smaller bias.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_hmc(
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
        gradients.saga(
            posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit
        ),
    )


@method(
    title="The splitting with a table of gradients",
    dynamics=("splitting",),
    estimator="saga",
    bias="h²",
    evaluations="b",
    memory="n per predictor, or nd",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 4",
    hazard="as `saga_ld`",
    example={"friction": 2.0, "batch_size": 2},
    like=(sghmc, saga_ld),
)
def saga2nd_hmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Underdamped Langevin dynamics, symmetric splitting, with a table of gradients (SAGA2nd-HMC).

    Update: p' = e^{−γh/2}(e^{−γh/2} p − h g + √(2hγT) ξ), θ' = θ + h (p + p')/2, with g taken
        at x = θ + hp/2: g = ∇V₀(x) + (n/b) Σ_{i∈I} (∇Vᵢ(x) − αᵢ) + Σᵢ αᵢ, and αᵢ is the last
        gradient of row i.
    Target: exp(−(V + ‖p‖²/2)/T).
    Bias: h² at fixed n/b: the age of the table, and with it the minibatch's part, shrinks with h
        too.
    Cost: n evaluations at the start. The table has n numbers per linear predictor, or n positions.
    When: the first to try for linear models.
    Source: Equations 12–18.

    Args:
        inverse_mass: C > 0: number, pytree, matrix or `LowRank`, as in
            `ewsg_jax.dynamics.splitting`. Default 1.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga2nd_hmc(
        ...     ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10
        ... )
    """
    return kernel(
        dynamics.splitting(
            step_size, friction=friction, temperature=temperature, inverse_mass=inverse_mass
        ),
        gradients.saga(
            posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit
        ),
    )
