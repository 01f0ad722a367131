"""Langevin dynamics with exponentially weighted minibatches."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, PyTree
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="The same on Langevin dynamics",
    dynamics=("langevin",),
    estimator="exponentially_weighted(uniform)",
    bias="h",
    evaluations="(M+1) b",
    memory="none",
    source="Li, Wang, Zha & Tao, Appendix E",
    hazard="skewed gradients move the mean, by order h",
    example={"batch_size": 2, "chain_length": 2},
)
def ewsg_ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    chain_length: int | float = 1,
    frozen_noise: str | PyTree = "momentum",
    candidates: Literal["together", "one_by_one"] = "together",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Exponentially weighted stochastic gradients on Langevin dynamics (EWSG, Appendix E; its drift is −h n ∇V_I).

    Targets exp(−V/T) with a bias of order h. (M+1) b evaluations a step. Arguments as in `dynamics.langevin`,
    `gradients.uniform` and `gradients.exponentially_weighted`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg_ld(ewsg.models.gaussian_location(), 5e-3, batch_size=1)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.exponentially_weighted(
            gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            candidates=candidates,
        ),
    )
