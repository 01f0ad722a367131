"""Posteriors without a mode, hard starts, and positions of many numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode import hessian_products, settings
from ewsg_jax.answers.mode.potential import HostPotential
from ewsg_jax.answers.mode.spectrum import CurvatureOfMany
from tests.densities import flat, none, normal, squares
from tests.oracles import newton

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, 2.0, 3.0] + RNG.normal(size=60)
ROWS = {"x": X, "y": Y}
LABELS = {"x": X, "y": (X[:, 0] > 0).astype(float)}


def search(log_likelihood, log_prior, start, **options):
    return ewsg.find_mode(KEY, ewsg.Posterior(log_likelihood, log_prior), start, ROWS, **options)


NO_MODE = {
    "wrong sign": (
        lambda w, row: -squares(w, row),
        normal,
        3,
        "falls without bound; .*sign of log_likelihood",
    ),
    "falls steadily": (lambda w, row: row["x"] @ w, flat, 3, "falls without bound"),
    "no such coordinate": (squares, flat, 4, "not curved in some direction; .*improper"),
    "two of one": (
        lambda w, row: squares(w[:3].at[0].add(w[3]), row),
        flat,
        4,
        "not curved in some direction",
    ),
    "constant": (none, flat, 2, "not curved in some direction"),
    "quartic": (none, lambda w: -jnp.sum(w**4), 2, "to no parabola"),
    "exponential": (none, lambda w: -jnp.sum(jnp.exp(-w)), 2, "falls ever more gently"),
}


@pytest.mark.usual_parameters("wrong sign", "two of one")
@pytest.mark.parametrize("name", NO_MODE)
def test_no_mode_is_said(name):
    log_likelihood, log_prior, dimension, message = NO_MODE[name]
    with pytest.warns(RuntimeWarning, match=message):
        found = search(log_likelihood, log_prior, jnp.ones(dimension))
    assert not found.converged
    assert found.distance == np.inf


RIDGES = {
    "a product of two": lambda w: -50 * (w[0] * w[1] - 1) ** 2,
    "a ring": lambda w: -50 * (jnp.sqrt(w @ w) - 1) ** 2,
    "a wave": lambda w: -50 * (w[0] - jnp.sin(w[1])) ** 2,
}


@pytest.mark.full
@pytest.mark.parametrize("name", RIDGES)
def test_a_ridge_that_bends_has_no_mode(name):
    """It had one wherever the search came to it, of widths from 100 to 3,800 by roundings."""
    # Which of both the end is roundings say.
    said = "ended on a ridge.* as good as level.*improper|curved downwards in some direction"
    with pytest.warns(RuntimeWarning, match=said):
        found = search(none, RIDGES[name], jnp.array([1.3, 0.5]))
    assert not found.converged
    assert found.distance == np.inf


def test_a_ridge_that_a_prior_bounds_has_a_mode():
    found = search(none, lambda w: RIDGES["a product of two"](w) - w @ w / 200, jnp.ones(2) * 0.3)
    assert found.converged
    np.testing.assert_allclose(found.position, np.sqrt(1 - 1 / 10_000), rtol=0.05)


KINKS = {
    "a Laplace law": (none, lambda w: -jnp.sum(jnp.abs(w)), 0.0),
    "a Laplace prior": (
        lambda w, row: -jnp.sum((w - jnp.array([2.0, 0.01])) ** 2) / 120,
        lambda w: -jnp.sum(jnp.abs(w)) / 2,
        [1.5, 0.0],
    ),
    "a jump": (none, lambda w: -0.5 * w @ w - 5 * jnp.sum(jnp.where(w > 0.5, 0.0, 1.0)), 0.5),
}


@pytest.mark.full
@pytest.mark.parametrize("name", KINKS)
def test_a_kink_is_no_wall_and_no_rounding(name):
    """The density is 0 nowhere, and no number of digits helps."""
    log_likelihood, log_prior, wanted = KINKS[name]
    with pytest.warns(RuntimeWarning, match="it ended at a kink or a jump") as warned:
        found = search(log_likelihood, log_prior, jnp.array([0.7, 0.7]))
    said = str(warned[0].message)
    assert not any(word in said for word in ("density is 0", "bijector", "float64"))
    assert not found.converged
    np.testing.assert_allclose(found.position, wanted, atol=1e-4)


@pytest.mark.usual_parameters("0.0")
@pytest.mark.parametrize("far", [0.0, 300.0, 1e3])
def test_separable_labels_and_a_flat_prior_have_no_mode(far):
    """The potential falls to zero along a ray; so does Newton's distance."""
    model = ewsg.models.logistic_regression(prior_scale=np.inf)
    with pytest.warns(RuntimeWarning, match="found no mode"):
        found = ewsg.find_mode(KEY, model, jnp.array([far, 0.0, 0.0]), LABELS)
    assert not found.converged
    assert found.num_steps < 100


@pytest.mark.full
def test_a_mode_far_down_a_gentle_slope():
    """exp(−w) with a prior so wide that w = 9, where the fall is lost, is far from the mode."""
    found = search(none, lambda w: -jnp.exp(-w[0]) - 5e-17 * w[0] ** 2, jnp.zeros(1))
    assert found.converged
    assert found.position[0] > 25
    assert np.exp(-found.position[0]) < 1e-3 * np.sqrt(1e-16)


def two_wells(w):
    return -5 * (w[0] ** 2 - 1) ** 2 - w[1] ** 2


@pytest.mark.full
def test_a_saddle_is_no_mode():
    """The slope is zero there; L-BFGS took it for a mode."""
    found = search(none, two_wells, jnp.zeros(2))
    assert found.converged
    np.testing.assert_allclose(np.abs(found.position), [1, 0], atol=0.01)
    with pytest.warns(RuntimeWarning, match="more steps"):
        assert not search(none, two_wells, jnp.zeros(2), max_steps=1).converged


