"""Underdamped Langevin dynamics, symmetric splitting, with a table of gradients."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.gradients._saga import MEMORY_LIMIT
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


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
)
def saga2nd_hmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    memory_limit: int = MEMORY_LIMIT,
    temperature: Hyperparameter = 1.0,
) -> Kernel:
    """Underdamped Langevin, symmetric splitting, with a table of gradients (SAGA2nd-HMC, Li et al. 2019).

    Update as in `dynamics.splitting`, g of `gradients.saga`, its table filled where the splitting takes its
    gradient. Targets exp(−(V + ‖p‖²/2)/T) with a bias of order h² at fixed n/b: the age of the table, and with it
    the minibatch's part, shrinks with h too. b evaluations a step and n at the start; memory of n numbers per
    linear predictor, or of n positions. When to use it: the first to try for linear models. Arguments as in
    `dynamics.splitting` and `gradients.saga`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.saga2nd_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.splitting(step_size, friction=friction, temperature=temperature),
        gradients.saga(posterior, batch_size=batch_size, replace=replace, rows=rows, memory_limit=memory_limit),
    )
