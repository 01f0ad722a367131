"""All experiments by their names."""

from ewsg_jax.reproduction import (
    blr_vr_claims,
    bnn,
    convergence,
    covertype_claims,
    gaussian_claims,
    gaussian_mse,
    hmc_claims,
    linear_gaussian_claims,
    lognormal_claims,
    matrix_factorisation,
    misspecified_claims,
    mnist,
    mnist_chains,
    rates_claims,
    regimes_claims,
)
from ewsg_jax.reproduction.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        *gaussian_claims.EXPERIMENTS,
        gaussian_mse.EXPERIMENT,
        convergence.EXPERIMENT,
        linear_gaussian_claims.EXPERIMENT,
        matrix_factorisation.EXPERIMENT,
        *mnist.EXPERIMENTS,
        mnist_chains.EXPERIMENT,
        covertype_claims.EXPERIMENT,
        lognormal_claims.EXPERIMENT,
        rates_claims.EXPERIMENT,
        regimes_claims.EXPERIMENT,
        *hmc_claims.EXPERIMENTS,
        bnn.EXPERIMENT,
        blr_vr_claims.EXPERIMENT,
        misspecified_claims.EXPERIMENT,
    )
}
