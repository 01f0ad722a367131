"""Coordinates of a hierarchy: a bijection, and independent of the scale for normal rows."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.scipy.stats import norm

import ewsg_jax as ewsg
from ewsg_jax.hierarchy.centring import Centring, _places, _with, centring_of, not_centred
from ewsg_jax.hierarchy.conditionals import Hierarchy, VectorPrior
from ewsg_jax.kernels.in_coordinates import InCoordinates, target_of
from ewsg_jax.vectors.layout import Layout

PARENTS = np.repeat(np.arange(4, dtype=np.int32), 3)
START = {"a": jnp.zeros(12), "b": jnp.zeros(4), "m": jnp.zeros(()), "t": jnp.zeros(2)}
"""In the order of `ravel_pytree`: a, b, m, t."""
SIZE = 19


def nested(p):
    of_rows = norm.logpdf(p["a"], p["b"][PARENTS], jnp.exp(p["t"][0])).sum()
    of_groups = norm.logpdf(p["b"], p["m"], jnp.exp(p["t"][1])).sum()
    return of_rows + of_groups + norm.logpdf(p["m"], 0, 3) - jnp.sum(p["t"] ** 2)


def centring(information=0.0, pull=0.0):
    with jax.enable_x64(True):
        start = jax.tree.map(lambda x: jnp.zeros(x.shape), START)
        number = lambda x: jnp.broadcast_to(jnp.asarray(x, float), (SIZE,))
        return Centring(
            hierarchy=Hierarchy(
                VectorPrior(nested, Layout.of(start)), (tuple(range(12)), tuple(range(12, 16)))
            ),
            information=number(information),
            pull=number(pull),
            center=number(0.0),
            width=number(1.0),
        )


def somewhere(seed=0):
    return np.random.default_rng(seed).normal(size=SIZE)


@pytest.mark.parametrize("information", [0.0, 3.0, 1e6])
def test_the_map_is_a_bijection_with_its_determinant(information):
    with jax.enable_x64(True):
        to, u = centring(information, 0.7), jnp.asarray(somewhere())
        theta, log_det = to.position_of(u)
        np.testing.assert_allclose(to.coordinates_of(theta), u, atol=1e-9)
        jacobian = jax.jit(jax.jacfwd(lambda u: to.position_of(u)[0]))(u)
        np.testing.assert_allclose(log_det, np.linalg.slogdet(jacobian)[1], rtol=1e-9)
        # What is no effect stays.
        np.testing.assert_array_equal(theta[16:], u[16:])


@pytest.mark.full
def test_without_rows_effects_are_standard_normal_in_the_prior():
    with jax.enable_x64(True):
        to = centring()
        prior = lambda u: (
            nested(to.hierarchy.prior.layout.tree(to.position_of(u)[0])) + to.position_of(u)[1]
        )
        hessian = jax.jit(jax.hessian(prior))(jnp.asarray(somewhere()))
        np.testing.assert_allclose(hessian[:16, :16], -np.eye(16), atol=1e-8)
        # Nor do they depend on means and scales.
        np.testing.assert_allclose(hessian[:16, 16:], 0.0, atol=1e-8)


def test_means_and_widths_in_the_prior_are_those_of_the_model():
    with jax.enable_x64(True):
        theta = jnp.asarray(somewhere())
        mean, width = centring().conditionals(theta)
        np.testing.assert_allclose(mean[:12], theta[12:16][PARENTS], atol=1e-9)
        np.testing.assert_allclose(mean[12:16], theta[16], atol=1e-9)
        np.testing.assert_allclose(width[:12], np.exp(theta[17]), rtol=1e-9)
        np.testing.assert_allclose(width[12:16], np.exp(theta[18]), rtol=1e-9)


@pytest.mark.parametrize("log_scale", [-4.0, -1.0, 2.0])
def test_with_normal_rows_effects_are_standard_normal_at_each_scale(log_scale):
    """One level with rows of known precision: V is ½ ‖u‖² in the effects, at any scale."""
    weight, y = np.array([0.5, 2.0, 50.0, 0.0]), np.array([1.0, -2.0, 0.3, 9.0])
    prior = lambda p: norm.logpdf(p["a"], p["m"], jnp.exp(p["t"])).sum() - p["m"] ** 2
    with jax.enable_x64(True):
        layout = Layout.of({"a": jnp.zeros(4), "m": jnp.zeros(()), "t": jnp.zeros(())})
        number = lambda x: jnp.asarray(np.append(x, [0.0, 0.0]))
        to = Centring(
            hierarchy=Hierarchy(VectorPrior(prior, layout), ((0, 1, 2, 3),)),
            information=number(weight),
            pull=number(weight * y),
            center=jnp.zeros(6),
            width=jnp.ones(6),
        )

        def potential(u):
            theta, log_det = to.position_of(u)
            rows = 0.5 * jnp.sum(weight * (theta[:4] - y) ** 2)
            return rows - prior(layout.tree(theta)) - log_det

        u = jnp.asarray(np.append(somewhere()[:5], log_scale))
        gradient, hessian = jax.jit(lambda u: (jax.grad(potential)(u), jax.hessian(potential)(u)))(
            u
        )
        np.testing.assert_allclose(gradient[:4], u[:4], atol=1e-7)
        np.testing.assert_allclose(hessian[:4, 4:], 0.0, atol=1e-6)


def test_scales_are_the_coordinates_that_set_widths():
    with jax.enable_x64(True):
        np.testing.assert_array_equal(centring().scales(somewhere()), [17, 18])


def model():
    """Twelve rows around the effects of a nested hierarchy."""
    likelihood = lambda p, row: norm.logpdf(row["y"], p["a"][row["i"]], 0.5)
    rows = {"y": jnp.asarray(np.sin(np.arange(12.0)), jnp.float32), "i": jnp.arange(12)}
    return ewsg.Posterior(likelihood, nested), rows


def in_float32(information=0.0, pull=0.0, prior=nested):
    layout = Layout.of(START)
    points = 0.5 * np.random.default_rng(1).normal(size=(3, SIZE))
    to = not_centred(VectorPrior(prior, layout), points, np.zeros(SIZE), np.ones(SIZE))
    assert to is not None
    numbers = {"information": information, "pull": pull}
    return dataclasses.replace(
        to, **{name: jnp.full(SIZE, x, jnp.float32) for name, x in numbers.items()}
    )


def kernels():
    posterior, rows = model()
    to = in_float32(4.0, 1.0)
    inner = ewsg.sghmc(posterior.transformed(to), 1e-2, batch_size=4, friction=1.0)
    return InCoordinates(kernel=inner, posterior=posterior, bijector=to), inner, to, rows


def test_linear_means_and_log_widths_need_no_derivatives():
    to, theta = in_float32(), jnp.asarray(somewhere(), jnp.float32)
    assert to.linear is not None
    # One parent for each mean, and one scale for each width.
    assert {level.mean.places.shape[1] for level in to.linear} == {1}
    by_derivatives = dataclasses.replace(to, linear=None).conditionals(theta)
    np.testing.assert_allclose(to.conditionals(theta), by_derivatives, rtol=1e-4, atol=1e-4)


def test_other_widths_are_taken_from_derivatives():
    def softplus(p):
        width = jax.nn.softplus(p["t"][0])
        return norm.logpdf(p["a"], p["m"], width).sum() - p["m"] ** 2 - jnp.sum(p["b"] ** 2)

    to, theta = in_float32(prior=softplus), jnp.asarray(somewhere(), jnp.float32)
    assert to.linear is None
    np.testing.assert_allclose(
        to.conditionals(theta)[1, :12], jax.nn.softplus(theta[17]), rtol=1e-4
    )


def test_a_posterior_knows_the_coordinates_that_it_is_expressed_by():
    posterior, _ = model()
    to = in_float32()
    assert centring_of(posterior.transformed(to)) is to
    assert centring_of(posterior) is None
    assert centring_of(posterior.transformed(ewsg.bijectors.affine(START))) is None


@pytest.mark.full
def test_a_kernel_in_coordinates_steps_as_the_kernel_there():
    kernel, inner, to, rows = kernels()
    at = jax.tree.map(lambda x: x + 0.3, START)
    state = kernel.init(jax.random.key(0), at, rows)
    there = inner.init(jax.random.key(0), to.inverse(at), rows)
    for step in range(3):
        key = jax.random.key(step)
        state, info = jax.jit(kernel.step)(key, state, rows)
        there, _ = jax.jit(inner.step)(key, there, rows)
        expected = ravel_pytree(to.forward(there.position))[0]
        np.testing.assert_allclose(ravel_pytree(state.position)[0], expected, rtol=1e-5, atol=1e-6)
        assert int(state.step) == step + 1
        assert bool(info.is_finite)
        assert int(info.gradient_evaluations) == 4


@pytest.mark.full
def test_a_run_in_coordinates_is_saved_and_goes_on(tmp_path):
    kernel, _, _, rows = kernels()
    run = {"num_chains": 2, "progress": False}
    key = jax.random.key(1)
    all_steps = ewsg.sample(key, kernel, START, rows, 40, **run)
    first = ewsg.sample(key, kernel, START, rows, 20, **run)
    first.save(tmp_path / "run.npz")
    loaded = ewsg.load(tmp_path / "run.npz", kernel=kernel, data=rows)
    more = ewsg.sample(key, kernel, None, rows, 20, state=loaded.state, **run)
    assert first.position["a"].shape == (2, 20, 12)
    joined = jax.tree.map(lambda *x: np.concatenate(x, 1), first.position, more.position)
    for one, other in zip(*map(jax.tree.leaves, (all_steps.position, joined)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_in_coordinates_warns_of_the_model():
    """As a run of a kernel over the position does, of coordinates that the user knows."""
    posterior = ewsg.Posterior(lambda p, y: norm.logpdf(y, p["a"]), lambda p: 0.0)
    start = {"a": jnp.zeros(()), "never": jnp.zeros(2)}
    to = ewsg.bijectors.affine(start)
    inner = ewsg.sgld(posterior.transformed(to), 1e-3, batch_size=2)
    kernel = InCoordinates(kernel=inner, posterior=posterior, bijector=to)
    assert target_of(kernel) is posterior
    exact = dataclasses.replace(kernel, kernel=ewsg.nuts(posterior.transformed(to), 0.1))
    assert target_of(exact) is None
    with pytest.warns(RuntimeWarning, match="never"):
        ewsg.sample(jax.random.key(0), kernel, start, jnp.ones(4), 3, progress=False)


@pytest.mark.full
def test_a_kernel_in_coordinates_has_the_temperature_of_its_momentum():
    posterior, rows = model()
    to = in_float32(4.0, 1.0)
    inner = ewsg.uld(posterior.transformed(to), 0.1, friction=1.0)
    kernel = InCoordinates(kernel=inner, posterior=posterior, bijector=to)
    samples = ewsg.sample(
        jax.random.key(0), kernel, START, rows, 1_000, num_chains=8, progress=False
    )
    report = ewsg.check(jax.random.key(1), samples, posterior, rows, kernel=kernel)
    assert report.kinetic is not None
    # Semi-implicit Euler makes momenta somewhat too wide; one of θ would be off by its units.
    assert abs(report.kinetic.mean.value - 1) < 0.2


def test_printed_kernels_say_where_they_move():
    kernel, *_ = kernels()
    assert repr(kernel).endswith("bijector=centring(16 effects))")


@pytest.mark.parametrize("level", [(2, 3, 4), (1, 3, 4)], ids=["a slice", "places"])
def test_values_are_put_at_the_places_of_a_level(level):
    flat, values = np.arange(6.0), np.array([10.0, 20.0, 30.0])
    expected = flat.copy()
    expected[list(level)] = values
    at = _places(level)
    np.testing.assert_array_equal(_with(jnp.asarray(flat), at, jnp.asarray(values)), expected)
    np.testing.assert_array_equal(jnp.asarray(flat)[at], flat[list(level)])


def test_a_model_in_coordinates_is_not_checked_again():
    calls = []

    def log_likelihood(p, row):
        calls.append(row)
        return -0.5 * (row - p["a"][0]) ** 2

    posterior = ewsg.Posterior(log_likelihood, nested)
    rows = jnp.zeros(3)
    posterior.check(START, rows)
    posterior.check_gradient(START, rows)
    with jax.enable_x64(False):
        to = dataclasses.replace(centring(), information=jnp.zeros(SIZE), pull=jnp.zeros(SIZE))
    before = len(calls)
    over_u = posterior.transformed(to)
    over_u.check(START, rows)
    over_u.check_gradient(START, rows)
    assert before > 0
    assert len(calls) == before
