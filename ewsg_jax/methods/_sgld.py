"""Langevin dynamics with uniform minibatches."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Stochastic-gradient Langevin dynamics",
    dynamics=("langevin",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Welling & Teh 2011",
    hazard="heat h·Cov/2: far too wide on tall data at usual steps",
    example={"batch_size": 2},
)
def sgld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Stochastic-gradient Langevin dynamics (Welling & Teh 2011): `ld` with b uniform rows a step.

    Targets exp(−V/T) with a bias of order h, h·Cov(g)/2 of it from the minibatch. b evaluations a step.
    Arguments as in `dynamics.langevin` and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-5, batch_size=50)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
