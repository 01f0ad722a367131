"""Langevin dynamics with a running preconditioner."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Langevin with a running preconditioner",
    dynamics=("preconditioned",),
    estimator="uniform",
    bias="not removed by h, or h with the correction",
    evaluations="b, or 2b with the correction",
    memory="d or 2d, in the dynamics",
    source="Li, Chen, Carlson & Carin 2016",
    hazard="its law is not the posterior however small h, unless `correction=True`",
    example={"batch_size": 2, "damping": 0.1},
)
def psgld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    decay: float = 0.99,
    damping: float | None = None,
    correction: bool = False,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Preconditioned stochastic-gradient Langevin dynamics (pSGLD, Li, Chen, Carlson & Carin 2016).

    Update as in `dynamics.preconditioned`: θ' = θ − h G g + √(2hTG) ξ, G = 1/(λ + √m), m a running mean of
    squared mean likelihood gradients; h is half of the paper's ε. Targets exp(−V/T) only with `correction=True`,
    then with a bias of order h; without it the law is another, however small h. b evaluations a step, 2b with
    the correction; the dynamics keeps d numbers, or 2d. When to use it: coordinates of very different scales,
    and predictions rather than exact uncertainties; with the correction, and a `damping` of its own, those too.
    Arguments as in `dynamics.preconditioned` and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.psgld(ewsg.models.logistic_regression(), 1e-5, batch_size=50)
    """
    return kernel(
        dynamics.preconditioned(
            step_size, decay=decay, damping=damping, correction=correction, temperature=temperature, noise=noise
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
