"""Langevin dynamics with the full gradient."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._rows import CHUNK_SIZE
from ewsg_jax._types import Hyperparameter
from ewsg_jax.methods._method import method
from ewsg_jax.posterior import Posterior


@method(
    title="Langevin dynamics",
    dynamics=("langevin",),
    estimator="full",
    bias="h",
    evaluations="n",
    memory="none",
    source="Roberts & Tweedie 1996",
    hazard="a pass buys one step",
)
def ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    chunk_size: int = CHUNK_SIZE,
) -> Kernel:
    """Langevin dynamics with the full gradient: θ' = θ − h ∇V(θ) + √(2hT) ξ.

    Targets exp(−V/T) with a bias of order h. n evaluations a step, no memory. For small data, and as the reference
    of `sgld`; with large data a pass buys one step. Arguments as in `dynamics.langevin` and `gradients.full`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ld(ewsg.models.logistic_regression(), step_size=1e-3)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.full(posterior, chunk_size=chunk_size),
    )
