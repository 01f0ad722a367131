"""Langevin dynamics with a table of gradients."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.gradients._saga import MEMORY_LIMIT
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


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
)
def saga_ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Langevin dynamics with a table of gradients (Dubey et al. 2016): θ' = θ − h g + √(2hT) ξ.

    g of `gradients.saga`. Targets exp(−V/T) with a bias of order h: that of `ld`; the heat of minibatches is
    of order h², for the table is young. b evaluations a step and n at the start; memory of n
    numbers per linear predictor, or of n positions. For linear models, where it costs what `sgld` does; for
    networks the table is out of reach. Arguments as in `dynamics.langevin` and `gradients.saga`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )
