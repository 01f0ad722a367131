"""Networks over many rows with the axis of rows last: the numbers are those of `jax.vmap`."""

from unittest import mock

import equinox
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base import jaxprs
from ewsg_jax.networks import _rows_last
from ewsg_jax.networks._rows_last import over_rows

KEY = jax.random.key(0)
COUNT = 12
pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="rows are last on CPUs")


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def compared(function, shared, rows):
    """Compare values, gradients and products with the Hessian, for networks side by side."""

    def total(how):
        def of_network(shared, rows):
            weights = jnp.arange(1.0, 1 + len(jax.tree.leaves(rows)[0]))
            return jnp.tensordot(weights, how(shared, rows) ** 2, axes=(0, 0)).sum()

        def all_of(shared):
            gradient = jax.grad(of_network)
            along = jax.jvp(lambda at: gradient(at, rows), (shared,), (shared,))
            return how(shared, rows), *along

        several = jax.tree.map(lambda x: jnp.stack([x, 1.5 * x]), shared)
        return jax.jit(jax.vmap(all_of))(several)

    by_vmap = total(jax.vmap(function, (None, 0)))
    by_rows = total(lambda *a: over_rows(function, *a, several=True))
    for x, y in zip(jax.tree.leaves(by_vmap), jax.tree.leaves(by_rows), strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-12 * float(np.abs(x).max()))


def is_carried_out(function, shared, rows, several=True):
    """Return whether rows are last."""
    interpreted = mock.patch.object(_rows_last, "_interpreted", wraps=_rows_last._interpreted)
    with interpreted as called:
        jax.eval_shape(lambda *a: over_rows(function, *a, several=several), shared, rows)
    return called.called


def inputs(*shape):
    return jax.random.normal(KEY, (COUNT, *shape), jnp.float64)


def in_x64(params):
    return jax.tree.map(lambda x: x.astype(jnp.float64) + 0.1, params)


def flax_network(module, *shape):
    x = inputs(*shape)
    params = in_x64(module.init(KEY, x[0])["params"])
    return lambda params, x: module.apply({"params": params}, x), params, x


