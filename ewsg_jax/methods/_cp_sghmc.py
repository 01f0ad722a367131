"""Underdamped Langevin dynamics with rows from every stratum."""

from collections.abc import Callable

import jax.numpy as jnp

from ewsg_jax import gradients
from ewsg_jax._kernel import Kernel, kernel
from ewsg_jax._random import NoiseLaw
from ewsg_jax._types import Array, Data, Hyperparameter
from ewsg_jax.methods._method import method
from ewsg_jax.methods._underdamped import INTEGRATORS, Integrator, underdamped
from ewsg_jax.posterior import Posterior


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
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    friction: Hyperparameter,
    batch_size: int,
    labels: str | Callable[[Data], Array],
    num_strata: int,
    integrator: Integrator = "semi_implicit",
    temperature: Hyperparameter = 1.0,
    noise: NoiseLaw = "gaussian",
    inverse_mass: float = 1.0,
) -> Kernel:
    """Stochastic-gradient HMC with rows from every cluster (CP-SGHMC, Fu & Zhang 2017; its comparison in EWSG).

    `sghmc` with g of `gradients.stratified`, the strata found by k-means first (`cluster`). Targets
    exp(−(V + ‖p‖²/2)/T) with a bias of order h, h·Cov(g)/(2γ) of it from the minibatch: the part of the plain
    gradient's covariance that lies between the clusters is gone. b evaluations a step; memory of n row numbers for
    all chains. When to use it: where rows fall into groups whose gradients differ; the labels must not cost more
    than they save. Arguments as in the dynamics of that name and `gradients.stratified`.

    Example:
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.logistic_regression()
        >>> kernel = ewsg.cp_sghmc(model, 1e-3, friction=50.0, batch_size=20, labels="cluster", num_strata=10)
    """
    return kernel(
        underdamped(integrator, step_size, friction, temperature, noise, inverse_mass),
        gradients.stratified(posterior, batch_size=batch_size, labels=labels, num_strata=num_strata),
    )
