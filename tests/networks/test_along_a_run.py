"""What is averaged and observed along a run, against stored draws and NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import networks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10, 3)).astype(np.float32)
PARAMS = {"w": RNG.normal(size=(3, 2)).astype(np.float32), "b": np.zeros(2, np.float32)}
Y = {"normal": X[:, 0], "categorical": RNG.integers(0, 2, 10)}


def apply(params, x):
    return x @ params["w"] + params["b"]


def run(model, data, **options):
    kernel = ewsg.sghmc(model.posterior, 1e-2, friction=2.0, batch_size=5)
    options = {"num_chains": 3, "burn_in": 10, "progress": False} | options
    return kernel, ewsg.sample(jax.random.key(0), kernel, model.position, data, 60, **options)


@pytest.mark.usual_parameters("normal")
@pytest.mark.parametrize("name", Y)
def test_a_running_predictive_is_that_of_stored_draws(name):
    data = {"x": X, "y": Y[name]}
    model = networks.posterior(apply, PARAMS, data, likelihood=name)
    plan = networks.running_predictive(model, X[:4])
    _, samples = run(model, data, moments=plan)
    found = networks.predictive_of(samples.moments)
    draws = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples.draws)
    each = jax.vmap(model.predict, (0, None))(draws, X[:4])
    if name == "categorical":
        np.testing.assert_allclose(found.probabilities, each.probabilities.mean(0), rtol=1e-5)
        assert found.mean is None
        return
    np.testing.assert_allclose(found.mean, each.mean.mean(0), rtol=1e-4, atol=1e-5)
    variance = np.mean(each.sd**2, 0) + np.var(each.mean, 0)
    np.testing.assert_allclose(found.sd, np.sqrt(variance), rtol=1e-4)


def test_what_is_observed_is_by_hand():
    data = {"x": X, "y": Y["categorical"]}
    model = networks.posterior(apply, PARAMS, data, likelihood="categorical", prior=2.0)
    kernel, samples = run(model, data)
    observed = networks.observe(kernel, samples.state, data)
    w, b = (np.asarray(samples.state.position[name], np.float64) for name in ("w", "b"))
    logits = X @ w + b[:, None]
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    residuals = probabilities - np.eye(2)[data["y"]]
    of_w = np.einsum("ni,cnk->cik", X, residuals) + w / 4
    of_b = residuals.sum(1) + b / 4
    squares = (of_w**2).sum((1, 2)) + (of_b**2).sum(1)
    np.testing.assert_allclose(observed.gradient_norm, np.sqrt(squares), rtol=1e-4)
    product = (w * of_w).sum((1, 2)) + (b * of_b).sum(1)
    np.testing.assert_allclose(observed.configurational_temperature, product / 8, rtol=1e-4)
    log_likelihood = np.log(probabilities[:, np.arange(10), data["y"]]).sum(1)
    prior = (w**2).sum((1, 2)) / 8 + (b**2).sum(1) / 8 + 8 * np.log(2 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(observed.potential, prior - log_likelihood, rtol=1e-5)
    momenta = samples.state.dynamics.momentum
    squares = sum((np.asarray(p) ** 2).reshape(3, -1).sum(1) for p in momenta.values())
    np.testing.assert_allclose(observed.kinetic_temperature, squares / 8, rtol=1e-5)
    assert (observed.step == 60).all()


def test_what_has_no_momentum_has_no_kinetic_temperature():
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
    rows = jnp.ones((4, 1))
    samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), rows, 5, progress=False)
    assert networks.observe(kernel, samples.state, rows).kinetic_temperature is None
