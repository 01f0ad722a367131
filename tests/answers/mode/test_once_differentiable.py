"""Functions that JAX differentiates once: differences of gradients against exact ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.curvature import Shape
from ewsg_jax.answers.mode.potential import HostPotential
from ewsg_jax.answers.plan.stiff_directions import stiffest_direction
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.vectors import differences
from tests.densities import flat, none, normal, squares
from tests.once import once, silently_once
from tests.oracles import newton

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
N, D = 300, 5
SCALES = {"even": np.ones(D), "badly": 10.0 ** np.array([-8, -3, 0, 3, 8])}
LABELS = (RNG.random(N) < 0.4).astype(np.float32)
INPUTS = RNG.normal(size=(N, D))
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = (X @ [1.0, 2.0, 3.0] + RNG.normal(size=60)).astype(np.float32)
ROWS = {"x": X, "y": Y}
SD = np.sqrt(np.diag(np.linalg.inv(X.T.astype(float) @ X + np.eye(3))))


def logistic(w, row):
    return jax.nn.log_sigmoid(jnp.where(row["y"] == 1, 1, -1) * (row["x"] @ w))


def mode_of(log_likelihood, log_prior, start, **options):
    return ewsg.find_mode(KEY, ewsg.Posterior(log_likelihood, log_prior), start, ROWS, **options)


def exact_hessian(x, w, scale):
    _, _, curvature = newton.logistic(x @ w, LABELS.astype(float))
    return (x * curvature[:, None]).T @ x + np.diag(1 / scale**2)


@pytest.mark.usual_parameters("badly-float64")
@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize("scales", SCALES)
def test_differences_are_the_hessian(scales, wide):
    """In the posterior's own metric: an error of a width is half of that."""
    scale = SCALES[scales]
    x, unit = (INPUTS / scale).astype(np.float32), jnp.asarray(scale, jnp.float32)
    # Two columns that are nearly one: the curvature across is 10⁻⁴ of that along.
    x[:, 1] = (x[:, 0] * scale[0] + 0.01 * INPUTS[:, 1]) / scale[1]
    rows = jax.tree.map(jnp.asarray, {"x": x, "y": LABELS})
    posterior = ewsg.Posterior(once(logistic), lambda w: -0.5 * jnp.sum((w / unit) ** 2))
    potential = HostPotential(posterior, jnp.zeros(D), rows, 4096, lazy=False)
    assert not potential.twice
    assert potential.of.wide
    potential.of = potential.of._replace(wide=wide)
    point = np.asarray(0.3 * scale * RNG.normal(size=D), np.float32).astype(float)
    exact = exact_hessian(x.astype(float), point, np.asarray(unit, float))
    root = np.linalg.cholesky(np.linalg.inv(exact * np.outer(scale, scale)))
    for _ in range(2):  # with directions that are found first, and with those of the last point
        found = potential.hessian(potential.at(point)) * np.outer(scale, scale)
        error = np.abs(root.T @ found @ root - np.eye(D)).max()
        assert error < (1e-6 if wide else 5e-3)


