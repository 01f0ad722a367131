"""Dynamics that adapt to the target: a thermostat, a running preconditioner, a metric of the user's."""

from ewsg_jax import dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Hyperparameter
from ewsg_jax.dynamics._riemannian import OfPosition
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows.named import RowLawName


def sgnht(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: RowLawName = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
) -> Kernel:
    """Stochastic-gradient Nosé–Hoover thermostat (SGNHT, Ding et al. 2014): `sghmc` whose friction adapts.

    Update as in `dynamics.thermostat`: p' = (1 − hζ) p − h g + √(2hγT) ξ, θ' = θ + h p', ζ' = ζ + h(‖p'‖²/d − T).
    Targets exp(−V/T) with a bias of order h; the heat of a minibatch whose covariance is the same at every θ and in
    every direction is no part of it, for ζ takes it up. b evaluations a step; the dynamics keeps a momentum and one
    number. When to use it: minibatch noise of unknown size in many like directions, as with networks. Not where a
    few directions have far more noise than the others, which then come out too cold; nor for an exact gradient,
    where `uld` has the smaller bias. Arguments as in `dynamics.thermostat` and `gradients.uniform`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgnht(ewsg.models.logistic_regression(), 1e-3, friction=10.0, batch_size=50)
    """
    return kernel(
        dynamics.thermostat(step_size, friction=friction, temperature=temperature, noise=noise),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
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
