"""Every named system: a dynamics and an estimator, one line each, and one table of them all.

The table is what the tests and the documentation are generated from.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from ewsg_jax import _check, dynamics, gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._rows import CHUNK_SIZE
from ewsg_jax._types import Hyperparameter, PyTree
from ewsg_jax.posterior import Posterior

Integrator = Literal["semi_implicit", "euler", "splitting", "exact"]


def ld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    chunk_size: int = CHUNK_SIZE,
) -> Kernel:
    """Langevin dynamics with the full gradient: θ' = θ − h ∇V(θ) + √(2hT) ξ.

    Targets exp(−V/T) with a bias of order h. n evaluations a step. The reference for `sgld`.
    Arguments as in `dynamics.langevin` and `gradients.full`.

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
        _underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.full(posterior, chunk_size=chunk_size),
    )


def sgld(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    batch_size: int,
    replace: bool = True,
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
        gradients.uniform(posterior, batch_size=batch_size, replace=replace),
    )


def sghmc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    integrator: Integrator = "semi_implicit",
    replace: bool = True,
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
        _underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace),
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
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: float = 1.0,
) -> Kernel:
    """Exponentially weighted stochastic gradients (Li, Wang, Zha & Tao), Algorithm 1: `sghmc` with chosen batches.

    The paper integrates with `integrator="euler"`. Targets exp(−V/T) with a bias of order h: the weights damp
    the minibatch's heat and add a bias from the skewness of the gradients. (M+1) b evaluations a step, M the
    chain length. Arguments as in the dynamics of that name, `gradients.uniform` and
    `gradients.exponentially_weighted`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.ewsg(ewsg.models.gaussian_location(), 5e-2, friction=10.0, batch_size=1)
    """
    return kernel(
        _underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.exponentially_weighted(
            gradients.uniform(posterior, batch_size=batch_size, replace=replace),
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
            gradients.uniform(posterior, batch_size=batch_size, replace=replace),
            chain_length=chain_length,
            frozen_noise=frozen_noise,
            candidates=candidates,
        ),
    )


def _underdamped(
    integrator: Integrator,
    step_size: Hyperparameter,
    friction: Hyperparameter,
    temperature: Hyperparameter,
    noise: NoiseLaw,
    inverse_mass: float,
) -> dynamics.Dynamics:
    """Return the underdamped dynamics of that name; what a scheme does not have is refused."""
    _check.one_of("integrator", integrator, ("semi_implicit", "euler", "splitting", "exact"))
    shared = {"friction": friction, "temperature": temperature}
    is_one = isinstance(inverse_mass, int | float) and not isinstance(inverse_mass, bool) and inverse_mass == 1
    if integrator != "exact" and not is_one:
        raise ValueError(f"inverse_mass must be 1 unless integrator='exact'; got {_check.describe(inverse_mass)}")
    if integrator in ("splitting", "exact"):
        if noise != "gaussian":
            raise ValueError(
                f"noise must be 'gaussian' for integrator={integrator!r}, whose order or exact law ±1 noise would "
                f"cost; got {_check.describe(noise)}"
            )
        if integrator == "exact":
            return dynamics.exact(step_size, inverse_mass=inverse_mass, **shared)
        return dynamics.splitting(step_size, **shared)
    build = dynamics.euler if integrator == "euler" else dynamics.semi_implicit
    return build(step_size, noise=noise, **shared)


class Method(NamedTuple):
    """A row of the table of methods.

    Attributes:
        build: `build(posterior, step_size, **options) -> Kernel`.
        title: what it is called.
        dynamics: the names of its dynamics.
        estimator: its estimator.
        bias: the order in the step size of its distance to the target.
        evaluations: of ∇Vᵢ in a step.
        source: where it was published.
    """

    build: Callable[..., Kernel]
    title: str
    dynamics: tuple[str, ...]
    estimator: str
    bias: str
    evaluations: str
    source: str


_UNDERDAMPED = ("semi_implicit", "euler", "splitting", "exact")

METHODS: dict[str, Method] = {
    "ld": Method(ld, "Langevin dynamics", ("langevin",), "full", "h", "n", "Roberts & Tweedie 1996"),
    "uld": Method(uld, "Underdamped Langevin dynamics", _UNDERDAMPED, "full", "h or h²", "n", "Cheng et al. 2018"),
    "sgld": Method(
        sgld,
        "Stochastic-gradient Langevin dynamics",
        ("langevin",),
        "uniform",
        "h",
        "b",
        "Welling & Teh 2011",
    ),
    "sghmc": Method(
        sghmc, "Stochastic-gradient HMC", _UNDERDAMPED, "uniform", "h", "b", "Chen, Fox & Guestrin 2014"
    ),
    "ewsg": Method(
        ewsg,
        "Exponentially weighted stochastic gradients",
        _UNDERDAMPED,
        "exponentially_weighted(uniform)",
        "h",
        "(M+1) b",
        "Li, Wang, Zha & Tao, Algorithm 1",
    ),
    "ewsg_ld": Method(
        ewsg_ld,
        "The same on Langevin dynamics",
        ("langevin",),
        "exponentially_weighted(uniform)",
        "h",
        "(M+1) b",
        "Li, Wang, Zha & Tao, Appendix E",
    ),
}
"""Every named method; the documentation's tables and the contract tests are made from it."""
