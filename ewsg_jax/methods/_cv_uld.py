"""Underdamped Langevin dynamics with a control variate."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._types import Hyperparameter, Position
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


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
)
def cv_uld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    friction: Hyperparameter = 2.0,
    inverse_mass: float = 1.0,
    center: Position | None = None,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
) -> Kernel:
    """Underdamped Langevin, the exact step for a frozen gradient, with a control variate (Chatterji et al. 2018).

    Update as in `dynamics.exact`, g of `gradients.control_variate`; published with friction 2 and an inverse mass
    of one over the largest curvature. Targets exp(−V/T) with a bias of order h, a part of it from the minibatch,
    small where the posterior is narrow around the centre. 2b evaluations a step and n at the start, beside what it
    takes to find the centre (`find_mode`); memory of two positions for all chains. When to use it: as `cv_ld`, for
    posteriors of very different scales in different directions. Arguments as in `dynamics.exact` and
    `gradients.control_variate`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.cv_uld(ewsg.models.logistic_regression(), 1e-1, batch_size=10, inverse_mass=1e-2)
    """
    return kernel(
        dynamics.exact(step_size, friction=friction, inverse_mass=inverse_mass, temperature=temperature),
        gradients.control_variate(posterior, batch_size=batch_size, center=center, replace=replace, rows=rows),
    )
