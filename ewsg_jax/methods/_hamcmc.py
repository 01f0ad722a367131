"""Langevin dynamics with a quasi-Newton matrix."""

from jax.typing import ArrayLike

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Langevin with a quasi-Newton matrix",
    dynamics=("quasi_newton",),
    estimator="uniform",
    bias="h on a Gaussian",
    evaluations="2b",
    memory="3d per pair, in the dynamics",
    source="Şimşekli et al. 2016",
    hazard="biased off Gaussians (d ≥ 2) however small h; diverges where `trust_region` is small",
    example={"batch_size": 2, "memory_size": 3},
)
def hamcmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    memory_size: int = 5,
    trust_region: ArrayLike = 1.0,
    initial_scale: ArrayLike = 1.0,
    curvature_threshold: ArrayLike = 1e-4,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Stochastic quasi-Newton Langevin Monte Carlo (HAMCMC, Şimşekli et al. 2016).

    Update as in `dynamics.quasi_newton`: θ_t = θ_{t−M} − h H g(θ_{t−M}) + √(2hT) S ξ with S Sᵀ = H, the L-BFGS
    matrix of the last steps. Targets exp(−V/T) with a bias of order h where V is a quadratic, h Sᵀ Cov(g) S/2 of
    it heat of the minibatch; elsewhere a bias stays as h → 0 (see `dynamics.quasi_newton`). 2b evaluations a step;
    the dynamics keeps 2M − 1 points, M = `memory_size`, and as many differences of gradients as it needs. For
    nearly Gaussian posteriors of very different scales in directions that no diagonal tells apart. Arguments as in
    `dynamics.quasi_newton` and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.hamcmc(ewsg.models.logistic_regression(), 1e-3, batch_size=50, initial_scale=0.1)
    """
    return kernel(
        dynamics.quasi_newton(
            step_size,
            memory_size=memory_size,
            trust_region=trust_region,
            initial_scale=initial_scale,
            curvature_threshold=curvature_threshold,
            temperature=temperature,
            noise=noise,
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