@pytest.mark.parametrize("width", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("where", [0.0, 1e6])
def test_a_step_is_found_for_any_width(x64, width, where):
    """At 0, and a million away from it (where a width of 10⁻¹² is lost in rounding)."""
    if where and width < 1:
        return

    def gradient(w):
        return jnp.sinh((w - where) / width) / width

    for first in (0.0, jnp.float64(1.0)):
        found = differences.product(gradient, jnp.array([where]), jnp.array([2.0]), 1e-4, first)
        np.testing.assert_allclose(found, 2 / width**2, rtol=1e-4)
    # Nothing falls or rises: 0, however far it looked.
    assert differences.product(lambda w: 0 * w + 3, jnp.array([where]), jnp.array([1.0]), 1e-4) == 0


def test_a_step_stays_where_there_is_a_gradient(x64):
    """Of −log w the gradient ends at 0; first steps lead beyond."""
    found = differences.product(
        lambda w: jnp.where(w > 0, -1 / w, jnp.nan), jnp.array([1e-9]), jnp.ones(1), 1e-4
    )
    np.testing.assert_allclose(found, 1e18, rtol=1e-4)


def test_the_mode_of_a_likelihood_or_prior_that_is_differentiated_once():
    plain = mode_of(squares, normal, jnp.zeros(3))
    for found in (
        mode_of(once(squares), normal, jnp.zeros(3)),
        mode_of(squares, once(normal), jnp.zeros(3)),
    ):
        assert found.converged
        np.testing.assert_allclose(found.position, plain.position, rtol=1e-6)
        np.testing.assert_allclose(found.sd, SD, rtol=1e-6)


@pytest.mark.full
def test_second_derivatives_that_are_0_without_a_word():
    """A rule that stops the gradient it keeps: the Hessian is the prior's, the sds were 1."""
    found = mode_of(silently_once(squares), normal, jnp.zeros(3))
    assert found.converged
    np.testing.assert_allclose(found.sd, SD, rtol=1e-6)


def test_a_callback_of_the_host_with_a_rule():
    """Value and slope by NumPy, as of a solver or a table: no second derivative."""

    def on_host(function, x):
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(
            lambda v: function(v).astype(v.dtype), like, x, vmap_method="broadcast_all"
        )

    @jax.custom_vjp
    def log_density(s):
        return on_host(lambda v: -np.logaddexp(0, -v), s)

    log_density.defvjp(
        lambda s: (log_density(s), s), lambda s, g: (g * on_host(lambda v: 1 / (1 + np.exp(v)), s),)
    )
    signs = {"x": X, "y": np.sign(Y)}
    by_host = ewsg.Posterior(lambda w, row: log_density(row["y"] * (row["x"] @ w)), normal)
    found = ewsg.find_mode(KEY, by_host, jnp.zeros(3), signs)
    true = newton.mode(newton.logistic, X, (Y > 0).astype(float), 1.0)
    assert found.converged
    assert true.away(found.position) < 0.01


@pytest.mark.full
def test_a_gamma_likelihood_with_censoring():
    """`gammaincc` has no second derivative by shape; SciPy's minimum and differences."""
    n = 80
    t, c = RNG.gamma(2.0, 1.5, n), RNG.exponential(5.0, n)
    event = t <= c
    t = np.minimum(t, c)

    def log_likelihood(p, row):
        a, rate = jnp.exp(p[0]), jnp.exp(p[1])
        dies = (
            a * p[1] + (a - 1) * jnp.log(row["t"]) - rate * row["t"] - jax.scipy.special.gammaln(a)
        )
        return jnp.where(
            row["event"], dies, jnp.log(jax.scipy.special.gammaincc(a, rate * row["t"]))
        )

    def potential(p):
        a, rate = np.exp(p)
        dies = a * p[1] + (a - 1) * np.log(t) - rate * t - special.gammaln(a)
        return 0.5 * p @ p - np.where(event, dies, np.log(special.gammaincc(a, rate * t))).sum()

    posterior = ewsg.Posterior(log_likelihood, normal)
    found = ewsg.find_mode(KEY, posterior, jnp.zeros(2), {"t": t, "event": event})
    best = optimize.minimize(potential, np.zeros(2), method="BFGS", options={"gtol": 1e-7}).x
    unit = 1e-3 * np.eye(2)
    signs = [(a, b) for a in (1, -1) for b in (1, -1)]
    corners = [
        [sum(a * b * potential(best + a * i + b * j) for a, b in signs) for i in unit] for j in unit
    ]
    hessian = np.array(corners) / 4e-6
    sd = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert found.converged
    np.testing.assert_allclose((np.asarray(found.position) - best) / sd, 0, atol=0.02)
    np.testing.assert_allclose(found.sd, sd, rtol=0.01)


NO_MODE = {
    "quartic": (none, once(lambda w: -jnp.sum(w**4)), "to no parabola"),
    "exponential": (none, once(lambda w: -jnp.sum(jnp.exp(-w))), "falls ever more gently"),
    "no such coordinate": (
        once(lambda w, row: squares(w, row)),
        flat,
        "not curved in some direction",
    ),
    "wrong sign": (once(lambda w, row: -squares(w, row)), normal, "falls without bound"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", NO_MODE)
def test_no_mode_is_said(name):
    log_likelihood, log_prior, message = NO_MODE[name]
    with pytest.warns(RuntimeWarning, match=message):
        found = mode_of(log_likelihood, log_prior, jnp.ones(4))
    assert not found.converged


def test_a_saddle_is_left():
    found = mode_of(none, once(lambda w: -5 * (w[0] ** 2 - 1) ** 2 - w[1] ** 2), jnp.zeros(2))
    assert found.converged
    np.testing.assert_allclose(np.abs(found.position), [1, 0], atol=0.01)
    np.testing.assert_allclose(found.sd, [40**-0.5, 2**-0.5], rtol=0.01)


@pytest.mark.sweep
def test_of_many_coordinates_products_are_differences():
    found = mode_of(once(squares), normal, jnp.ones(1_100), rank=0)
    assert found.converged
    np.testing.assert_allclose(
        found.position[:3], mode_of(squares, normal, jnp.zeros(3)).position, atol=0.002
    )
    assert found.num_steps < 30


def test_linear_predictors_and_walls():
    """Each row's curvature ¼ at most; without a second derivative it is a difference."""

    def log_likelihood(s, row):
        return -jax.nn.softplus(-row["y"] * s)

    signs = {"x": X, "y": np.sign(Y)}
    models = [
        ewsg.Posterior.linear(function, normal, inputs=lambda row: row["x"])
        for function in (log_likelihood, once(log_likelihood))
    ]
    modes = [ewsg.find_mode(KEY, model, jnp.zeros(3), signs) for model in models]
    np.testing.assert_allclose(modes[1].sd, modes[0].sd, rtol=1e-5)
    whitening = Whitening.at_mode(modes[0])
    places = whitening.draw_places(KEY, 64, 2.0)
    plain, by_differences = (
        stiffest_direction(model, whitening, places, jax.tree.map(jnp.asarray, signs)).curvature
        for model in models
    )
    np.testing.assert_allclose(by_differences, plain, rtol=0.01)


@pytest.mark.full
def test_a_forecast_is_the_same():
    posteriors = [ewsg.Posterior(function, normal) for function in (squares, once(squares))]
    told = []
    for posterior in posteriors:
        mode = ewsg.find_mode(KEY, posterior, jnp.zeros(3), ROWS)
        told.append(ewsg.forecast(ewsg.sgld(posterior, 1e-4, batch_size=20), mode, ROWS))
    np.testing.assert_allclose(told[1].variance_ratio, told[0].variance_ratio, rtol=1e-3)
    np.testing.assert_allclose(told[1].largest_step, told[0].largest_step, rtol=1e-2)


def test_the_shape_is_that_of_a_bowl_where_columns_are_nearly_one():
    """Curvatures that differ by 10⁷: no rounding of the largest hides the least."""
    x = np.column_stack([X[:, 0], X[:, 0] + 3e-4 * X[:, 1]]).astype(np.float32)
    posterior = ewsg.Posterior(once(lambda w, row: -0.5 * (row["y"] - row["x"] @ w) ** 2), flat)
    rows = {"x": x, "y": Y}
    found = ewsg.find_mode(KEY, posterior, jnp.zeros(2), rows, tolerance=0.05)
    assert found.curvature.shape is Shape.CONVEX
    wide = x.astype(float)
    np.testing.assert_allclose(found.sd, np.sqrt(np.diag(np.linalg.inv(wide.T @ wide))), rtol=1e-3)
