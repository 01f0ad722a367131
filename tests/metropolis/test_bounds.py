"""Bounds are bounds, tight at the centre, and their closed-form sums are sums over rows.

Against the published formulas typed in NumPy (tests/oracles/flymc.py), over random data, centres
and positions.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.bounds._remainders import exponential
from tests.oracles import flymc

N, D, K = 40, 3, 4
NAMES = ["logistic_regression", "softmax_regression", "normal"]
DISTANCES = [1e-3, 0.1, 1.0, 10.0]
SEEDS = range(5)


@functools.cache
def compiled(name):
    """The gaps and the total of a model's bound, compiled once for each dtype."""
    bound = getattr(ewsg.models, name)().bound

    def total(position, center, rows, chunk_size):
        return bound.total(position, center, bound.summarize(center, rows, chunk_size))

    return bound, jax.jit(bound.gaps), jax.jit(total, static_argnums=3)


class Problem:
    """A model with its bound, data, and what NumPy makes of them."""

    def __init__(self, name, seed):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(N, D)) * rng.choice([0.1, 1, 3])
        self.bound, self._gaps, self._total = compiled(name)
        if name == "logistic_regression":
            y = rng.integers(0, 2, N)
            self.shape = (D,)
            self.rows = {"x": x, "y": y}
            self.oracle = flymc.logistic_regression(x, y)
        elif name == "softmax_regression":
            y = rng.integers(0, K, N)
            self.shape = (D, K)
            self.rows = {"x": x, "y": y}
            self.oracle = flymc.softmax_regression(x, y)
        else:
            x = np.exp(rng.normal(size=N))
            self.shape, self.rows, self.oracle = (2,), x, flymc.normal(x)
        self.center = rng.normal(size=self.shape) * rng.choice([0.0, 0.3, 1])
        self.direction = rng.normal(size=self.shape)
        if name == "normal":
            # The bound is another one where the scale shrinks.
            self.direction[1] = abs(self.direction[1]) * (-1) ** seed

    def at(self, distance):
        return self.center + distance * self.direction

    def gaps(self, position, dtype):
        found = self._gaps(position.astype(dtype), self.center.astype(dtype), self.rows_in(dtype))
        assert found.dtype == dtype
        return np.asarray(found, float)

    def total(self, position, dtype, chunk_size=N):
        return float(
            self._total(
                position.astype(dtype), self.center.astype(dtype), self.rows_in(dtype), chunk_size
            )
        )

    def rows_in(self, dtype):
        return jax.tree.map(lambda x: x if x.dtype == int else x.astype(dtype), self.rows)


def far(name, distance):
    """Whether σ moves by more than a factor: the normal model's scales then have no own size."""
    return name == "normal" and distance > 1


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("name", NAMES)
def test_gaps_are_the_published_ones_and_never_negative(x64, name, distance):
    for seed in SEEDS:
        problem = Problem(name, seed)
        theta = problem.at(distance if not far(name, distance) else 2.0)
        found = problem.gaps(theta, np.float64)
        assert found.min() >= 0
        log_likelihoods, log_bounds = problem.oracle
        expected = log_likelihoods(theta) - log_bounds(theta, problem.center)
        scale = 1e-13 * (1 + np.abs(log_likelihoods(theta)).max() + np.abs(expected).max())
        if name == "normal":
            # The oracle is the Taylor polynomial: what the bound takes from it is at least what it
            # lacks.
            remainder = found - expected
            assert remainder.min() >= -scale
            np.testing.assert_allclose(
                remainder, published_remainder(problem, theta), rtol=1e-9, atol=scale
            )
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=scale)


def published_remainder(problem, theta):
    """R as the bound's docstring has it, by quadrature over the segment, not its closed form."""
    (a, b) = theta - problem.center
    w = np.exp(-2 * problem.center[1])
    r = problem.rows - problem.center[0]
    t, weights = np.polynomial.legendre.leggauss(8)
    t, weights = (t + 1) / 2, weights / 2
    if b >= 0:
        return np.full(N, np.sum(weights * (1 - t) ** 2 / 2) * 3 * w * a * a * b)
    squares = (1 - t)[:, None] * r**2 + t[:, None] * (r - a) ** 2
    third = w * np.exp(-2 * b) * -b * (12 * a * a + 10 * b * b * squares)
    return (weights * (1 - t) ** 2 / 2) @ third


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("name", NAMES)
def test_in_float32_a_gap_keeps_the_digits_of_a_small_difference(x64, name, distance):
    """The error is the quadratic part's, not the log likelihood's; a negative gap is as small."""
    for seed in SEEDS:
        problem = Problem(name, seed)
        theta = problem.at(distance if not far(name, distance) else 2.0)
        # The same numbers in both, so that nothing is left but rounding in the bound itself.
        problem.center = problem.center.astype(np.float32).astype(float)
        theta = theta.astype(np.float32).astype(float)
        problem.rows = jax.tree.map(
            lambda x: x if x.dtype == int else x.astype(np.float32).astype(float), problem.rows
        )
        exact, found = problem.gaps(theta, np.float64), problem.gaps(theta, np.float32)
        if name == "normal":
            # Of third order; its parts are of like size.
            scale = np.maximum(
                exact, np.max(np.abs(theta - problem.center)) ** 3 * (1 + problem.rows**2)
            )
        else:
            x = problem.rows["x"]
            scale = np.sum(np.square(x @ (theta - problem.center)).reshape(N, -1), axis=1)
        assert np.all(np.abs(found - exact) <= 5e-6 * scale + 1e-30)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk_size", [N, 7])
