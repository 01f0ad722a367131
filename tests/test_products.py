"""Products in their dtype's precision, by the programs that JAX makes for GPU and TPU."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.draws import predict
from ewsg_jax.vectors import potential
from tests import contract

pytestmark = pytest.mark.full

ACCELERATORS = ("cuda", "tpu")
N, D, K = 7, 3, 4
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
MODELS = {
    "gaussian_location": (ewsg.models.gaussian_location(), X, (D,)),
    "normal": (ewsg.models.normal(), X[:, 0], (2,)),
    "linear_regression": (ewsg.models.linear_regression(), {"x": X, "y": X[:, 0]}, (D,)),
    "logistic_regression": (
        ewsg.models.logistic_regression(),
        {"x": X, "y": np.arange(N) % 2},
        (D,),
    ),
    "softmax_regression": (
        ewsg.models.softmax_regression(),
        {"x": X, "y": np.arange(N) % K},
        (D, K),
    ),
}


def precisions(function, *arguments):
    """The precision of every product in the program made for each accelerator, none of it run."""
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=ACCELERATORS).as_text()
    products = [
        line
        for line in text.splitlines()
        if re.search(r"stablehlo\.(dot|dot_general|convolution)\b", line)
    ]
    return [re.search(r"precision(?:_config)? = \[([^\]]*)\]", line) for line in products], products


def assert_exact(function, *arguments):
    found, lines = precisions(function, *arguments)
    for precision, line in zip(found, lines, strict=True):
        assert precision is not None, line
        assert precision[1].split(", ") == ["HIGHEST", "HIGHEST"], line
    return len(found)


def test_a_product_by_default_is_found():
    """Of the test itself."""
    with pytest.raises(AssertionError, match="dot_general"):
        assert_exact(lambda x: x @ x, jnp.ones((2, 2)))
    assert assert_exact(
        functools.partial(jnp.matmul, precision="highest"), jnp.ones((2, 2)), jnp.ones(2)
    ) == len(ACCELERATORS)


def chosen():
    """Each method with the options that have products of their own."""
    for name, method in ewsg.METHODS.items():
        yield name, method.example
        if name in ("nc_sghmc", "ewsg_vr"):
            yield from (
                (name, method.example | {"structure": kind}) for kind in ("dense", "low_rank")
            )
        if name == "sgrld":
            metric = lambda position, data: jnp.diag(1 + position**2)
            yield name, method.example | {"inverse_metric": metric}


@pytest.mark.parametrize(("name", "options"), list(chosen()))
def test_a_step_of_every_method(name, options):
    """The first state and a step of logistic regression, for both accelerators in one program."""
    kernel, data = contract.build(name, options), contract.data(jnp.float32)

    def run(key, position, data):
        return kernel.step(key, kernel.init(key, position, data), data)

    count = assert_exact(run, jax.random.key(0), jnp.asarray(contract.POSITION, jnp.float32), data)
    assert count > 0


@pytest.mark.parametrize("name", MODELS)
def test_every_ready_model(name):
    """Densities, gradients and bounds, and the search for a mode."""
    model, data, shape = MODELS[name]
    position = jnp.ones(shape)

    def run(position, data):
        rows = jnp.arange(2)
        made = [
            model.potential(position, data),
            jax.grad(model.potential)(position, data),
            jax.hessian(model.potential)(position, data),
            model.gradient(position, data),
            model.batch_gradient(position, data, rows),
            model.flat_row_gradients(position, data),
        ]
        if model.bound is not None:
            summary = model.bound.summarize(position, data, 2)
            made += [
                model.bound.total(position, position, summary),
                model.bound.gaps(position, position, data),
            ]
        # As for a model that has no float64.
        of = potential.PotentialSpec(model, potential.Layout.of(position), 4, wide=False)
        flat = position.ravel()
        product = potential.hessian_product(of, flat, flat, data)
        return made, potential.derivatives(of, flat, data), product

    assert_exact(run, position, data)


OWN = {
    "likelihood": ewsg.Posterior(
        lambda w, row: -((row["y"] - row["x"] @ w) ** 2), lambda w: -jnp.sum(w**2)
    ),
    "prior": ewsg.Posterior(lambda w, row: -jnp.sum(w**2), lambda w: -(w @ X.T @ X @ w)),
    "predictor": ewsg.Posterior.linear(
        lambda s, row: -((row["y"] - s) ** 2),
        lambda w: -jnp.sum(w**2),
        inputs=lambda row: jnp.eye(D) @ row["x"],
    ),
}
OWN["transformed"] = OWN["likelihood"].transformed(ewsg.bijectors.positive())


@pytest.mark.parametrize("name", OWN)
def test_functions_of_a_user(name):
    """In the precision of their dtype; as they or the settings of JAX say, where these do."""
    data = {"x": jnp.asarray(X), "y": jnp.ones(N)}
    model, position = OWN[name], jnp.ones(D)

    def run(position, data):
        densities = model.potential(position, data), model.varying.potential(position, data)
        gradients = model.gradient(position, data), model.flat_row_gradients(position, data)
        return densities, gradients, jax.hessian(model.potential)(position, data)

    assert assert_exact(run, position, data) >= 4 * len(ACCELERATORS)
    with jax.default_matmul_precision("default"):
        found, _ = precisions(run, position, data)
        assert any(precision and "DEFAULT" in precision[1] for precision in found)


def test_a_product_that_says_its_precision_keeps_it():
    model = ewsg.Posterior(
        lambda w, row: -(jnp.dot(row, w, precision="default") ** 2), lambda w: 0.0
    )
    found, _ = precisions(model.gradient, jnp.ones(D), jnp.asarray(X))
    assert found
    assert not any(precision and "HIGH" in precision[1] for precision in found)


def test_a_function_of_predict():
    program = predict.prepare(np.ones((1, 2, D)), lambda w, x: x @ w, X, "mean", None)
    assert assert_exact(
        functools.partial(predict.outputs_at, program.function, "mean"),
        jnp.ones((2, D)),
        jnp.asarray(X),
        jnp.int32(2),
    ) == len(ACCELERATORS)


def test_prediction():
    rows = {"x": jnp.asarray(X), "y": jnp.ones(N)}
    assert assert_exact(
        ewsg.diagnostics._predictive.log_likelihoods, jnp.ones((2, D)), rows
    ) == len(ACCELERATORS)
