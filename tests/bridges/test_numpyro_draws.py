"""Draws of a NumPyro model in its own names: against NumPyro's functions, and under its `MCMC`."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from numpyro.infer.util import constrain_fn

import ewsg_jax as ewsg
from tests.bridges.numpyro_models import GROUP, N, X, Y, hierarchy, normal

KEY = jax.random.key(0)


def model(x, y=None):
    w = numpyro.sample("w", normal(3))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    numpyro.deterministic("variance", sigma**2)
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, sigma), obs=y)


@pytest.fixture(scope="module")
def bridged():
    return ewsg.from_numpyro(model, X, Y)


@pytest.fixture(scope="module")
def samples(bridged):
    kernel = ewsg.sghmc(bridged.posterior, 2e-3, batch_size=6, friction=3.0)
    return ewsg.sample(KEY, kernel, bridged.position, bridged.data, 60, num_chains=3)


def test_draws_have_the_values_of_numpyro(bridged, samples):
    values = bridged.constrain(samples.draws)
    wanted = constrain_fn(
        model, (X, Y), {}, samples.draws, return_deterministic=True, batch_ndims=2
    )
    assert values.keys() == wanted.keys() == {"w", "sigma", "variance"}
    for name, x in wanted.items():
        np.testing.assert_allclose(values[name], x, rtol=1e-6)
    of_run = bridged.constrain(samples)
    for name, value in values.items():
        np.testing.assert_array_equal(of_run[name], value)
    one = bridged.constrain(bridged.position)
    np.testing.assert_allclose(one["variance"], one["sigma"] ** 2)


@pytest.mark.full
def test_arviz_has_names_plates_and_what_was_observed(samples):
    hierarchical = ewsg.from_numpyro(hierarchy, X, GROUP, Y)
    kernel = ewsg.sgld(hierarchical.posterior, 1e-3, batch_size=6)
    run = ewsg.sample(KEY, kernel, hierarchical.position, hierarchical.data, 5, num_chains=2)
    found = hierarchical.to_arviz(run, log_likelihood=True)
    assert found["posterior"]["effect"].dims == ("chain", "draw", "groups")
    assert set(found["posterior"].data_vars) == {"effect", "mu", "tau"}
    np.testing.assert_allclose(found["observed_data"]["y"], Y, rtol=1e-6)
    assert found["observed_data"]["y"].dims == ("N",)
    at = jax.tree.map(lambda x: x[1, 3], run.draws)
    rows = hierarchical.posterior.log_likelihoods(at, hierarchical.data)
    np.testing.assert_allclose(found["log_likelihood"]["y"][1, 3], rows, rtol=1e-4)


def test_predictions_are_those_of_the_model(bridged, samples):
    """At its own rows and at others: the mean of many is w·x."""
    again = bridged.predict(KEY, samples)
    assert {name: x.shape for name, x in again.items()} == {
        "y": (3, 60, N),
        "variance": (3, 60),
    }
    assert np.std(again["y"] - Y) > 0.1
    few = bridged.predict(KEY, samples, 1e3 * np.eye(3))
    assert few["y"].shape == (3, 60, 3)
    error = few["y"] - 1e3 * samples.draws["w"]
    sigma = np.asarray(bridged.constrain(samples.draws)["sigma"])[..., None]
    assert np.all(np.abs(error) < 6 * sigma)
    kernel = ewsg.sgld(bridged.posterior, 1e-3, batch_size=6)
    named = ewsg.sample(KEY, kernel, bridged.position, bridged.data, 5, keep=bridged.constrain)
    with pytest.raises(ValueError, match="must hold positions of the model"):
        bridged.predict(KEY, named)


@pytest.mark.usual_parameters("vectorized")
@pytest.mark.parametrize("chains", ["vectorized", "sequential"])
def test_numpyros_mcmc_runs_a_kernel(bridged, chains):
    """Its steps are the kernel's, from the keys that it is given."""
    kernel = ewsg.sghmc(bridged.posterior, 2e-3, batch_size=6, friction=3.0)
    theirs = ewsg.numpyro_kernel(kernel)
    mcmc = MCMC(
        theirs,
        num_warmup=2,
        num_samples=3,
        num_chains=2,
        chain_method=chains,
        progress_bar=False,
    )
    start = jax.tree.map(lambda x: jnp.stack([x, x + 0.1]), bridged.position)
    mcmc.run(KEY, X, Y, init_params=start)
    found = mcmc.get_samples(group_by_chain=True)
    assert found["variance"].shape == (2, 3)
    for chain, key in enumerate(jax.random.split(KEY, 2)):
        at = jax.tree.map(lambda x, c=chain: x[c], start)
        first, key = jax.random.split(key)
        state, positions = kernel.init(first, at, bridged.data), []
        for _ in range(5):
            now, key = jax.random.split(key)
            state, _ = kernel.step(now, state, bridged.data)
            positions.append(state.position)
        wanted = [bridged.constrain(position)["sigma"] for position in positions[2:]]
        np.testing.assert_allclose(found["sigma"][chain], wanted, rtol=1e-4)


@pytest.mark.full
def test_numpyros_mcmc_starts_by_itself_and_takes_other_rows(bridged):
    kernel = ewsg.sghmc(bridged.posterior, 2e-3, batch_size=6, friction=3.0)
    options = {"num_warmup": 0, "num_samples": 2, "progress_bar": False}
    mcmc = MCMC(ewsg.numpyro_kernel(kernel), num_chains=2, chain_method="vectorized", **options)
    mcmc.run(jax.random.PRNGKey(1), X[:12], Y[:12])
    assert np.ptp(np.asarray(mcmc.get_samples(group_by_chain=True)["sigma"])[:, 0]) > 0
    assert np.isfinite(mcmc.get_samples()["w"]).all()
    one_more = (X, Y, jnp.ones(2))
    with pytest.raises(ValueError, match="got another argument_2"):
        ewsg.numpyro_kernel(kernel).init(KEY, 0, None, one_more, {})


def test_a_kernel_of_another_posterior_is_refused():
    with pytest.raises(ValueError, match="from_numpyro"):
        ewsg.numpyro_kernel(ewsg.sgld(ewsg.models.gaussian_location(), 0.1, batch_size=2))