ACTIVATIONS = ["relu", "tanh", "gelu", "silu", "elu", "softplus", "leaky_relu", "hard_swish"]
NETWORKS = {
    **{
        name: linen.Sequential([linen.Dense(6), getattr(linen, name), linen.Dense(2)])
        for name in ACTIVATIONS
    },
    "layer norm": linen.Sequential([linen.Dense(6), linen.LayerNorm(), linen.Dense(2)]),
    "softmax": linen.Sequential([linen.Dense(6), linen.softmax, linen.Dense(2), linen.log_softmax]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_dense_layers(name):
    function, params, x = flax_network(NETWORKS[name], 3)
    compared(function, params, x)
    assert is_carried_out(function, params, x)
    assert not is_carried_out(function, params, x[:5])  # Fewer rows than units.
    assert not is_carried_out(function, params, x, several=False)


def test_products_of_other_orders():
    def function(p, x):
        first = p["a"] @ x["m"]  # (5, 4) by (4, 3)
        second = x["m"] @ p["b"]  # (4, 3) by (3, 2)
        third = jnp.einsum("bij,bjk->bik", x["t"], p["c"])
        return jnp.concatenate([first.ravel(), second.ravel(), third.ravel()])

    shapes = {"a": (5, 4), "b": (3, 2), "c": (2, 4, 3)}
    p = {k: jax.random.normal(KEY, shape, jnp.float64) for k, shape in shapes.items()}
    rows = {"m": inputs(4, 3), "t": inputs(2, 3, 4)}
    compared(function, p, rows)
    assert is_carried_out(function, p, rows)


def test_modules_of_equinox_and_labels():
    module = equinox.nn.MLP(3, 4, 6, 2, key=KEY, activation=jax.nn.gelu)
    apply, params = ewsg.networks.from_equinox(module)

    def density(params, row):
        return jax.nn.log_softmax(apply(params, row["x"]))[row["y"]][None]

    rows = {"x": inputs(3), "y": jnp.arange(COUNT) % 4}
    compared(density, in_x64(params), rows)
    assert is_carried_out(density, in_x64(params), rows)


CONVOLUTIONS = {
    "strides": {"strides": (2, 1)},
    "valid": {"padding": "VALID"},
    "padding": {"padding": ((1, 2), (0, 3))},
    "dilation": {"kernel_dilation": (2, 1)},
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    module = linen.Sequential(
        [
            linen.Conv(4, (3, 2), **CONVOLUTIONS[name]),
            linen.relu,
            lambda x: linen.avg_pool(x, (2, 2)),
            jnp.ravel,
            linen.Dense(3),
        ]
    )
    function, params, x = flax_network(module, 7, 6, 2)
    compared(function, params, x)
    assert is_carried_out(function, params, x, several=False)
    assert not is_carried_out(function, params, x[:1])


@pytest.mark.parametrize("axes", [("NCW", "OIW", "NCW"), ("NWC", "OIW", "NCW")])
def test_axes_of_a_convolution(axes):
    kernel = jax.random.normal(KEY, (5, 4, 3), jnp.float64)

    def function(kernel, x):
        return jax.lax.conv_general_dilated(
            x[None], kernel, (2,), "SAME", dimension_numbers=axes
        ).ravel()

    x = inputs(4, 7) if axes[0] == "NCW" else inputs(7, 4)
    compared(function, kernel, x)
    assert is_carried_out(function, kernel, x)


def test_large_patches_are_not_made(monkeypatch):
    function, params, x = flax_network(linen.Conv(4, (3, 3)), 7, 6, 2)
    monkeypatch.setattr(_rows_last.limits, "BYTES_AT_ONCE", x.nbytes * 9 - 1)
    assert not is_carried_out(function, params, x)
    monkeypatch.setattr(_rows_last.limits, "BYTES_AT_ONCE", x.nbytes * 9)
    assert is_carried_out(function, params, x)


def test_other_programs_are_left_alone():
    def recurrent(p, x):
        return jax.lax.scan(lambda h, part: (jnp.tanh(p @ h + part), None), x[0], x)[0]

    def attention(p, x):
        return jax.nn.softmax((x @ p) @ x.T) @ x

    def grouped(p, x):
        return jax.lax.conv_general_dilated(
            x[None], p, (1,), "SAME", feature_group_count=3, dimension_numbers=("NWC", "WIO", "NWC")
        )[0]

    def of_rows_alone(p, x):
        return p.sum() + x

    square = jax.random.normal(KEY, (3, 3), jnp.float64)
    for function in (recurrent, attention, of_rows_alone):
        assert not is_carried_out(function, square, inputs(5, 3)), function
        compared(function, square, inputs(5, 3))
    assert not is_carried_out(grouped, square[:, None], inputs(5, 3))


def test_transposed_convolutions_and_whole_numbers_are_left_alone():
    kernel = jax.random.normal(KEY, (3, 2, 2), jnp.float64)

    def transposed(kernel, x):
        names = ("NWC", "WIO", "NWC")
        return jax.lax.conv_transpose(x[None], kernel, (2,), "SAME", dimension_numbers=names)[0]

    @jax.custom_jvp
    def chosen(x, label):
        return x[label]

    @chosen.defjvp
    def _(primals, tangents):
        return chosen(*primals), 2 * tangents[0][primals[1]]  # not what JAX would derive

    def of_labels(p, row):
        return chosen(row["x"] @ p, row["y"])[None]

    def of_a_kernel_by_row(kernel, x):
        names = ("NWC", "WIO", "NWC")
        by_row = kernel * x.sum()
        return jax.lax.conv_general_dilated(x[None], by_row, (1,), "SAME", dimension_numbers=names)

    labels = {"x": inputs(2), "y": jnp.arange(COUNT) % 2}
    for function, p, rows in (
        (transposed, kernel, inputs(5, 2)),
        (of_a_kernel_by_row, kernel, inputs(5, 2)),
        (of_labels, kernel[0], labels),
    ):
        assert not is_carried_out(function, p, rows)
        compared(function, p, rows)


def test_a_result_that_no_row_enters():
    def function(p, x):
        return jnp.stack([p.sum(), 2.0]) + 0 * (x @ p).sum()

    def constant(p, x):
        x @ p
        return jnp.stack([p.sum(), 2.0])

    for one in (function, constant):
        compared(one, jnp.ones((3, 2)), inputs(3))


@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_model_is_the_same(side_by_side):
    apply, params, x = flax_network(
        linen.Sequential([linen.Conv(4, (3,)), linen.relu, jnp.ravel, linen.Dense(3)]), 6, 2
    )
    data = {"x": x, "y": jnp.arange(COUNT) % 3}
    model = ewsg.networks.posterior(apply, params, data, likelihood="categorical")
    model = model.side_by_side() if side_by_side else model
    alone = [jax.nn.log_softmax(apply(params, x))[y] for x, y in zip(x, data["y"], strict=True)]
    np.testing.assert_allclose(model.log_density(params, data), alone, rtol=1e-12)
    np.testing.assert_allclose(model.posterior.log_likelihoods(params, data), alone, rtol=1e-12)
    prior = ewsg.networks.posterior(
        apply, params, jax.tree.map(lambda x: x[:1], data), likelihood="categorical"
    ).posterior.log_prior(params)
    np.testing.assert_allclose(
        model.posterior.potential(params, data), -prior - np.sum(alone), rtol=1e-12
    )
    names = {
        one.primitive.name
        for one in jaxprs.equations(jax.make_jaxpr(model.posterior.potential)(params, data))
    }
    assert "conv_general_dilated" not in names
