"""What people do with densities: choose scales and models, leave rows out, calibrate.

The right values come from closed forms and quadrature.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ewsg_jax as ewsg

pytestmark = pytest.mark.full

KEY, DIAGNOSTICS = jax.random.key(0), ewsg.diagnostics
RNG = np.random.default_rng(0)
X = RNG.normal(size=80).astype(np.float32)
LABELS = (RNG.random(80) < 1 / (1 + np.exp(-1.5 * X))).astype(np.int32)
ROWS = {"x": X[:, None], "y": LABELS}
GRID = np.linspace(-12, 12, 4_001)
LOGITS = np.outer(GRID, X.astype(float))
OF_ROWS = LABELS * LOGITS - np.logaddexp(0, LOGITS)
"""Log likelihoods of the logistic model on a grid of weights, shape (grid, row)."""


def walked(model, start, data, step_size, num_steps=4_000, **options):
    kernel = ewsg.random_walk_metropolis(model, step_size)
    return ewsg.sample(KEY, kernel, start, data, num_steps, num_chains=4, burn_in=200, **options)


def weights_on_the_grid(log_density):
    weights = np.exp(log_density - log_density.max())
    return weights / weights.sum()


@pytest.fixture(scope="module")
def logistic():
    model = ewsg.models.logistic_regression(prior_scale=2.0)
    return (
        model,
        walked(model, jnp.zeros(1), ROWS, 0.6),
        OF_ROWS.sum(1) + stats.norm(0, 2).logpdf(GRID),
    )


def test_evidence_by_importance_sampling():
    targets = (1.2 * X + 0.4 * np.random.default_rng(1).normal(size=80)).astype(np.float32)
    model = ewsg.models.linear_regression(noise_scale=0.4, prior_scale=2.0)
    data = {"x": X[:, None], "y": targets}
    mode = ewsg.find_mode(KEY, model, jnp.zeros(1), data)
    normal = stats.norm(
        float(mode.position[0]), float(np.asarray(mode.covariance).squeeze()) ** 0.5
    )
    drawn = normal.rvs(size=100, random_state=0)
    potentials = jax.jit(jax.vmap(model.potential, (0, None)))(
        jnp.asarray(drawn, jnp.float32)[:, None], data
    )
    log_weights = -np.asarray(potentials, float) - normal.logpdf(drawn)
    wide = X.astype(float)
    evidence = stats.multivariate_normal(
        np.zeros(80), 0.16 * np.eye(80) + 4 * np.outer(wide, wide)
    ).logpdf(targets)
    assert np.log(np.mean(np.exp(log_weights - evidence))) == pytest.approx(0, abs=0.01)


def test_leave_one_out_of_a_logistic_regression(logistic):
    arviz = pytest.importorskip("arviz")
    model, run, log_density = logistic
    loo = arviz.loo(run.to_arviz(posterior=model, data=ROWS, chunk_size=7), pointwise=True)
    each = np.asarray(loo.elpd_i if hasattr(loo, "elpd_i") else loo.loo_i)
    right = [
        np.log(weights_on_the_grid(log_density - of_row) @ np.exp(of_row)) for of_row in OF_ROWS.T
    ]
    np.testing.assert_allclose(each, right, atol=0.05)


def test_a_density_of_one_s_own_with_an_unknown_scale():
    def log_likelihood(p, y):
        return (
            jax.scipy.stats.t.logpdf((y - p["mean"]) / jnp.exp(p["log_scale"]), 4.0)
            - p["log_scale"]
        )

    posterior = ewsg.Posterior(
        log_likelihood, lambda p: -0.5 * (p["mean"] ** 2 + p["log_scale"] ** 2), normalised=True
    )
    y = stats.t(4).rvs(size=50, random_state=1).astype(np.float32)
    run = walked(posterior, {"mean": jnp.zeros(()), "log_scale": jnp.zeros(())}, y, 0.25)
    test = np.linspace(-3, 3, 9).astype(np.float32)
    mean, log_scale = np.meshgrid(np.linspace(-1.5, 1.5, 151), np.linspace(-1.5, 1.5, 151))
    scaled = (y[:, None, None] - mean) / np.exp(log_scale)
    log_density = stats.t(4).logpdf(scaled).sum(0) - 50 * log_scale - 0.5 * (mean**2 + log_scale**2)
    weights = weights_on_the_grid(log_density)
    at = (test[:, None, None] - mean) / np.exp(log_scale)
    right = np.log((weights * stats.t(4).pdf(at) / np.exp(log_scale)).sum((1, 2)))
    np.testing.assert_allclose(
        DIAGNOSTICS.log_predictive_density(run, posterior, test), right, atol=0.05
    )


def test_a_rate_above_zero_in_both_coordinates():
    """Draws of u go with the transformed posterior, draws of θ with the one that was written."""
    written = ewsg.Posterior(lambda rate, y: jnp.log(rate) - rate * y, lambda rate: -rate)
    bijector = ewsg.bijectors.positive()
    moved, y = written.transformed(bijector), RNG.exponential(0.5, size=40).astype(np.float32)
    test = np.array([0.1, 0.5, 2.0], np.float32)
    shape, rate = 41, 1 + y.sum(dtype=float)
    right = np.log(shape / rate) - (shape + 1) * np.log1p(test / rate)
    of_u = walked(moved, jnp.zeros(()), y, 0.3)
    of_theta = dataclasses.replace(of_u, draws=np.asarray(bijector.forward(of_u.draws)))
    for run, posterior in ((of_u, moved), (of_theta, written)):
        np.testing.assert_allclose(
            DIAGNOSTICS.log_predictive_density(run, posterior, test), right, atol=0.03
        )


@pytest.mark.filterwarnings("ignore:.*diverged")
def test_a_chain_that_diverged_has_no_weight():
    y, model = RNG.normal(size=(50, 1)).astype(np.float32), ewsg.models.gaussian_location()
    run = walked(model, jnp.zeros(1), y, 0.3, 2_000)
    draws = run.draws.copy()
    draws[3] = 1e3  # where it was last
    run = dataclasses.replace(run, draws=draws, diverged_at=np.array([-1, -1, -1, 5]))
    test = np.array([[0.0], [1.0]], np.float32)
    right = stats.norm(y.mean(), np.sqrt(1 + 1 / 50)).logpdf(test[:, 0])
    np.testing.assert_allclose(
        DIAGNOSTICS.log_predictive_density(run, model, test), right, atol=0.03
    )


def test_probabilities_are_calibrated(logistic):
    _, run, log_density = logistic
    probabilities = run.predict(lambda w, x: jax.nn.sigmoid(x @ w), ROWS["x"])
    right = (weights_on_the_grid(log_density)[:, None] / (1 + np.exp(-LOGITS))).sum(0)
    np.testing.assert_allclose(probabilities, right, atol=0.02)
    ours, exact = (DIAGNOSTICS.calibration(p, LABELS, num_bins=2) for p in (probabilities, right))
    np.testing.assert_allclose(ours.confidence, exact.confidence, atol=0.03)
    density = np.log(np.where(LABELS == 1, right, 1 - right)).mean()
    assert DIAGNOSTICS.predictive(run, ROWS).log_likelihood == pytest.approx(density, abs=0.01)


def test_many_runs_are_handed_over_one_by_one():
    pytest.importorskip("arviz")
    model, y = ewsg.models.gaussian_location(), RNG.normal(size=(30, 1)).astype(np.float32)
    kernels = ewsg.stack([ewsg.sgld(model, h, batch_size=5) for h in (1e-3, 2e-3)])
    runs = ewsg.sample(KEY, kernels, jnp.zeros(1), y, 20, num_chains=2)
    with pytest.raises(TypeError, match=r"takes no data and no posterior: .* runs\[i\]\.to_arviz"):
        runs.to_arviz(posterior=model, data=y)
    runs.to_arviz(dims=None, coords=None)  # as arviz.from_dict takes them
    named = runs[1].to_arviz(posterior=model, data=y, dims=None, coords=None)
    group = named["log_likelihood"]["log_likelihood"]
    expected = stats.norm(runs[1].position, 1).logpdf(y[:, 0])
    np.testing.assert_allclose(group.values, expected, rtol=1e-5)


def test_draws_of_something_else_have_no_likelihood():
    model, y = ewsg.models.gaussian_location(), RNG.normal(size=(30, 1)).astype(np.float32)
    run = walked(model, jnp.zeros(1), y, 0.3, 210, keep=jnp.square)
    with pytest.raises(AttributeError, match="hold no positions"):
        run.to_arviz(posterior=model, data=y)


def test_a_tiny_noise_scale_has_a_large_density():
    model, data = ewsg.models.linear_regression(noise_scale=1e-3), {"x": X[:, None], "y": X.copy()}
    run = walked(model, jnp.ones(1), data, 1e-5, 400)
    wide = X.astype(float)
    right = stats.norm(0, 1e-3 * np.sqrt(1 + wide**2 / (wide @ wide))).logpdf(0)
    found = DIAGNOSTICS.log_predictive_density(run, model, data)
    np.testing.assert_allclose(found, right, atol=0.03)
