"""Gradients with a fixed control variate under Langevin and underdamped dynamics."""

from ewsg_jax import dynamics, gradients
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Hyperparameter, P, Position
from ewsg_jax.dynamics._mass import InverseMass
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.methods.langevin import sgld
from ewsg_jax.methods.underdamped import sghmc
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows


@method(
    title="Langevin with a control variate",
    dynamics=("langevin",),
    estimator="control_variate",
    bias="h",
    evaluations="2b",
    memory="2d for all chains",
    source="Chatterji et al. 2018",
    hazard="worse than `sgld` if the posterior is wide or has several modes",
    example={"batch_size": 2},
    like=(sgld,),
)
def cv_ld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    center: Position | None = None,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Langevin dynamics with a control variate (CV-LD).

    Update: θ' = θ − h g + √(2hT) ξ, g = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c), with
        a fixed reference point c.
    Target: exp(−V/T).
    Bias: Batches add h·Cov(g)/2 to T, little if the posterior is narrow around c.
    Cost: n evaluations at the start, and before it `ewsg_jax.find_mode` for c.
    When: many data and one mode.

    Args:
        center: c, the reference point, a pytree like the position. None (default): the position
            given to `init`, at which the chain starts.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, b > n although
            no row may come twice, or a `center` that is not shaped like the position.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(
            step_size, temperature=temperature, noise=noise, inverse_mass=inverse_mass
        ),
        gradients.control_variate(
            posterior, batch_size=batch_size, center=center, replace=replace, rows=rows
        ),
    )


@method(
    title="Underdamped Langevin with a control variate",
    dynamics=("exact",),
    estimator="control_variate",
    bias="h",
    evaluations="2b",
    memory="2d for all chains",
    source="Chatterji et al. 2018",
    hazard="as `cv_ld`",
    example={"friction": 2.0, "batch_size": 2},
    like=(sghmc, cv_ld),
)
def cv_uld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    batch_size: int,
    friction: Hyperparameter = 2.0,
    inverse_mass: InverseMass = 1.0,
    center: Position | None = None,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
) -> Kernel[P]:
    """Underdamped Langevin dynamics, exact for a frozen gradient, with a control variate (CV-ULD).

    Update: solves dθ = v dt, dv = −(γv + u g) dt + √(2γuT) dW over a time h with g frozen: g
        = ∇V₀(θ) + (n/b) Σ_{i∈I} (∇Vᵢ(θ) − ∇Vᵢ(c)) + Σᵢ ∇Vᵢ(c) with a fixed reference point c.
    Target: exp(−V/T).
    Bias: The minibatch's part is small if the posterior is narrow around c.
    Cost: n evaluations at the start, and before it `ewsg_jax.find_mode` for c.
    When: as `cv_ld`, for posteriors of very different scales in different directions.
    Source: Algorithm 3. Integrator: Cheng et al. 2018.

    Args:
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule. Default 2, as
            published.
        inverse_mass: u > 0, as in `ewsg_jax.dynamics.exact`. Default 1; published: 1/L, L the
            largest curvature.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_uld(
        ...     ewsg.models.logistic_regression(), 1e-1, batch_size=10, inverse_mass=1e-2
        ... )
    """
    return kernel(
        dynamics.exact(
            step_size, friction=friction, inverse_mass=inverse_mass, temperature=temperature
        ),
        gradients.control_variate(
            posterior, batch_size=batch_size, center=center, replace=replace, rows=rows
        ),
    )
