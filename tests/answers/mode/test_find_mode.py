"""The mode against closed forms and Newton's method in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.potential import HostPotential
from ewsg_jax.vectors import potential

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4)) * [1.0, 3.0, 0.3, 1.0]
Y = (X @ [1.0, -0.5, 2.0, 0.0] + RNG.logistic(size=200) > 0).astype(float)
ROWS = {"x": X, "y": Y}
MODEL = ewsg.models.logistic_regression(prior_scale=2.0)


def newton():
    """The mode of the logistic regression and its curvature."""
    w = np.zeros(4)
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ w))
        hessian = (X * (p * (1 - p))[:, None]).T @ X + np.eye(4) / 4
        w = w - np.linalg.solve(hessian, X.T @ (p - Y) + w / 4)
    return w, hessian


def away(position):
    """How many standard deviations a position is from the mode."""
    mode, hessian = newton()
    difference = np.asarray(position, float) - mode
    return np.sqrt(difference @ hessian @ difference)


@pytest.mark.parametrize("chunk_size", [4096, 64])
def test_logistic_regression(x64, chunk_size):
    found = ewsg.find_mode(KEY, MODEL, jnp.zeros(4), ROWS, tolerance=1e-6, chunk_size=chunk_size)
    assert found.converged
    assert away(found.position) < 2e-6
    assert found.distance <= 1e-6
    np.testing.assert_allclose(found.potential, MODEL.potential(found.position, ROWS), rtol=1e-12)
    gradient = np.asarray(MODEL.gradient(found.position, ROWS))
    np.testing.assert_allclose(found.gradient_norm, np.linalg.norm(gradient), rtol=1e-6)


def test_distance_is_in_standard_deviations():
    """Where the search ends its distance is the true one, to the quality of its curvature."""
    for tolerance in (0.3, 0.1, 0.01):
        found = ewsg.find_mode(KEY, MODEL, jnp.zeros(4), ROWS, tolerance=tolerance)
        assert found.converged
        assert found.distance / 3 < away(found.position) < 3 * found.distance
        assert away(found.position) < 3 * tolerance


def test_linear_regression_of_a_tree(x64):
    """A dictionary position, a posterior not declared linear: the normal equations."""

    def log_likelihood(position, row):
        return -0.5 * (row["y"] - row["x"] @ position["w"] - position["b"]) ** 2

    posterior = ewsg.Posterior(
        log_likelihood, lambda p: -0.5 * (jnp.sum(p["w"] ** 2) + p["b"] ** 2)
    )
    start = {"w": jnp.zeros(4), "b": jnp.zeros(())}
    found = ewsg.find_mode(KEY, posterior, start, ROWS, tolerance=1e-7)
    design = np.column_stack([X, np.ones(200)])
    expected = np.linalg.solve(design.T @ design + np.eye(5), design.T @ Y)
    np.testing.assert_allclose([*found.position["w"], found.position["b"]], expected, rtol=1e-6)


def test_passes_are_counted():
    """Each evaluation of V with its derivatives asks for the prior twice: value and slopes."""
    calls = []

    def log_prior(w):
        jax.debug.callback(lambda: calls.append(1))
        return MODEL.log_prior(w)

    predictor = MODEL.predictor
    posterior = ewsg.Posterior.linear(
        predictor.log_likelihood, log_prior, inputs=predictor.inputs, residual=predictor.residual
    )
    found = ewsg.find_mode(KEY, posterior, jnp.full(4, 20.0), ROWS)
    jax.effects_barrier()
    assert found.data_passes == len(calls) / 2
    assert found.data_passes > found.num_steps + 1, "a line search tried more than one length"


CLASSES = np.random.default_rng(1).integers(0, 3, 200)
DERIVATIVES = {
    "logistic": (MODEL, np.full(4, 0.3), ROWS),
    "softmax": (
        ewsg.models.softmax_regression(),
        np.linspace(-1, 1, 12).reshape(4, 3),
        {"x": X, "y": CLASSES},
    ),
    "any": (
        ewsg.Posterior(
            lambda p, x: jnp.cos(x @ p["a"]) * p["b"][0],
            lambda p: -jnp.sum(p["a"] ** 4) + p["b"][1] ** 3,
        ),
        {"a": np.linspace(-1, 1, 4), "b": np.linspace(2, 1, 20)},
        X,
    ),
}


@pytest.mark.usual_parameters("logistic")
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name, x64):
    """In chunks, by predictors and in blocks, as by differentiating the potential twice."""
    posterior, position, data = DERIVATIVES[name]
    flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, position))
    point = HostPotential(posterior, unravel(flat), data, 64, lazy=False).at(np.asarray(flat))

    def whole(flat):
        return posterior.varying.potential(unravel(flat), data)

    np.testing.assert_allclose(point.value, whole(flat), rtol=1e-12)
    np.testing.assert_allclose(
        point.gradient, jax.jit(jax.grad(whole))(flat), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(
        point.hessian, jax.jit(jax.hessian(whole))(flat), rtol=1e-10, atol=1e-10
    )


@pytest.mark.full
def test_another_call_compiles_nothing():
    """Data and start are arguments of the programs."""
    ewsg.find_mode(KEY, MODEL, jnp.zeros(4), ROWS)
    compiled = potential.derivatives.quick, potential.value_and_gradient.quick
    sizes = [program._cache_size() for program in compiled]
    other = {"x": 2 * X, "y": 1 - Y}
    ewsg.find_mode(KEY, ewsg.models.logistic_regression(prior_scale=2.0), jnp.ones(4), other)
    assert sizes == [program._cache_size() for program in compiled]


def test_not_to_converge_is_said():
    with pytest.warns(
        RuntimeWarning, match=r"standard deviations from a mode, after 1 steps .*take more steps"
    ):
        found = ewsg.find_mode(KEY, MODEL, jnp.zeros(4), ROWS, tolerance=1e-3, max_steps=1)
    assert not found.converged
    assert found.num_steps == 1


def test_rounding_ends_the_search():
    """A tolerance beyond float32: the search ends by itself, as good as float32 allows."""
    with pytest.warns(RuntimeWarning, match="float64"):
        found = ewsg.find_mode(KEY, MODEL, jnp.zeros(4, jnp.float32), ROWS, tolerance=1e-12)
    assert found.num_steps < 100
    assert away(found.position) < 1e-3


@pytest.mark.full
@pytest.mark.parametrize("optimizer", [None, optax.sgd(1e-3)])
def test_warm_up_on_minibatches(optimizer):
    """It ends near the mode by itself; the whole costs its passes besides."""
    options = {"batch_size": 10, "warm_up_passes": 20.0, "optimizer": optimizer}
    with pytest.warns(RuntimeWarning, match="from a mode"):
        warm = ewsg.find_mode(
            KEY, MODEL, jnp.zeros(4), ROWS, tolerance=1e-9, max_steps=1, **options
        )
    cold = away(jnp.zeros(4))
    assert away(warm.position) < 0.5 * cold
    whole = ewsg.find_mode(KEY, MODEL, jnp.zeros(4), ROWS, **options)
    assert whole.converged
    assert away(whole.position) < 0.03
    assert whole.data_passes > 20
    other = ewsg.find_mode(jax.random.key(1), MODEL, jnp.zeros(4), ROWS, **options)
    assert np.any(np.asarray(other.position) != np.asarray(whole.position))
