"""Langevin dynamics with a control variate."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, Position
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Langevin with a control variate",
    dynamics=("langevin",),
    estimator="control_variate",
    bias="h",
    evaluations="2b",
    memory="2d for all chains",
    source="Chatterji et al. 2018",
    hazard="worse than no centre where the posterior is wide or has several modes",
    example={"batch_size": 2},
)
def cv_ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    center: Position | None = None,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Langevin dynamics with a control variate (Chatterji et al. 2018): θ' = θ − h g + √(2hT) ξ.

    g of `gradients.control_variate`. Targets exp(−V/T) with a bias of order h: that of `ld`, and the heat
    h·Cov(g)/2 of minibatches, small where the posterior is narrow around the centre. 2b evaluations a step and n
    at the start, beside what it takes to find the centre (`find_mode`); memory of two positions for all chains.
    For many data and one mode; not where the posterior is wide or has several. Arguments as in `dynamics.langevin`
    and `gradients.control_variate`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.control_variate(posterior, batch_size=batch_size, center=center, replace=replace, rows=rows),
    )
