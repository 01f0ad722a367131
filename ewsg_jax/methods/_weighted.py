"""Exponentially weighted stochastic gradients."""

from typing import Literal

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter, PyTree
from ewsg_jax.methods._underdamped import Integrator, underdamped
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows.named import RowLawName


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
