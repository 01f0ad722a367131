"""Langevin dynamics, overdamped and underdamped, with the full gradient and with uniform minibatches."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.methods._underdamped import Integrator, underdamped
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows.gathering import CHUNK_SIZE
from ewsg_jax.rows.named import RowLawName


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


def sgld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Stochastic-gradient Langevin dynamics (Welling & Teh 2011): `ld` with b uniform rows a step.

    Targets exp(−V/T) with a bias of order h, h·Cov(g)/2 of it from the minibatch. b evaluations a step.
    Arguments as in `dynamics.langevin` and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-5, batch_size=50)
    """
    return kernel(
        dynamics.langevin(step_size, temperature=temperature, noise=noise),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )


def sghmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    integrator: Integrator = "semi_implicit",
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: float = 1.0,
) -> Kernel:
    """Stochastic-gradient Hamiltonian Monte Carlo: underdamped Langevin with b uniform rows a step.

    Chen et al. (2014) with no estimate of the gradient's noise; with `integrator="euler"` it is what EWSG's
    paper calls SGULD. Targets exp(−V/T) with a bias of order h, h·Cov(g)/(2γ) of it from the minibatch.
    b evaluations a step. Arguments as in the dynamics of that name and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sghmc(ewsg.models.logistic_regression(), 1e-3, friction=50.0, batch_size=50)
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )
