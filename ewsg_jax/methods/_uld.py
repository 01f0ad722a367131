"""Underdamped Langevin dynamics with the full gradient."""

from ewsg_jax import gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._rows import CHUNK_SIZE
from ewsg_jax._types import Hyperparameter
from ewsg_jax.methods._method import method
from ewsg_jax.methods._underdamped import INTEGRATORS, Integrator, underdamped
from ewsg_jax.posterior import Posterior


@method(
    title="Underdamped Langevin dynamics",
    dynamics=INTEGRATORS,
    estimator="full",
    bias="h or h²",
    evaluations="n",
    memory="none",
    source="Cheng et al. 2018",
    hazard="a pass buys one step",
    integrators=INTEGRATORS,
    example={"friction": 2.0},
)
def uld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    integrator: Integrator = "semi_implicit",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: float = 1.0,
    chunk_size: int = CHUNK_SIZE,
) -> Kernel:
    """Underdamped Langevin dynamics with the full gradient.

    Targets exp(−V/T) with a bias of order h, or h² with `integrator="splitting"`. n evaluations a step. The
    reference for `sghmc` and `ewsg`. Arguments as in the dynamics of that name and `gradients.full`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.uld(ewsg.models.logistic_regression(), 1e-2, friction=1.0, integrator="splitting")
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.full(posterior, chunk_size=chunk_size),
    )
