"""A position is any tree of floats: dicts, tuples, equinox and flax weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import ewsg_jax as ewsg
from ewsg_jax.base import pytrees
from ewsg_jax.vectors.layout import names_of_leaves

N = 6
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 2)), RNG.normal(size=N)


def log_prior(position):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(position))


def nested_tuples():
    def log_likelihood(p, row):
        ((w, _), (v, b)) = p
        return -0.5 * (row["y"] - jnp.tanh(row["x"] @ w) @ v - b) ** 2

    return log_likelihood, ((jnp.ones((2, 3)), None), (jnp.linspace(-1.0, 1.0, 3), jnp.zeros(())))


def equinox_network():
    """Weights with None where the network holds functions."""
    network = eqx.nn.MLP(
        2, "scalar", width_size=4, depth=1, activation=jnp.tanh, key=jax.random.key(0)
    )
    weights, rest = eqx.partition(network, eqx.is_inexact_array)

    def log_likelihood(weights, row):
        return -0.5 * (row["y"] - eqx.combine(weights, rest)(row["x"])) ** 2

    return log_likelihood, weights


class Network(nnx.Module):
    def __init__(self, rngs, dtype):
        self.hidden = nnx.Linear(2, 4, rngs=rngs, param_dtype=dtype, dtype=dtype)
        self.out = nnx.Linear(4, 1, rngs=rngs, param_dtype=dtype, dtype=dtype)

    def __call__(self, x):
        return self.out(jnp.tanh(self.hidden(x)))[0]


def flax_network():
    graph, weights = nnx.split(Network(nnx.Rngs(0), jnp.result_type(float)), nnx.Param)

    def log_likelihood(weights, row):
        return -0.5 * (row["y"] - nnx.merge(graph, weights)(row["x"])) ** 2

    return log_likelihood, weights


TREES = [nested_tuples, equinox_network, flax_network]


def kept(tree, like, dtype):
    assert jax.tree.structure(tree) == jax.tree.structure(like)
    leaves, expected = jax.tree.leaves(tree), jax.tree.leaves(like)
    assert [x.shape for x in leaves] == [x.shape for x in expected]
    assert {x.dtype for x in leaves} == {jnp.dtype(dtype)}
    return True


@pytest.mark.usual_parameters("float64-nested_tuples", "float32-equinox_network")
@pytest.mark.parametrize("make", TREES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_keeps_the_tree(make, dtype, request):
    if dtype == "float64":
        request.getfixturevalue("x64")
    log_likelihood, position = make()
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    kernel = ewsg.ewsg(posterior, 1e-2, friction=2.0, batch_size=2, chain_length=1)
    data = {"x": jnp.asarray(X, dtype), "y": jnp.asarray(Y, dtype)}
    state = jax.jit(kernel.init)(jax.random.key(0), position, data)
    after, info = jax.jit(kernel.step)(jax.random.key(1), state, data)
    gradient = jax.eval_shape(lambda p, d: posterior.gradient(p, d, 4), position, data)
    for tree in (position, state.position, after.position, after.dynamics.momentum, gradient):
        assert kept(tree, position, dtype)
    assert bool(info.is_finite)
    assert int(after.step) == 1
    for before, now in zip(jax.tree.leaves(position), jax.tree.leaves(after.position), strict=True):
        assert np.all(np.asarray(before) != np.asarray(now)), "a leaf did not move"


@pytest.mark.usual_parameters("flax_network")
@pytest.mark.parametrize("make", TREES)
def test_the_gradient_of_a_tree_is_its_derivative(x64, make):
    """Along a direction, against central differences of the potential, in float64."""
    log_likelihood, position = make()
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    data = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}
    leaves, structure = jax.tree.flatten(position)
    direction = jax.tree.unflatten(
        structure, [jnp.cos(jnp.arange(x.size) + 1.0).reshape(x.shape) for x in leaves]
    )

    @jax.jit
    def slopes():
        potential = lambda t: posterior.potential(
            jax.tree.map(lambda p, v: p + t * v, position, direction), data
        )
        gradient = posterior.gradient(position, data, 4)
        inner = sum(
            jnp.vdot(a, b)
            for a, b in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True)
        )
        return inner, (potential(1e-5) - potential(-1e-5)) / 2e-5

    np.testing.assert_allclose(*slopes(), rtol=1e-8)


def test_numpy_data_are_taken_as_they_are():
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-3, batch_size=2)
    data = np.arange(5.0, dtype=np.float32)[:, None]
    state = kernel.init(jax.random.key(0), np.zeros(1, np.float32), data)
    stepped, _ = kernel.step(jax.random.key(1), state, data)
    bound, _ = jax.jit(kernel.bind(data).step)(jax.random.key(1), state)
    np.testing.assert_allclose(stepped.position, bound.position, rtol=1e-6)


class InTraining(nnx.Module):
    def __init__(self, rngs):
        self.first, self.norm = nnx.Linear(2, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        return jnp.sum(self.dropout(self.norm(self.first(x))), -1)


@pytest.mark.parametrize(
    ("given", "training", "words"),
    [
        ("module", False, "keep the parameters only, nnx.split"),
        ("weights", True, "a network in training mode writes its statistics; call its eval"),
        ("stack", False, "if the leading axis, 3 of each array, counts chains, stacked=True"),
    ],
)
def test_what_goes_wrong_with_networks_is_said_with_a_way_out(given, training, words):
    network = InTraining(nnx.Rngs(0))
    network.train() if training else network.eval()
    graph, weights, rest = nnx.split(network, nnx.Param, ...)
    position = {
        "module": network,
        "weights": weights,
        "stack": jax.tree.map(lambda x: jnp.stack([x, x, x]), weights),
    }[given]

    def log_likelihood(weights, row):
        return -0.5 * (row["y"] - nnx.merge(graph, weights, rest)(row["x"][None])[0]) ** 2

    posterior = ewsg.Posterior(log_likelihood, lambda weights: 0.0)
    kernel = ewsg.sgld(posterior, 1e-3, batch_size=2)
    rows = {"x": np.ones((4, 2), np.float32), "y": np.ones(4, np.float32)}
    with pytest.raises((TypeError, ValueError), match=words):
        kernel.init(jax.random.key(0), position, rows)


NAMED_ALIKE = {
    "dots": ({"a.b": 1.0, "a": {"b": 2.0, "c": 3.0}}, ["['a']['b']", "a.c", "['a.b']"]),
    "a number of another": ({"w[0]": 1.0, "w": jnp.ones(2)}, ["w", "['w[0]']"]),
    "no name": ({"": 1.0, "position": 2.0}, ["['']", "['position']"]),
    "quotes": (
        {"a']['b": 1.0, "a": {"b": 2.0}, "it's": 3.0},
        ["a.b", "a']['b", "it's"],
    ),
    "one array": (1.0, ["position"]),
}


@pytest.mark.parametrize("alike", NAMED_ALIKE)
def test_each_leaf_has_a_name_of_its_own(alike):
    tree, names = NAMED_ALIKE[alike]
    assert names_of_leaves(tree, "position") == names


def run_of(position):
    posterior = ewsg.Posterior(lambda p, y: log_prior(p) + 0 * y, lambda p: 0.0)
    return posterior, ewsg.sample(
        jax.random.key(0), ewsg.ld(posterior, 1e-3), position, np.zeros(4), 20, num_chains=2
    )


def test_leaves_named_alike_are_all_in_tables_and_in_arviz():
    _, samples = run_of({"a.b": jnp.array(1.0), "a": {"b": jnp.array(2.0)}, "mlp/w": jnp.ones(2)})
    names = ("['a']['b']", "['a.b']", "mlp/w[0]", "mlp/w[1]")
    assert ewsg.diagnostics.summary(samples).names == names
    posterior = samples.to_arviz(dims={"mlp/w": ["unit"]})["posterior"]
    # Slashes separate groups of ArviZ 1.x.
    assert set(posterior.data_vars) == {"['a']['b']", "['a.b']", "mlp.w"}
    np.testing.assert_array_equal(posterior["['a']['b']"], samples.position["a"]["b"])
    np.testing.assert_array_equal(posterior["['a.b']"], samples.position["a.b"])
    assert posterior["mlp.w"].dims[-1] == "unit"


def test_names_that_arviz_cannot_hold_are_refused():
    _, samples = run_of({"mlp/w": jnp.array(1.0), "mlp": {"w": jnp.array(2.0)}})
    with pytest.raises(ValueError, match=r"more than slashes and dots.*'mlp/w'"):
        samples.to_arviz()


def test_an_array_of_no_numbers_is_checked_with_the_others():
    posterior, samples = run_of({"a": jnp.array(1.0), "b": jnp.zeros(0)})
    report = ewsg.check(jax.random.key(1), samples, posterior, np.zeros(4))
    assert report.names == ("a",)


def test_numbers_of_a_pytree_are_counted():
    tree = {"w": np.zeros((2, 3)), "b": jax.ShapeDtypeStruct((2, 4), jnp.float32), "none": None}
    assert pytrees.size(tree) == 14
    assert pytrees.size(tree, leading_axes=1) == 7
    assert pytrees.size([1.5, jnp.zeros(())]) == 2
    assert pytrees.size(()) == 0
