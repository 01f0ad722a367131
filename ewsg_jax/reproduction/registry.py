"""All experiments by their names."""

from ewsg_jax.reproduction import (
    blr_vr_claims,
    convergence,
    covertype_claims,
    gaussian_claims,
    gaussian_mse,
    misspecified_claims,
    theorems_claims,
)
from ewsg_jax.reproduction.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        *gaussian_claims.EXPERIMENTS,
        gaussian_mse.EXPERIMENT,
        convergence.EXPERIMENT,
        covertype_claims.EXPERIMENT,
        blr_vr_claims.EXPERIMENT,
        misspecified_claims.EXPERIMENT,
        theorems_claims.EXPERIMENT,
    )
}
