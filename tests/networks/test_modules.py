"""Modules of Flax and Equinox as functions of their parameters, and modules in training mode."""

import equinox
import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import ewsg_jax as ewsg
from ewsg_jax.networks._modules import carries_statistics

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
DATA = {"x": X, "y": np.arange(6, dtype=np.float32)}
WAY_OUT = "must be given in evaluation mode"


class Linen(nn.Module):
    training: bool = False

    @nn.compact
    def __call__(self, x):
        x = nn.BatchNorm(use_running_average=not self.training)(nn.Dense(4)(x))
        return nn.Dense(2)(nn.Dropout(0.5, deterministic=not self.training)(jnp.tanh(x)))


class Nnx(nnx.Module):
    def __init__(self, rngs, norm=True):
        self.first = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs) if norm else None
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        x = self.first(x)
        x = x if self.norm is None else self.norm(x)
        return self.last(self.dropout(jnp.tanh(x)))


class Equinox(equinox.Module):
    first: equinox.nn.Linear
    norm: equinox.nn.BatchNorm
    dropout: equinox.nn.Dropout
    last: equinox.nn.Linear

    def __init__(self, key):
        self.first = equinox.nn.Linear(3, 4, key=key)
        self.norm = equinox.nn.BatchNorm(4, axis_name="batch", mode="batch")
        self.dropout = equinox.nn.Dropout(0.5)
        self.last = equinox.nn.Linear(4, 2, key=key)

    def __call__(self, x, state):
        x, state = self.norm(self.first(x), state)
        return self.last(self.dropout(jnp.tanh(x))), state


def model_of(apply, params, **options):
    return ewsg.networks.posterior(apply, params, DATA, likelihood="normal", **options)


def test_linen_variables_carry_statistics():
    variables = Linen().init(jax.random.key(0), X)
    statistics = {"BatchNorm_0": {"mean": jnp.full(4, 0.5), "var": jnp.full(4, 2.0)}}
    variables = flax.core.freeze({**variables, "batch_stats": statistics})
    model = model_of(Linen().apply, variables, prior={"Dense_1": 0.5, "*": 1.0}, check_data=False)
    np.testing.assert_allclose(
        model.output(model.position, X), Linen().apply(variables, X), rtol=1e-5
    )
    assert model.roles["batch_stats/BatchNorm_0/mean"] == "fixed"
    assert model.position["batch_stats"]["BatchNorm_0"]["mean"] is None


def test_nnx_is_the_module():
    module = Nnx(nnx.Rngs(0))
    module(X)  # running statistics of its own
    module.eval()
    apply, params = ewsg.networks.from_nnx(module)
    model = model_of(apply, params, sampled=["first", "last.kernel"])
    np.testing.assert_allclose(model.output(model.position, X), module(X), rtol=1e-5)
    assert model.roles["norm/scale"] == "trained"
    assert carries_statistics(apply)  # `fit` does not standardise the rows then.
    assert not carries_statistics(ewsg.networks.from_nnx(Nnx(nnx.Rngs(0), norm=False))[0])
    moved = model.params(jax.tree.map(lambda x: x + 1, model.position))
    for variable in (module.last.kernel, module.first.kernel, module.first.bias):
        variable[...] = variable[...] + 1
    np.testing.assert_allclose(jax.vmap(apply, (None, 0))(moved, X), module(X), rtol=1e-5)


@pytest.mark.full
def test_equinox_is_the_module():
    module, state = equinox.nn.make_with_state(Equinox)(jax.random.key(0))
    module = equinox.nn.inference_mode(module)
    apply, params = ewsg.networks.from_equinox(module, state=state)
    assert carries_statistics(apply)
    model = model_of(apply, params)
    expected = jax.vmap(lambda x: module(x, state)[0])(X)
    np.testing.assert_allclose(model.output(model.position, X), expected, rtol=1e-5)
    assert set(model.roles) == {
        f"{a}/{b}" for a in ("first", "norm", "last") for b in ("weight", "bias")
    }


@pytest.mark.parametrize("package", ["linen", "nnx", "equinox"])
def test_training_mode_is_refused_with_the_way_out(package):
    if package == "linen":
        variables = Linen().init(jax.random.key(0), X)
        apply, params = Linen(training=True).apply, variables
    elif package == "nnx":
        apply, params = ewsg.networks.from_nnx(Nnx(nnx.Rngs(0)))
    else:
        module, state = equinox.nn.make_with_state(Equinox)(jax.random.key(0))
        apply, params = ewsg.networks.from_equinox(module, state=state)
    with pytest.raises(ValueError, match=WAY_OUT):
        model_of(apply, params)


@pytest.mark.parametrize("package", ["linen", "nnx", "equinox"])
def test_a_module_in_the_place_of_a_function_is_refused_with_the_way_out(package):
    if package == "linen":
        variables = Linen().init(jax.random.key(0), X)
        module, params, way = Linen(), variables, "module.apply and its variables"
    elif package == "nnx":
        module, params, way = Nnx(nnx.Rngs(0)), {"w": jnp.ones(3)}, "networks.from_nnx"
    else:
        module = equinox.nn.Linear(3, 2, key=jax.random.key(0))
        params, way = equinox.filter(module, equinox.is_array), "networks.from_equinox"
    with pytest.raises(ValueError, match=f"apply must return.*{way}"):
        model_of(module, params)


def test_dropout_by_a_held_key_is_refused():
    rngs = {"dropout": jax.random.key(3)}
    network = nn.Dropout(0.5, deterministic=False)

    def apply(params, x):
        return network.apply({}, x @ params["w"], rngs=rngs)

    with pytest.raises(ValueError, match=WAY_OUT):
        model_of(apply, {"w": jnp.ones((3, 2))})


@pytest.mark.full
@pytest.mark.parametrize("package", ["nnx", "equinox"])
def test_dropout_with_a_key_is_a_random_likelihood(package):
    if package == "nnx":
        module = nnx.Sequential(
            nnx.Linear(3, 2, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(1))
        )
        apply, params = ewsg.networks.from_nnx(module, with_key=True)
    else:
        parts = [equinox.nn.Linear(3, 2, key=jax.random.key(0)), equinox.nn.Dropout(0.5)]
        module = equinox.nn.Sequential(parts)
        apply, params = ewsg.networks.from_equinox(module, with_key=True)
    model = model_of(apply, params)
    outputs = np.stack(
        [apply(params, X[0], key) for key in jax.random.split(jax.random.key(0), 64)]
    )
    assert 0.2 < np.mean(outputs == 0) < 0.8
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-4), model.estimator(batch_size=2))
    samples = ewsg.sample(jax.random.key(1), kernel, model.position, DATA, 5, progress=False)
    assert samples.data_passes == 5 * 2 / 6


def test_statistics_that_are_written_with_a_key_are_refused():
    apply, params = ewsg.networks.from_nnx(Nnx(nnx.Rngs(0)), with_key=True)
    with pytest.raises(
        ValueError, match=r"norm/mean was written while it ran, so call module.eval"
    ):
        model_of(apply, params)
