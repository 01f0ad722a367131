"""Underdamped Langevin dynamics with uniform minibatches."""

from ewsg_jax import gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.methods._underdamped import INTEGRATORS, Integrator, underdamped
from ewsg_jax.posterior import Posterior


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
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    integrator: Integrator = "semi_implicit",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: float = 1.0,
) -> Kernel:
    """Stochastic-gradient Hamiltonian Monte Carlo: underdamped Langevin with b uniform rows a step.

    Chen et al. (2014) with no estimate of the gradient's noise; with `integrator="euler"` it is what EWSG's
    paper calls SGULD. Targets exp(−V/T) with a bias of order h, h·Cov(g)/(2γ) of it from the minibatch.
    b evaluations a step. Arguments as in the dynamics of that name and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sghmc(ewsg.models.logistic_regression(), 1e-3, friction=50.0, batch_size=50)
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
