"""Underdamped Langevin dynamics, symmetric splitting, with anchored gradients."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._period import Period
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="The splitting with anchored gradients",
    dynamics=("splitting",),
    estimator="svrg",
    bias="h²",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 3",
    hazard="as `svrg_ld`",
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
)
def svrg2nd_hmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
) -> Kernel:
    """Underdamped Langevin, symmetric splitting, with anchored gradients (SVRG2nd-HMC, Li et al. 2019, eqs. 12–18).

    Update as in `dynamics.splitting`, g of `gradients.svrg`, anchored where the splitting takes its gradient.
    Targets exp(−(V + ‖p‖²/2)/T) with a bias of order h² at fixed K: the distance to the anchor, and with it the
    minibatch's part, shrinks with h too. 2b evaluations a step and n every K steps; memory of two positions. When
    to use it: the first to try where passes over the data can be afforded. Arguments as in `dynamics.splitting` and
    `gradients.svrg`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg2nd_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.splitting(step_size, friction=friction, temperature=temperature),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )
