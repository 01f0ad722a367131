"""Underdamped Langevin dynamics with rows from every stratum."""

from collections.abc import Callable

import jax.numpy as jnp

from ewsg_jax import gradients
from ewsg_jax._kernel import Kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Array, Data, Hyperparameter, P
from ewsg_jax.dynamics.mass import InverseMass
from ewsg_jax.methods.underdamped import INTEGRATORS, Integrator, underdamped
from ewsg_jax.pair import kernel
from ewsg_jax.posterior import Posterior
from ewsg_jax.record import method


@method(
    title="Stochastic-gradient HMC with stratified rows",
    dynamics=INTEGRATORS,
    estimator="stratified",
    bias="h",
    evaluations="b",
    memory="n for all chains",
    source="Fu & Zhang 2017",
    hazard="no better than `sghmc` where clusters do not explain the gradients",
    integrators=INTEGRATORS,
    example={
        "friction": 2.0,
        "batch_size": 2,
        "labels": lambda data: (data["y"] > 0).astype(jnp.int32),
        "num_strata": 2,
    },
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
    noise: NoiseLaw = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Kernel[P]:
    """Stochastic-gradient HMC with rows from every cluster (CP-SGHMC, Fu & Zhang 2017; its comparison in EWSG).

    `sghmc` with g = ∇V₀(θ) + Σ_c (n_c/b_c) Σ_{i∈I_c} ∇Vᵢ(θ), b_c rows from each stratum c of n_c, the strata found
    by k-means first (`ewsg_jax.cluster`). Targets exp(−(V + ‖p‖²/2)/T) with a bias of order h, h·Cov(g)/(2γ) of it
    from the minibatch: the part of the plain gradient's covariance that lies between the clusters is gone. b
    evaluations a step; memory of n row numbers for all chains. When to use it: where rows fall into groups whose
    gradients differ; the labels must not cost more than they save.

    Args:
        posterior: what is sampled: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, time per step; a number, a traced scalar or a schedule (a function of the step's number).
        friction: γ > 0 per unit of time; a number, a traced scalar or a schedule.
        batch_size: b, rows in a batch, at least `num_strata`.
        labels: the stratum of each row, whole numbers from 0 to `num_strata` − 1, shape (n,), such as
            `ewsg_jax.cluster` makes: the key of data that are a dictionary, or `labels(data)`.
        num_strata: how many strata there are; some may be empty.
        integrator: the scheme of `ewsg_jax.dynamics`: `"semi_implicit"` (default); `"euler"`, the papers';
            `"splitting"`, of order h² with an exact gradient; `"ABOBA"` or `"BAOAB"` (`palindrome`), then
            without any on Gaussians; or `"exact"`, exact for a frozen one.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior itself.
        noise: `"gaussian"` (default) or `"rademacher"` (±1: the same weak order; heuristic under exponential
            weights); the second with `"semi_implicit"` and `"euler"` only.
        inverse_mass: C > 0: a number, a tree of numbers like the position, a positive definite matrix (d, d) over
            the position raveled leaf after leaf, or an `ewsg_jax.dynamics.LowRank`. With the covariance of the
            posterior every direction has width 1. Default 1.

    Returns:
        The kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, or one that the integrator does not have; at
            `init`, labels that are none.

    References:
        T. Fu and Z. Zhang, CPSG-MCMC: clustering-based preprocessing method for stochastic gradient MCMC, AISTATS
            2017.
        R. Li, X. Wang, H. Zha and M. Tao, Improving sampling accuracy of stochastic gradient MCMC methods via
            non-uniform subsampling of gradients, Foundations of Data Science.

    Example:
        The numbers are for about 1,000 rows of unit scale; with more rows steps must be shorter.

        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.logistic_regression()
        >>> kernel = ewsg.cp_sghmc(model, 1e-3, friction=50.0, batch_size=20, labels="cluster", num_strata=10)
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.stratified(posterior, batch_size=batch_size, labels=labels, num_strata=num_strata),
    )
