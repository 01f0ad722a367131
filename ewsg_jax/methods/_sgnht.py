"""Underdamped Langevin dynamics with a thermostat."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Stochastic-gradient HMC with a thermostat",
    dynamics=("thermostat",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Ding et al. 2014",
    hazard="θ too cold by order h at any batch; takes up noise on average over directions only",
    example={"friction": 2.0, "batch_size": 2},
)
def sgnht(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Stochastic-gradient Nosé–Hoover thermostat (SGNHT, Ding et al. 2014): `sghmc` whose friction adapts.

    Update as in `dynamics.thermostat`: p' = (1 − hζ) p − h g + √(2hγT) ξ, θ' = θ + h p', ζ' = ζ + h(‖p'‖²/d − T).
    Targets exp(−V/T) with a bias of order h; the heat of a minibatch whose covariance is the same at every θ and in
    every direction is no part of it, for ζ takes it up. b evaluations a step; the dynamics keeps a momentum and one
    number. When to use it: minibatch noise of unknown size in many like directions, as with networks. Not where a
    few directions have far more noise than the others, which then come out too cold; nor for an exact gradient,
    where `uld` has the smaller bias. Arguments as in `dynamics.thermostat` and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgnht(ewsg.models.logistic_regression(), 1e-3, friction=10.0, batch_size=50)
    """
    return kernel(
        dynamics.thermostat(step_size, friction=friction, temperature=temperature, noise=noise),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