@pytest.mark.full
@pytest.mark.parametrize("far", [1e2, 1e10, 1e37])
def test_a_start_far_away_in_float32(far):
    model = ewsg.models.logistic_regression()
    found = ewsg.find_mode(KEY, model, jnp.full(3, far, jnp.float32), LABELS)
    assert found.converged
    assert found.num_steps < 30
    assert (
        newton.mode(newton.logistic, X.astype(np.float32), LABELS["y"], 1.0).away(found.position)
        < 0.01
    )


@pytest.mark.full
def test_the_mode_as_the_start(x64):
    """There is no step to make, and none whose slope could be looked at but for rounding."""
    first = search(squares, normal, jnp.zeros(3))
    again = search(squares, normal, first.position)
    assert again.converged
    assert again.num_steps == 0
    assert search(none, normal, jnp.zeros(3)).converged


@pytest.mark.full
def test_a_model_that_takes_float32_alone():
    """A scan whose carry is declared float32 cannot be traced in float64."""

    def log_likelihood(w, row):
        residuals = (row["y"] - row["x"] @ w)[None]
        return jax.lax.scan(
            lambda c, r: (c - 0.5 * r.astype(jnp.float32) ** 2, None), jnp.float32(0), residuals
        )[0]

    found = search(log_likelihood, normal, jnp.zeros(3))
    assert found.converged
    assert newton.mode(newton.linear, X, Y, 1.0).away(found.position) < 0.01


@pytest.mark.full
def test_bfloat16_positions():
    found = search(squares, normal, jnp.zeros(3, jnp.bfloat16), tolerance=0.5)
    assert found.position.dtype == jnp.bfloat16
    true = newton.mode(newton.linear, X, Y, 1.0).away(found.position)
    assert found.distance == pytest.approx(true, rel=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("d", [300, 1100])
def test_many_coordinates(d):
    """First L-BFGS; judged by the whole Hessian, above 1,000 coordinates by products."""
    x = (RNG.normal(size=(120, d)) * 10 ** RNG.uniform(-1, 1, size=d)).astype(np.float32)
    rows = {"x": x, "y": (RNG.random(120) < 0.5).astype(np.float32)}
    found = ewsg.find_mode(KEY, ewsg.models.logistic_regression(), jnp.zeros(d), rows)
    x, w = x.astype(np.float64), np.asarray(found.position, np.float64)
    _, slope, curvature = newton.logistic(x @ w, rows["y"].astype(np.float64))
    gradient = slope @ x + w
    true = np.sqrt(gradient @ np.linalg.solve((x * curvature[:, None]).T @ x + np.eye(d), gradient))
    assert found.converged
    assert true <= 1.01 * found.distance <= 0.0101
    assert isinstance(found.curvature, CurvatureOfMany) == (d > 1000)


@pytest.mark.full
@pytest.mark.parametrize("d", [pytest.param(40, marks=pytest.mark.sweep), 1100])
def test_a_saddle_of_many_coordinates(d):
    """The slope says nothing of the ridge: L-BFGS stays on it."""
    units = jnp.geomspace(0.1, 10, d)

    def log_prior(w):
        return two_wells(w[:2]) - jnp.sum((w[2:] * units[2:] - 1) ** 2)

    found = search(none, log_prior, jnp.zeros(d))
    assert found.converged
    expected = 1 / np.asarray(units)
    expected[:2] = 1, 0
    np.testing.assert_allclose(np.abs(found.position), expected, atol=0.02)


@pytest.mark.full
def test_products_tell_the_distance_and_its_error(monkeypatch):
    """By conjugate gradients as by the matrix; where cut short, what is open is added."""
    root = np.random.default_rng(1).normal(size=(30, 30))
    hessian, point = root @ root.T + 0.1 * np.eye(30), np.random.default_rng(2).normal(size=30)
    posterior = ewsg.Posterior(none, lambda w: -0.5 * w @ hessian @ w)
    data = jax.tree.map(jnp.asarray, ROWS)
    true = np.sqrt(point @ hessian @ point)

    def step(chunk_size):
        potential = HostPotential(posterior, jnp.zeros(30), data, chunk_size, lazy=True)
        here = potential.at(point)
        found = hessian_products.HessianProducts(
            potential, 1 / np.sqrt(np.diag(hessian)), here
        ).step(here.gradient, 1e-9)
        return found, np.sqrt(-here.gradient @ found.direction)

    found, _ = step(60)
    assert found.distance == pytest.approx(true, rel=1e-3)
    np.testing.assert_allclose(found.direction, -point, atol=0.05)
    monkeypatch.setattr(settings, "SOLUTION_RESIDUAL", 0.05)
    found, without = step(61)  # another program
    assert without < 0.997 * true < true < found.distance


@pytest.mark.full
def test_a_search_that_ends_far_from_a_mode_names_what_ran_away():
    """Log σ with the wrong sign grows until a square overflows."""

    def log_likelihood(p, row):
        return -0.5 * ((row["y"] - row["x"] @ p["w"]) / jnp.exp(p["log_sd"])) ** 2 + p["log_sd"]

    posterior = ewsg.Posterior(
        log_likelihood, lambda p: normal(p["w"]) - 0.5 * p["log_sd"] ** 2 / 1e4
    )
    with pytest.warns(RuntimeWarning, match=r"log_sd went farthest, from 0 to .*sign of one of"):
        ewsg.find_mode(KEY, posterior, {"w": jnp.zeros(3), "log_sd": jnp.array(0.0)}, ROWS)
