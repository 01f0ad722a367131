"""All experiments by their names."""

from ewsg_jax.reproduction import (
    convergence,
    gaussian_claims,
    gaussian_mse,
    linear_gaussian_claims,
    matrix_factorisation,
    mnist,
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
    )
}
