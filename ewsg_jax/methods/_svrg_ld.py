"""Langevin dynamics with anchored gradients."""

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
    title="Langevin with anchored gradients",
    dynamics=("langevin",),
    estimator="svrg",
    bias="h",
    evaluations="2b, and n every K steps",
    memory="2d",
    source="Dubey et al. 2016",
    hazard="far from its anchor worse than no anchor; waits for full gradients",
    example={"batch_size": 2, "refresh_every": 3},
)
def svrg_ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    refresh_every: Period = None,
    option: Literal["I", "II"] = "II",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Langevin dynamics with anchored gradients (Dubey et al. 2016): θ' = θ − h g + √(2hT) ξ.

    g of `gradients.svrg`. Targets exp(−V/T) with a bias of order h: that of `ld`; the heat of minibatches is
    of order h², for the anchor is near. 2b evaluations a step and n every K steps; memory
    of two positions. For data that several passes can be afforded on; where a run ends within a pass or two,
    `sgld` is cheaper. Arguments as in `dynamics.langevin` and `gradients.svrg`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.svrg_ld(ewsg.models.logistic_regression(), 1e-3, batch_size=10)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.svrg(
            posterior,
            batch_size=batch_size,
            refresh_every=refresh_every,
            option=option,
            replace=replace,
            rows=rows,
        ),
    )
