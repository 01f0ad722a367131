"""Underdamped Langevin dynamics, semi-implicit, with anchored gradients."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._period import Period
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Underdamped with anchored gradients",
    dynamics=("semi_implicit",),
    estimator="svrg",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Li, Zhang, Cheng, Zhu & Li 2019, Algorithm 1",
    hazard="as `svrg_ld`",
    example={"friction": 2.0, "batch_size": 2, "refresh_every": 3},
)
def svrg_hmc(
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
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Underdamped Langevin, semi-implicit, with anchored gradients (SVRG-HMC, Li et al. 2019, Algorithm 1).

    Update as in `dynamics.semi_implicit`, g of `gradients.svrg`. Targets exp(−(V + ‖p‖²/2)/T) with a bias of order
    h, which on a quadratic falls on the momentum. 2b evaluations a step and n every K steps; memory of two
    positions. When to use it: as `svrg_ld`; `svrg2nd_hmc` costs the same and has the smaller bias. Arguments as in
    `dynamics.semi_implicit` and `gradients.svrg`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_hmc(ewsg.models.logistic_regression(), 1e-2, friction=1.0, batch_size=10)
    """
    return kernel(
        dynamics.semi_implicit(step_size, friction=friction, temperature=temperature, noise=noise),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )
