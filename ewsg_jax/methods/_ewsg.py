"""Underdamped Langevin dynamics with exponentially weighted minibatches."""

from typing import Literal

from ewsg_jax import gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, PyTree
from ewsg_jax.gradients._row_laws import RowLawName
from ewsg_jax.methods._method import method
from ewsg_jax.methods._underdamped import INTEGRATORS, Integrator, underdamped
from ewsg_jax.posterior import Posterior


@method(
    title="Exponentially weighted stochastic gradients",
    dynamics=INTEGRATORS,
    estimator="exponentially_weighted(uniform)",
    bias="h",
    evaluations="(M+1) b",
    memory="none",
    source="Li, Wang, Zha & Tao, Algorithm 1",
    hazard="skewed gradients move the mean, by order h",
    integrators=INTEGRATORS,
    example={"friction": 2.0, "batch_size": 2, "chain_length": 2},
)
def ewsg(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    chain_length: int | float = 1,
    frozen_noise: str | PyTree = "momentum",
    candidates: Literal["together", "one_by_one"] = "together",
    integrator: Integrator = "semi_implicit",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: float = 1.0,
) -> Kernel:
    """Exponentially weighted stochastic gradients (Li, Wang, Zha & Tao), Algorithm 1: `sghmc` with chosen batches.

    The paper integrates with `integrator="euler"`. Targets exp(−V/T) with a bias of order h: the weights damp
    the minibatch's heat and tilt its force, which for small h leaves θ as much too cold as `sghmc` leaves it too
    hot (docs/bias.md); skewed gradients move its mean. (M+1) b evaluations a step, M the chain length. Arguments
    as in the dynamics of that name, `gradients.uniform` and `gradients.exponentially_weighted`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg(ewsg.models.gaussian_location(), 5e-2, friction=10.0, batch_size=1)
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.exponentially_weighted(
            gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            candidates=candidates,
        ),
    )
