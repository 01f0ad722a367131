"""Underdamped Langevin dynamics, semi-implicit, with a table of gradients."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.gradients._saga import MEMORY_LIMIT
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


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
)
def saga_hmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Underdamped Langevin, semi-implicit, with a table of gradients (SAGA-HMC, Li et al. 2019, Algorithm 2).

    Update as in `dynamics.semi_implicit`, g of `gradients.saga`. Targets exp(−(V + ‖p‖²/2)/T) with a bias of order
    h, which on a quadratic falls on the momentum. b evaluations a step and n at the start; memory of n numbers per
    linear predictor, or of n positions. When to use it: as `saga_ld`; `saga2nd_hmc` costs the same and has the
    smaller bias. Arguments as in `dynamics.semi_implicit` and `gradients.saga`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.semi_implicit(step_size, friction=friction, temperature=temperature, noise=noise),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )
