"""Underdamped Langevin dynamics: full data, uniform batches, a thermostat, rows of clusters."""

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp

from ewsg_jax import dynamics, gradients
from ewsg_jax.base import checks
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Data, Hyperparameter, P
from ewsg_jax.dynamics._mass import InverseMass
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import method
from ewsg_jax.methods.langevin import ld, sgld
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import CHUNK_SIZE

Integrator = Literal["semi_implicit", "euler", "splitting", "exact", "ABOBA", "BAOAB"]
INTEGRATORS = ("semi_implicit", "euler", "splitting", "exact", "ABOBA", "BAOAB")


def underdamped(
    integrator: Integrator,
    step_size: Hyperparameter,
    friction: Hyperparameter,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> dynamics.Dynamics:
    """Return the underdamped dynamics of that name; what a scheme does not have is refused."""
    checks.one_of("integrator", integrator, INTEGRATORS)
    shared = {"friction": friction, "temperature": temperature, "inverse_mass": inverse_mass}
    if integrator in ("semi_implicit", "euler"):
        build = dynamics.euler if integrator == "euler" else dynamics.semi_implicit
        return build(step_size, noise=noise, **shared)
    if noise != "gaussian":
        raise ValueError(
            f"noise must be 'gaussian' for integrator={integrator!r}, whose order or exactness "
            f"other noise would cost; got {checks.describe(noise)}"
        )
    if integrator == "exact":
        return dynamics.exact(step_size, **shared)
    if integrator == "splitting":
        return dynamics.splitting(step_size, **shared)
    return dynamics.splitting_scheme(integrator, step_size, **shared)


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
    like=(ld,),
)
def uld(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    integrator: Integrator = "semi_implicit",
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
    chunk_size: int = CHUNK_SIZE,
) -> Kernel[P]:
    """Underdamped Langevin dynamics with the full gradient (ULD).

    Update: integrates dθ = p dt, dp = −(∇V(θ) + γp) dt + √(2γT) dW. The default, semi-implicit
        Euler, is p' = (1 − hγ) p − h ∇V(θ) + √(2hγT) ξ, θ' = θ + h p'.
    Target: exp(−V/T).
    Bias: h² with `"splitting"`, `"ABOBA"` and `"BAOAB"`.
    When: small data (`"BAOAB"` first), and as the reference for `sghmc` and `ewsg`.

    Args:
        step_size: h > 0, time per step; a number, a traced scalar or a schedule h(step).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        integrator: a scheme of `ewsg_jax.dynamics`: `"semi_implicit"` (default); `"euler"`, as in
            the papers; `"splitting"`, of order h² with an exact gradient; `"ABOBA"` or `"BAOAB"`
            (`splitting_scheme`), of order h² and unbiased on Gaussians with an exact gradient; or
            `"exact"`, exact for a frozen one. Only the first two take another noise than
            `"gaussian"`.
        inverse_mass: C > 0: number, pytree, matrix or `LowRank`, as in
            `ewsg_jax.dynamics.semi_implicit`. Default 1.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or one that the integrator
            does not take.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.uld(
        ...     ewsg.models.logistic_regression(), 1e-2, friction=1.0, integrator="splitting"
        ... )
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.full(posterior, chunk_size=chunk_size),
    )


@method(
    title="Stochastic-gradient HMC",
    dynamics=INTEGRATORS,
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Chen, Fox & Guestrin 2014",
    hazard="gradient noise h·Cov/(2γ): far too wide on tall data at usual steps",
    integrators=INTEGRATORS,
    example={"friction": 2.0, "batch_size": 2},
    like=(uld, sgld),
)
def sghmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    integrator: Integrator = "semi_implicit",
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Stochastic-gradient Hamiltonian Monte Carlo (SGHMC): `uld` with b uniform rows a step.

    Update: with the default integrator p' = (1 − hγ) p − h g(θ) + √(2hγT) ξ, θ' = θ + h p' with g
        = ∇V₀(θ) + (n/b) Σ_{i∈I} ∇Vᵢ(θ). There is no estimate of the gradient's noise (B̂ = 0 in the
        first source). With `integrator="euler"` it is SGULD of the second.
    Target: exp(−V/T).
    Bias: The minibatch adds h·Cov(g)/(2γ) to the temperature.
    When: a run of few data passes, and as a baseline. On tall data, take shorter steps, `nc_sghmc`,
        or an estimator of less variance (`svrg2nd_hmc`, `saga2nd_hmc`).
    Source: Li, Wang, Zha & Tao, eq. 3.

    Args:
        integrator: `"semi_implicit"` (default), or another scheme that `ewsg_jax.uld` lists.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or one that the integrator
            does not take; at `init`, b > n although no row may come twice.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sghmc(
        ...     ewsg.models.logistic_regression(), 1e-3, friction=50.0, batch_size=50
        ... )
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )


@method(
    title="Stochastic-gradient HMC with a thermostat",
    dynamics=("thermostat",),
    estimator="uniform",
    bias="h",
    evaluations="b",
    memory="none",
    source="Ding et al. 2014",
    hazard="θ too narrow by order h at any batch; balances noise on average over directions only",
    example={"friction": 2.0, "batch_size": 2},
    like=(sghmc, sgld),
)
def sgnht(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
    temperature: Hyperparameter = 1.0,
    inverse_mass: InverseMass = 1.0,
    noise: NoiseKind = "gaussian",
) -> Kernel[P]:
    """Stochastic-gradient Nosé–Hoover thermostat (SGNHT): `sghmc` whose friction ζ adapts to the
    gradient noise.

    Update: p' = (1 − hζ) p − h g + √(2hγT) ξ, θ' = θ + h p', ζ' = ζ + h(‖p'‖²/d − T), ζ₀ = γ, with
        g as in `sghmc`.
    Target: exp(−V/T).
    Bias: Minibatch noise whose covariance is the same at every θ and in every direction adds none:
        ζ, whose mean is γ without that noise, compensates it.
    Cost: The dynamics keeps a momentum and one number.
    When: minibatch noise of unknown size, similar in many directions, as with networks. If a few
        directions have far more noise than the others, the others come out too narrow. With an
        exact gradient `uld` has the smaller bias.

    Args:
        friction: γ > 0 per unit of time, the initial value of ζ; a number, a traced scalar or a
            schedule.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> kernel = ewsg.sgnht(
        ...     ewsg.models.logistic_regression(), 1e-3, friction=10.0, batch_size=50
        ... )
    """
    return kernel(
        dynamics.thermostat(
            step_size,
            friction=friction,
            temperature=temperature,
            noise=noise,
            inverse_mass=inverse_mass,
        ),
        gradients.uniform(posterior, batch_size=batch_size, replace=replace, rows=rows),
    )


@method(
    title="Stochastic-gradient HMC with stratified rows",
    dynamics=INTEGRATORS,
    estimator="stratified",
    bias="h",
    evaluations="b",
    memory="n for all chains",
    source="Fu & Zhang 2017",
    hazard="no better than `sghmc` if clusters do not explain the gradients",
    integrators=INTEGRATORS,
    example={
        "friction": 2.0,
        "batch_size": 2,
        "labels": lambda data: (data["y"] > 0).astype(jnp.int32),
        "num_strata": 2,
    },
    like=(sghmc,),
)
def cp_sghmc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    labels: str | Callable[[Data], Array],
    num_strata: int,
    integrator: Integrator = "semi_implicit",
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Stochastic-gradient HMC with rows from every cluster (CP-SGHMC).

    Update: as `sghmc` with g = ∇V₀(θ) + Σ_c (n_c/b_c) Σ_{i∈I_c} ∇Vᵢ(θ), b_c rows from stratum c of
        n_c rows. The strata are made before the run, by k-means (`ewsg_jax.cluster`).
    Target: exp(−(V + ‖p‖²/2)/T).
    Bias: The minibatch adds h·Cov(g)/(2γ) to the temperature; Cov(g) lacks the part of the plain
        gradient's covariance that lies between the clusters.
    When: rows fall into groups whose gradients differ. The labels must not cost more than they
        save.
    Source: Compared in Li, Wang, Zha & Tao.

    Args:
        batch_size: b, the number of rows in a batch, at least `num_strata`.
        labels: each row's stratum, integers 0 … `num_strata` − 1, (n,): a key of the data, or
            `labels(data)`.
        num_strata: the number of strata; some may be empty.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or one that the integrator
            does not take; at `init`, labels that are not such integers.

    Example: for about 1,000 rows of unit scale; with more rows, take shorter steps.
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.logistic_regression()
        >>> kernel = ewsg.cp_sghmc(
        ...     model, 1e-3, friction=50.0, batch_size=20, labels="cluster", num_strata=10
        ... )
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.stratified(
            posterior, batch_size=batch_size, labels=labels, num_strata=num_strata
        ),
    )