def test_the_closed_form_is_the_sum_over_rows(x64, name, chunk_size):
    for seed in SEEDS:
        problem = Problem(name, seed)
        log_likelihoods, _ = problem.oracle
        for distance in (1e-2, 0.5, 2.0):
            theta = problem.at(distance)
            log_bounds = log_likelihoods(theta) - problem.gaps(theta, np.float64)
            expected = np.sum(log_bounds) - np.sum(log_likelihoods(problem.center))
            size = np.abs(log_bounds).sum() + np.abs(log_likelihoods(problem.center)).sum()
            np.testing.assert_allclose(
                problem.total(theta, np.float64, chunk_size),
                expected,
                rtol=1e-11,
                atol=1e-13 * size,
            )
            in_single = problem.total(theta, np.float32, chunk_size)
            assert (
                abs(in_single - expected)
                <= 2e-5 * np.abs(log_bounds - log_likelihoods(problem.center)).sum()
            )


@pytest.mark.parametrize("name", NAMES)
def test_tight_at_the_centre_with_the_same_gradient(x64, name):
    bound = compiled(name)[0]
    slopes_of_gaps = jax.jit(jax.jacfwd(bound.gaps))
    slope_of_total = jax.jit(
        jax.grad(lambda p, c, rows: bound.total(p, c, bound.summarize(c, rows, N)))
    )
    for seed in SEEDS:
        problem = Problem(name, seed)
        center, rows = jnp.asarray(problem.center), jax.tree.map(jnp.asarray, problem.rows)
        np.testing.assert_array_equal(problem.gaps(problem.center, np.float64), 0)
        np.testing.assert_allclose(slopes_of_gaps(center, center, rows), 0, atol=1e-14)
        assert problem.total(problem.center, np.float64) == 0
        slope = slope_of_total(center, center, rows)
        log_likelihoods, _ = problem.oracle
        step = 1e-5
        for place in np.ndindex(problem.shape):
            moved = np.zeros(problem.shape)
            moved[place] = step
            ahead, behind = (np.sum(log_likelihoods(problem.center + s * moved)) for s in (1, -1))
            np.testing.assert_allclose(
                slope[place], (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-5
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES[:2])
def test_extreme_predictors_give_no_nan(name, dtype, request):
    if dtype == np.float64:
        request.getfixturevalue("x64")
    problem = Problem(name, 1)
    for center in (0.0, 300.0, -300.0):
        for distance in (0.0, 1e-20, 1.0, 300.0, -1e4):
            problem.center = np.full(problem.shape, center) * np.sign(problem.direction)
            found = problem.gaps(problem.at(distance), dtype)
            assert np.isfinite(found).all()
            assert found.min() >= -1e-5 * (1 + abs(found).max())


def test_remainders_of_the_exponential(x64):
    """Against 60 terms of the series, added up exactly."""
    for order in (1, 2, 3):
        for x in (1e-8, 0.03, 0.49, 0.51, 0.9, 3.0):
            tail = math.fsum(x**j / math.factorial(j) for j in range(order, 60))
            np.testing.assert_allclose(exponential(jnp.float64(x), order), tail, rtol=1e-14)
            alternating = math.fsum((-x) ** j / math.factorial(j) for j in range(order, 60))
            np.testing.assert_allclose(exponential(jnp.float64(-x), order), alternating, rtol=5e-14)


@pytest.mark.full
def test_a_label_between_0_and_1_is_bounded_too(x64):
    """The gap does not depend on y."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    y = rng.uniform(size=N)
    theta = rng.normal(size=D)
    center = rng.normal(size=D)
    rows = {"x": jnp.asarray(x), "y": jnp.asarray(y)}
    bound = ewsg.bounds.jaakkola_jordan()
    log_likelihood = lambda position: np.sum(y * (x @ position) - np.logaddexp(0, x @ position))
    total = bound.total(
        jnp.asarray(theta), jnp.asarray(center), bound.summarize(jnp.asarray(center), rows, N)
    )
    gap = np.sum(bound.gaps(jnp.asarray(theta), jnp.asarray(center), rows))
    np.testing.assert_allclose(
        total + gap, log_likelihood(theta) - log_likelihood(center), rtol=1e-11
    )
