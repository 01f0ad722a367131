"""Widths that a mode tells, against closed forms, and their use: masses, starts, bijectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.lanczos import lanczos
from ewsg_jax.base.factors import factor_of

KEY = jax.random.key(0)
RNG = np.random.default_rng(1)
X = (
    (RNG.normal(size=(40, 3)) * [1.0, 30.0, 0.1] + [0.0, 20.0, 0.0])
    .astype(np.float32)
    .astype(float)
)
ROWS = {"x": X, "y": RNG.normal(size=40)}
PRECISION = np.diag([1.0, 1e-2, 1.0]) + 4 * X.T @ X
"""Of a Gaussian posterior of two leaves: noise 1/2, and a prior."""


def log_likelihood(p, row):
    return -2.0 * (row["y"] - row["x"][0] * p["a"] - row["x"][1:] @ p["b"]) ** 2


def log_prior(p):
    return -0.5 * (p["a"] ** 2 + jnp.sum(jnp.array([1e-2, 1.0]) * p["b"] ** 2))


def found(dtype=jnp.float32):
    start = {"a": jnp.zeros((), dtype), "b": jnp.zeros(2, dtype)}
    return ewsg.find_mode(KEY, ewsg.Posterior(log_likelihood, log_prior), start, ROWS)


def test_covariance_and_sd_are_those_of_the_gaussian():
    mode, covariance = found(), np.linalg.inv(PRECISION)
    np.testing.assert_allclose(mode.covariance, covariance, rtol=1e-9)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(mode.sd["a"], sd[0], rtol=1e-6)
    np.testing.assert_allclose(mode.sd["b"], sd[1:], rtol=1e-6)
    assert mode.sd["b"].dtype == mode.inverse_mass.dtype == jnp.float32


def test_starts_are_as_wide_as_asked():
    mode, factor = found(), np.linalg.cholesky(np.linalg.inv(PRECISION))

    def moved(width):
        starts = jax.vmap(lambda key: mode.start(key, width))(jax.random.split(KEY, 50))
        flat = np.column_stack([starts["a"], starts["b"]]) - [
            mode.position["a"],
            *mode.position["b"],
        ]
        return np.linalg.solve(factor, flat.T)

    # The same draws whatever the width, N(0, I) in the coordinates of the posterior.
    np.testing.assert_allclose(moved(3.0), 2 * moved(1.5), atol=2e-3)
    squares = np.sum(moved(1.0) ** 2)
    assert abs(squares - 150) < 5 * np.sqrt(300)


def test_with_its_inverse_mass_the_step_has_the_unit_one(linearize):
    mode = found(jnp.float64)
    kernel = ewsg.ld(
        ewsg.Posterior(flat_likelihood, flat_prior), 0.5, inverse_mass=mode.inverse_mass
    )
    maps = linearize(kernel, 3, ROWS)
    np.testing.assert_allclose(maps.matrix[0], 0.5 * np.eye(3), atol=1e-9)


def flat_likelihood(w, row):
    return log_likelihood({"a": w[0], "b": w[1:]}, row)


def flat_prior(w):
    return log_prior({"a": w[0], "b": w[1:]})


def low_rank_problem(size=1100):
    """A likelihood of twelve rows, and a prior N(0, I): twelve directions are narrower than 1."""
    x = np.random.default_rng(2).normal(size=(12, size))
    rows = {"x": x.astype(np.float32), "y": np.ones(12, np.float32)}
    model = ewsg.Posterior(
        lambda w, row: -2.0 * (row["y"] - row["x"] @ w) ** 2, lambda w: -0.5 * jnp.sum(w**2)
    )
    covariance = np.linalg.inv(np.eye(size) + 4 * rows["x"].T.astype(float) @ rows["x"])
    return model, rows, jnp.zeros(size), covariance


@pytest.mark.full
def test_many_numbers_have_a_low_rank():
    model, rows, start, covariance = low_rank_problem()
    mode = ewsg.find_mode(KEY, model, start, rows, rank=16)
    assert isinstance(mode.covariance, ewsg.dynamics.LowRank)
    np.testing.assert_allclose(mode.sd, np.sqrt(np.diag(covariance)), rtol=0.02)
    # The mass takes the narrow directions to the width of the others.
    factor = factor_of(mode.inverse_mass, "inverse_mass")
    narrow = np.linalg.svd(rows["x"], full_matrices=False)[2][0].astype(np.float32)
    length = np.linalg.norm(factor.transposed(jnp.asarray(narrow)))
    np.testing.assert_allclose(length**2, narrow @ covariance @ narrow, rtol=0.02)
    without = ewsg.find_mode(KEY, model, start, rows, rank=0)
    # One product for each of the twelve, one for the others, and one that finds nothing more.
    assert without.curvature is None
    assert mode.data_passes == without.data_passes + 14


@pytest.mark.full
def test_lanczos_finds_what_stands_out():
    values = np.concatenate([[900.0, 400.0, 90.0], np.full(297, 2.0)])
    basis = np.linalg.qr(np.random.default_rng(3).normal(size=(300, 300)))[0]
    matrix = basis * values @ basis.T
    spectrum = lanczos(lambda v: matrix @ v, 300, 8)
    np.testing.assert_allclose(spectrum.values[:3], values[:3], rtol=1e-8)
    np.testing.assert_allclose(
        np.abs(np.sum(spectrum.directions[:, :3] * basis[:, :3], axis=0)), 1, rtol=1e-8
    )
    np.testing.assert_allclose(spectrum.mean_inverse, np.mean(1 / values), rtol=0.05)
    assert lanczos(lambda v: -matrix @ v, 300, 8).least < 0


def test_a_point_that_is_no_mode_has_no_widths():
    model = ewsg.Posterior(lambda w, x: 0.5 * jnp.sum((w * x) ** 2), lambda w: jnp.zeros(()))
    with pytest.warns(RuntimeWarning, match="found no mode|at which the potential"):
        mode = ewsg.find_mode(KEY, model, jnp.ones(2), jnp.ones((3, 2)), max_steps=3)
    with pytest.raises(
        ValueError,
        match="mode must be one for its widths; got a point at which the potential is curved",
    ):
        _ = mode.covariance


@pytest.mark.parametrize("form", ["matrix", "tree", "number", "low_rank"])
def test_affine_is_one_to_one(x64, form):
    covariance = {
        "matrix": np.array([[2.0, 0.6], [0.6, 0.5]]),
        "tree": np.array([4.0, 9.0]),
        "number": 4.0,
        "low_rank": ewsg.dynamics.LowRank(
            np.array([4.0, 1.0]), np.array([[0.6], [0.8]]), np.array([9.0])
        ),
    }[form]
    shift, u = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7])
    made = ewsg.bijectors.affine(shift, covariance)
    jacobian = jax.jacfwd(made.forward)(u)
    dense = {
        "matrix": covariance,
        "tree": np.diag([4.0, 9.0]),
        "number": 4 * np.eye(2),
        "low_rank": np.array([[4.0 * (1 + 8 * 0.36), 2 * 8 * 0.48], [2 * 8 * 0.48, 1 + 8 * 0.64]]),
    }[form]
    np.testing.assert_allclose(jacobian @ jacobian.T, dense, rtol=1e-12)
    np.testing.assert_allclose(made.forward(jnp.zeros(2)), shift)
    np.testing.assert_allclose(made.inverse(made.forward(u)), u, rtol=1e-12)
    np.testing.assert_allclose(made.log_det(u), np.linalg.slogdet(jacobian)[1], rtol=1e-12)


@pytest.mark.full
def test_affine_keeps_the_linear_predictor(x64):
    model = ewsg.models.logistic_regression(prior_scale=2.0)
    rows = {"x": X, "y": (ROWS["y"] > 0).astype(float)}
    mode = ewsg.find_mode(KEY, model, jnp.zeros(3), rows)
    whitened = ewsg.bijectors.affine(mode.position, mode.covariance)
    linear = model.transformed(whitened)
    plain = ewsg.Posterior(model.log_likelihood, model.log_prior).transformed(whitened)
    assert linear.predictor is not None
    assert plain.predictor is None
    u = jnp.array([0.3, -1.0, 0.5])
    np.testing.assert_allclose(linear.potential(u, rows), plain.potential(u, rows), rtol=1e-12)
    np.testing.assert_allclose(linear.gradient(u, rows), plain.gradient(u, rows), rtol=1e-10)
    batch = jnp.array([3, 3, 17])
    np.testing.assert_allclose(
        linear.batch_gradient(u, rows, batch), plain.batch_gradient(u, rows, batch), rtol=1e-10
    )
    # Around the mode u is N(0, I).
    there = ewsg.find_mode(KEY, linear, jnp.zeros(3), rows)
    np.testing.assert_allclose(there.covariance, np.eye(3), atol=1e-3)
    # Weights of several classes are no vector: gradients are automatic, and right.
    classes = ewsg.models.softmax_regression()
    moved = classes.transformed(ewsg.bijectors.affine(jnp.ones((3, 2)), 4.0))
    assert moved.predictor is None
    labels = rows | {"y": (ROWS["y"] > 0).astype(int)}
    expected = 2 * classes.gradient(jnp.ones((3, 2)) + 2 * jnp.eye(3, 2), labels)
    np.testing.assert_allclose(moved.gradient(jnp.eye(3, 2), labels), expected, rtol=1e-10)


@pytest.mark.full
@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_draws_of_several_keys_are_those_of_each(shape):
    start, keys = found().start, jax.random.split(jax.random.key(3), shape)
    together, one = start.of_keys(keys), [start(key) for key in keys.ravel()]
    for several, *each in zip(*map(jax.tree.leaves, [together, *one]), strict=True):
        assert several.shape == (*shape, *each[0].shape)
        np.testing.assert_allclose(
            several.reshape(-1, *each[0].shape), np.stack(each), rtol=1e-6, atol=1e-6
        )
