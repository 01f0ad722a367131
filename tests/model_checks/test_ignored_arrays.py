"""Parameters read and not depended on are said; nothing is said of right models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.model_checks.ignored_arrays import unread, without_effect

pytestmark = pytest.mark.full

RNG = np.random.default_rng(0)
N, H = 100, 6
X = RNG.normal(size=(N, 2)).astype(np.float32)
Y = RNG.normal(size=N).astype(np.float32)
GROUP = RNG.integers(0, 4, N)
DATA = {
    "x": X,
    "y": Y,
    "group": GROUP,
    "seen": RNG.integers(0, 2, N).astype(np.float32),
    "late": Y > 2.2,
}


def weights(scale=1.0, **more):
    shapes = {"a": (2, H), "b": (H,), "c": (H,), "d": (), "scale": (H,)}
    made = {
        name: (scale * RNG.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()
    }
    return jax.tree.map(jnp.asarray, made | {"scale": np.ones(H, np.float32)} | more)


def fit(mean, y):
    return -0.5 * (y - mean) ** 2


def normalised(x, axis=0):
    return (x - x.mean(axis, keepdims=True)) / jnp.sqrt(x.var(axis, keepdims=True) + 1e-5)


def out(p, h):
    return jnp.tanh(h) @ p["c"] + p["d"]


def batch_norm(p, row):
    h = (row["x"] @ p["a"] + p["b"])[None]
    return fit(out(p, (normalised(h) * p["scale"])[0]), row["y"])


def input_norm(p, row):
    x = normalised(row["x"][None])[0]
    return fit(out(p, x @ p["a"] + p["b"]) + jnp.sum(p["scale"]), row["y"])


def softmax_over_one(p, row):
    logits = out(p, row["x"] @ p["a"] + p["b"])[None]
    return fit(jax.nn.softmax(logits)[0] * p["scale"][0], row["y"])


def skipped(p, row):
    h = row["x"] @ p["a"]
    return fit(out(p, h + normalised((h * p["scale"] + p["b"])[None])[0]), row["y"])


def change_point(p, row):
    return fit(
        jnp.where(row["x"][0] > p["d"], p["c"][0], p["b"][0]) + row["x"] @ p["a"] @ p["scale"],
        row["y"],
    )


@jax.jit
def jitted(p, row):
    return batch_norm(p, row)


def stopped(p, row):
    return fit(out(p, jax.lax.stop_gradient(row["x"] @ p["a"]) + p["b"]) + p["scale"][0], row["y"])


DEGENERATE = {
    "batch normalisation": (batch_norm, ["a", "b", "c", "scale"]),
    "of the inputs": (input_norm, ["a"]),
    "softmax over one": (softmax_over_one, ["a", "b", "c", "d"]),
    "beside a skip": (skipped, ["b", "scale"]),
    "a change point": (change_point, ["d"]),
    "inside jit": (jitted, ["a", "b", "c", "scale"]),
    "a stopped gradient": (stopped, ["a"]),
}


@pytest.mark.usual_parameters("a change point", "softmax over one")
@pytest.mark.parametrize("name", DEGENERATE)
def test_what_a_likelihood_does_not_depend_on_is_named(name):
    log_likelihood, expected = DEGENERATE[name]
    (found,) = without_effect(ewsg.Posterior(log_likelihood, lambda p: 0.0), weights(), DATA)
    said = str(found)
    assert all(f"position['{leaf}']" in said for leaf in expected[:3])
    if name == "batch normalisation":
        assert "and by data['x']," in said
    rest = {"a", "b", "c", "d", "scale"} - set(expected)
    assert not any(f"position['{leaf}']" in said for leaf in rest)


def plain(p, row):
    return fit(out(p, (row["x"] @ p["a"] + p["b"]) * p["scale"]), row["y"])


def relu(p, row):
    return fit(jax.nn.relu((row["x"] @ p["a"] + p["b"]) * p["scale"]) @ p["c"] + p["d"], row["y"])


def layer_norm(p, row):
    return fit(out(p, normalised(row["x"] @ p["a"] + p["b"]) * p["scale"]), row["y"])


def running(p, row):
    return fit(out(p, (row["x"] @ p["a"] + p["b"] - 0.3) / 1.7 * p["scale"]), row["y"])


def groups(p, row):
    return fit(p["c"][row["group"]] * p["scale"][0] + p["d"] + row["x"] @ p["a"] @ p["b"], row["y"])


def masked(p, row):
    return jnp.where(row["seen"] > 0, plain(p, row), 0.0)


def some_rows_only(p, row):
    """Of the rows that are late, one in a hundred, alone."""
    return plain(p, row) + jnp.where(row["late"], fit(p["late"], row["y"]), 0.0)


def zero_column(p, row):
    return plain(p, row) + fit(p["late"] * row["none"], row["y"])


@jax.jit
def prior_alone(p, row):
    """A scale that is in the prior alone, inside jit, which is given the whole position."""
    return plain({name: p[name] for name in ("a", "b", "c", "d", "scale")}, row)


def logistic(p, row):
    return jax.nn.log_sigmoid(
        100 * (jnp.sum(row["x"] @ p["a"] @ p["b"]) + p["d"]) * p["c"][0] * p["scale"][0]
    )


def looped(p, row):
    h = jax.lax.scan(
        lambda h, _: (jnp.tanh(h * p["scale"] + p["b"]), None), row["x"] @ p["a"], length=3
    )[0]
    return fit(out(p, h), row["y"])


MORE = {"late": jnp.float32(0.0)}
RIGHT = {
    "a network": (plain, weights()),
    "dead units": (relu, weights(b=jnp.full(H, -50.0))),
    "layer normalisation": (layer_norm, weights()),
    "running statistics": (running, weights()),
    "groups": (groups, weights()),
    "a mask of 0 and 1": (masked, weights()),
    "a few rows alone": (some_rows_only, weights(**MORE)),
    "a column of 0": (zero_column, weights(**MORE)),
    "a scale of the prior": (prior_alone, weights(tau=jnp.float32(1.0))),
    "saturated": (logistic, weights(30.0)),
    "a scan": (looped, weights()),
    "the prior alone": (lambda p, row: 0.0 * jnp.sum(p["a"]), weights()),
}


@pytest.mark.usual_parameters("a network", "saturated", "the prior alone")
@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_right_models(name):
    log_likelihood, position = RIGHT[name]
    data = DATA | {"none": np.zeros(N, np.float32)}
    assert without_effect(ewsg.Posterior(log_likelihood, lambda p: 0.0), position, data) == []


def test_an_array_of_no_numbers_has_no_derivative():
    def empty(p, row):
        return plain(p, row) + jnp.sum(p["none"])

    position = weights(none=jnp.zeros((0, 3)))
    assert without_effect(ewsg.Posterior(empty, lambda p: 0.0), position, DATA) == []
    assert unread(ewsg.Posterior(plain, lambda p: 0.0), position, DATA) == []


def test_what_nothing_reads_is_named():
    """A scale that the prior reads has a posterior, one that is only multiplied away as well."""
    position = weights(tau=jnp.float32(1.0), rest={"of": jnp.zeros(2)})
    both = ewsg.Posterior(prior_alone, lambda p: 0.0)
    said = str(*unread(both, position, DATA))
    assert (
        "neither log_likelihood nor log_prior reads position['rest']['of'], position['tau']:"
        in said
    )
    of_tau = ewsg.Posterior(prior_alone, lambda p: -p["tau"] + 0.0 * jnp.sum(p["rest"]["of"]))
    assert unread(of_tau, position, DATA) == []


@pytest.mark.full
def test_sample_and_the_search_for_a_mode_say_that_nothing_reads_it():
    posterior = ewsg.Posterior(prior_alone, lambda p: -0.5 * jnp.sum(p["a"] ** 2))
    position = weights(tau=jnp.float32(1.0))
    found = r"neither log_likelihood nor log_prior reads position\['tau'\]"
    with pytest.warns(RuntimeWarning, match=found):
        sample(ewsg.sgld(posterior, 1e-4, batch_size=5), position)
    with pytest.warns(RuntimeWarning, match=found):
        ewsg.find_mode(jax.random.key(0), posterior, position, DATA, max_steps=3, progress=False)


def sample(kernel, position, data=DATA, **options):
    options = {"num_chains": 2} | options
    return ewsg.sample(
        jax.random.key(0), kernel, position, jax.tree.map(jnp.asarray, data), 4, **options
    )


@pytest.mark.full
def test_sample_says_it_once_of_the_same_data():
    posterior = ewsg.Posterior(batch_norm, lambda p: -0.5 * jnp.sum(p["c"] ** 2))
    data, kernel = jax.tree.map(jnp.asarray, DATA), ewsg.sgld(posterior, 1e-4, batch_size=5)
    with pytest.warns(RuntimeWarning, match="batch normalisation in training mode"):
        sample(kernel, weights(), data)
    sample(kernel, weights(), data)
    sample(kernel, weights(), check_data=False)


@pytest.mark.full
def test_sample_says_it_of_stacks_and_streams():
    posterior = ewsg.Posterior(batch_norm, lambda p: 0.0)
    kernels = [ewsg.sgld(posterior, h, batch_size=5) for h in (1e-4, 1e-5)]
    with pytest.warns(RuntimeWarning, match="reads position"):
        sample(ewsg.stack(kernels), weights())
    with pytest.warns(RuntimeWarning, match="reads position"):
        ewsg.sample(
            jax.random.key(0),
            kernels[0],
            weights(),
            ewsg.stream(DATA, window=50),
            4,
        )


@pytest.mark.full
def test_methods_without_derivatives_say_nothing():
    posterior = ewsg.Posterior(change_point, lambda p: -0.5 * p["d"] ** 2)
    sample(ewsg.random_walk_metropolis(posterior, 0.1), weights())


@pytest.mark.full
def test_a_module_that_writes_into_itself():
    """Batch normalisation of flax's nnx, whose statistics are set as it is called."""
    nnx = pytest.importorskip("flax.nnx")

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.first, self.norm = nnx.Linear(2, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs)

        def __call__(self, x):
            return jnp.sum(jnp.tanh(self.norm(self.first(x))))

    posterior = ewsg.Posterior(lambda p, row: -0.5 * (row["y"] - p(row["x"])) ** 2, lambda p: 0.0)
    rows = {
        "x": np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32),
        "y": np.zeros(20, np.float32),
    }
    assert "first.kernel" in str(*without_effect(posterior, Network(nnx.Rngs(0)), rows))


