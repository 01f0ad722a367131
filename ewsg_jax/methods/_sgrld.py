"""Langevin dynamics in a metric of the user's."""

import jax

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.dynamics._riemannian import OfPosition
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Langevin in a metric of the user's",
    dynamics=("riemannian",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Patterson & Teh 2013",
    hazard="a metric must be known; its derivatives cost d passes of it",
    example={
        "batch_size": 2,
        "inverse_metric": lambda position, data: jax.tree.map(lambda x: 1 / (1 + x**2), position),
    },
)
def sgrld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    inverse_metric: OfPosition,
    batch_size: int,
    divergence: OfPosition | None = None,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Stochastic-gradient Riemannian Langevin dynamics (SGRLD, Patterson & Teh 2013).

    Update as in `dynamics.riemannian`: θ' = θ − h(G⁻¹ g − Γ) + √(2hT) L ξ with L Lᵀ = G⁻¹ and Γ = T∇·G⁻¹; h is
    half of the paper's ε. Targets exp(−V/T) with a bias of order h, h·G⁻¹Cov(g)/2 of it from the minibatch. b
    evaluations a step, and what `inverse_metric` and its d derivatives cost; no memory. When to use it: where a
    metric is known, as for probabilities or scales; a dense one for few dimensions only. Arguments as in
    `dynamics.riemannian` and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgrld(
        ...     ewsg.models.gaussian_location(),
        ...     1e-3,
        ...     inverse_metric=lambda position, data: 1 + position**2,
        ...     batch_size=1,
        ... )
    """
    return kernel(
        dynamics.riemannian(
            step_size, inverse_metric=inverse_metric, divergence=divergence, temperature=temperature, noise=noise
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
