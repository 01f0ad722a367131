"""Underdamped Langevin dynamics whose friction takes up the minibatch's heat."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._covariance import Structure
from ewsg_jax.gradients._period import Period
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Stochastic-gradient HMC with a friction matrix",
    dynamics=("noise_corrected",),
    estimator="covariance_tracking",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="d², 2d or (r+2)d",
    source="the friction of Li, Wang, Zha & Tao, Algorithm 2, alone",
    hazard="diverges where hΓ ≥ 2; a dense Γ costs an eigendecomposition a step",
    integrators=("semi_implicit", "euler"),
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
)
def nc_sghmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    refresh_every: Period = None,
    structure: Structure = "dense",
    rank: int = 10,
    integrator: Literal["semi_implicit", "euler"] = "semi_implicit",
    replace: bool = True,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Stochastic-gradient HMC with the matrix friction of EWSG-VR over uniform minibatches.

    Update as in `dynamics.noise_corrected`, g and its covariance of `gradients.covariance_tracking`. Targets
    exp(−(V + ‖p‖²/2)/T) with a bias of order h, none of it from the minibatch's heat while hΓ < 2 in every
    direction (beyond that chains diverge). 2b evaluations a step and n every K steps; memory of d² numbers
    (`"diagonal"`: 2d, `"low_rank"`: (r + 2)d), and with `"dense"` an eigendecomposition a step. When to use it:
    few dimensions and minibatches that heat the chain; not where h² Cov(g)/(2T) reaches 2, which is often so for b
    = 1. Arguments as in `dynamics.noise_corrected` and `gradients.covariance_tracking`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.nc_sghmc(ewsg.models.gaussian_location(), 2e-2, friction=10.0, batch_size=1)
    """
    return kernel(
        dynamics.noise_corrected(
            step_size, friction=friction, temperature=temperature, noise=noise, integrator=integrator
        ),
        gradients.covariance_tracking(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            structure=structure,
            rank=rank,
            replace=replace,
        ),
    )