def of_all_rows(p, row):
    return jnp.sum(fit(X @ p["a"][:, 0], Y))


def of_all_rows_compiled(p, row):
    return jax.jit(lambda p: jnp.sum(fit(jnp.asarray(X) @ p["a"][:, 0], jnp.asarray(Y))))(p)


@pytest.mark.parametrize("likelihood", [of_all_rows, of_all_rows_compiled])
def test_a_likelihood_of_all_rows_is_named(likelihood):
    """It closes over the data, and is summed over rows once more."""
    posterior = ewsg.Posterior(likelihood, lambda p: 0.0)
    said = str(*without_effect(posterior, weights(), DATA))
    assert "reads nothing of the row" in said
    assert "counts 100 times" in said
    assert without_effect(posterior, weights(), jax.tree.map(lambda x: x[:50], DATA)) == []


def test_a_likelihood_that_finds_its_row_by_number_is_right():
    posterior = ewsg.Posterior(
        lambda p, row: fit(jnp.asarray(X)[row["i"]] @ p, jnp.asarray(Y)[row["i"]]), lambda p: 0.0
    )
    assert without_effect(posterior, jnp.ones(2), {"i": np.arange(N)}) == []


def bridged(p, row):
    """One row of a joint density less the prior, as a bridge to another library writes it."""
    prior = -0.5 * jnp.sum((p["b"] / jnp.exp(p["d"])) ** 2) - H * p["d"] - 0.5 * p["d"] ** 2
    return prior + fit(row["x"] @ p["a"] @ p["b"], row["y"]) - prior


@pytest.mark.parametrize("change", ["", "scaled", "with the row"])
def test_a_term_that_no_row_enters_is_the_priors(change):
    """A scale of effects is moved by the prior alone, and rightly."""

    def log_likelihood(p, row):
        if change == "with the row":
            return bridged(p, row) + 0.0 * jnp.round(p["d"] * row["y"])
        return 2.0 * bridged(p, row) if change else bridged(p, row)

    found = without_effect(ewsg.Posterior(log_likelihood, lambda p: 0.0), weights(), DATA)
    assert [one.kind for one in found] == ["no_effect"] * (change == "with the row")
