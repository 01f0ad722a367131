"""EWSG section 5.1: on a 2-D Gaussian, at equal data passes, EWSG with M = 1 is closer than SGHMC.

n = 50, b = 1, h = 0.05, γ = 10, 30 passes, 10,000 chains; KL(target ‖ Gaussian fitted to the last
positions). The data are ten stored draws: the keys 0 … 9 of JAX's threefry generator.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.oracles.gaussian import kl_divergence

pytestmark = pytest.mark.usefixtures("optimised")

SETTINGS = {"step_size": 0.05, "friction": 10.0, "batch_size": 1}


@functools.cache
def kernels(integrator):
    model = ewsg.models.gaussian_location()
    uniform = ewsg.sghmc(model, integrator=integrator, **SETTINGS)
    return uniform, ewsg.ewsg(model, integrator=integrator, chain_length=1, **SETTINGS)


def divergence(kernel, seed):
    data = jax.random.normal(jax.random.key(seed), (50, 2))
    thin = 30 * 50 // kernel.evaluations(data).per_step
    samples = ewsg.sample(
        jax.random.key(1000 + seed),
        kernel,
        jnp.zeros(2),
        data,
        data_passes=30,
        num_chains=10_000,
        thin=thin,
    )
    assert samples.data_passes == 30
    last = samples.position[:, -1].astype(float)
    rows = np.asarray(data, float)
    return kl_divergence(rows.mean(0), np.eye(2) / 50, last.mean(0), np.cov(last.T))


@pytest.mark.parametrize("integrator", ["euler", "semi_implicit"])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.sweep) for s in range(1, 10))]
)
def test_ewsg_is_closer_than_sghmc(seed, integrator):
    uniform, weighted = (divergence(kernel, seed) for kernel in kernels(integrator))
    print(f"{integrator} seed {seed}: KL(SGHMC) = {uniform:.3f}, KL(EWSG) = {weighted:.3f}")
    assert weighted < uniform
