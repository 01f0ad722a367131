"""What people bring, by the documents alone, and is right: each job runs without a warning.

What is wrong is answered in `test_numeric.py` and `model_checks`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

KEY = jax.random.key(0)
RNG = np.random.default_rng(5)
N = 120
Y = RNG.normal(size=N)


def fit(mean, y, sd=1.0):
    return -0.5 * ((y - mean) / sd) ** 2


def flat(p):
    return 0.0


def sampled(
    log_likelihood,
    log_prior,
    start,
    data,
    step_size=1e-4,
    num_steps=300,
    kernel=ewsg.sgld,
    **options,
):
    made = kernel(ewsg.Posterior(log_likelihood, log_prior), step_size, batch_size=20)
    return ewsg.sample(KEY, made, start, data, num_steps, num_chains=2, **options)


def ids_of_64_bits_that_are_small():
    ids = RNG.integers(0, 4, N)
    samples = sampled(
        lambda p, r: fit(p[r["id"]], r["y"]), flat, jnp.zeros(4), {"id": ids, "y": Y}, 1e-3, 4000
    )
    expected = [Y[ids == group].mean() for group in range(4)]
    np.testing.assert_allclose(samples.mean, expected, atol=0.25)


def visibilities_that_are_complex():
    data = (Y + 1j * RNG.normal(size=N)).astype(np.complex128)
    posterior = ewsg.Posterior(lambda p, v: -0.5 * jnp.abs(v - p) ** 2, flat)
    np.testing.assert_allclose(posterior.gradient(jnp.float32(0), data), -Y.sum(), rtol=1e-4)


def outliers_with_heavy_tails():
    sampled(lambda p, y: -jnp.log1p((y - p) ** 2), lambda p: -jnp.log1p(p**2), 30.0, Y, 1e-3)


def holes_that_are_masked_twice():
    holes = np.where(RNG.random(N) < 0.2, np.nan, Y)

    def log_likelihood(p, y):
        return jnp.where(jnp.isnan(y), 0.0, fit(p, jnp.where(jnp.isnan(y), 0.0, y)))

    sampled(log_likelihood, flat, 0.0, holes, check_data=False)


def a_hierarchy_whose_scale_is_in_the_prior():
    def log_prior(p):
        return (
            -0.5 * jnp.sum((p["group"] * jnp.exp(-p["log_tau"])) ** 2)
            - 6 * p["log_tau"]
            - p["log_tau"] ** 2
        )

    group = RNG.integers(0, 6, N)
    start = {"group": jnp.zeros(6), "log_tau": jnp.zeros(())}
    sampled(lambda p, r: fit(p["group"][r["g"]], r["y"]), log_prior, start, {"g": group, "y": Y})


def a_start_far_away():
    sampled(fit, lambda p: -0.5 * p**2, 1e4, Y, 1e-3, 2000)


@pytest.mark.usual_parameters("holes_that_are_masked_twice", "visibilities_that_are_complex")
@pytest.mark.parametrize(
    "job",
    [ids_of_64_bits_that_are_small, visibilities_that_are_complex, outliers_with_heavy_tails,
     holes_that_are_masked_twice, a_hierarchy_whose_scale_is_in_the_prior, a_start_far_away],
    ids=lambda job: job.__name__,
)  # fmt: skip
def test_what_is_right_is_right_in_silence(job):
    job()
