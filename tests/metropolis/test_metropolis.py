"""Random-walk Metropolis accepts what NumPy says, keeps its law, and reports what it did."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import Randomness
from ewsg_jax.metropolis.random_walk_metropolis import RandomWalkNoise
from tests.metropolis import laws
from tests.oracles import flymc

RNG = np.random.default_rng(1)
X = RNG.normal(size=(12, 2))
Y = (RNG.uniform(size=12) < 0.5).astype(float)
DATA = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}
PRIOR_SCALE = 1.5
LOG_LIKELIHOODS, _ = flymc.logistic_regression(X, Y)


def potential(theta):
    return 0.5 * np.sum(np.square(theta)) / PRIOR_SCALE**2 - LOG_LIKELIHOODS(theta).sum()


def decided(kernel, theta, direction, log_uniform, data):
    """One step from θ with chosen randomness."""
    start = kernel.init(jax.random.key(0), jnp.asarray(theta), data)
    noise = RandomWalkNoise(jnp.asarray(direction), jnp.asarray(log_uniform))
    return kernel.transition(Randomness((), noise), start, data)


@pytest.mark.usual_parameters("4096-1.0", "5-1.0")
@pytest.mark.parametrize("temperature", [1.0, 0.4, 3.0])
@pytest.mark.parametrize("chunk_size", [4096, 5])
def test_the_acceptance_is_the_ratio_of_densities(x64, temperature, chunk_size):
    """Proposals with the uniform number on either side of exp((V − V*)/T); V is kept."""
    model = ewsg.models.logistic_regression(prior_scale=PRIOR_SCALE)
    data = jax.tree.map(jnp.asarray, {"x": X, "y": Y})
    h = 0.7
    kernel = ewsg.random_walk_metropolis(model, h, temperature=temperature, chunk_size=chunk_size)
    step = jax.jit(lambda *at: decided(kernel, *at, data))
    rng = np.random.default_rng(0)
    ups = 0
    for _ in range(40):
        theta, direction = rng.normal(size=2), rng.normal(size=2)
        log_ratio = (potential(theta) - potential(theta + h * direction)) / temperature
        ups += log_ratio > 0
        for side in (-1, 1):
            state, info = step(theta, direction, log_ratio + side * 1e-9)
            expected = theta + h * direction if side < 0 else theta
            np.testing.assert_allclose(state.position, expected, rtol=1e-14)
            np.testing.assert_allclose(state.dynamics.potential, potential(expected), rtol=1e-12)
            assert float(info.acceptance) == (side < 0)
            assert int(info.gradient_evaluations) == len(X)
            assert not info.overflow
            assert int(state.step) == 1
    assert 5 < ups < 35


def test_the_law_is_invariant_on_a_lattice(x64):
    """The exact matrix of a walk between neighbours: π P = π and detailed balance, to 1e-12."""
    model, h = ewsg.models.logistic_regression(prior_scale=PRIOR_SCALE), 0.8
    kernel = ewsg.random_walk_metropolis(model, h)
    data = jax.tree.map(jnp.asarray, {"x": X[:, :1], "y": Y})
    lattice = -2.0 + h * np.arange(7)
    log_likelihoods, _ = flymc.logistic_regression(X[:, :1], Y)
    v = np.array(
        [t**2 / (2 * PRIOR_SCALE**2) - log_likelihoods(np.array([t])).sum() for t in lattice]
    )
    step = jax.jit(lambda *at: decided(kernel, *at, data)[0].position[0])
    matrix = np.zeros((7, 7))
    for j, d in itertools.product(range(7), (-1, 1)):
        if not 0 <= j + d < 7:
            continue
        accept = min(1, np.exp(v[j] - v[j + d]))
        for log_uniform, p in (
            (np.log(accept) - 1e-9, accept),
            (np.log(accept) + 1e-9, 1 - accept),
        ):
            if p > 0:
                end = float(step(lattice[[j]], np.array([float(d)]), log_uniform))
                matrix[j, int(np.rint((end - lattice[0]) / h))] += p / 2
    flow = np.exp(-v)[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, rtol=1e-12)
    assert matrix[3].sum() == pytest.approx(1, abs=1e-15)


def test_where_the_density_is_0_or_no_number(x64):
    """Nothing goes there."""
    for outside in (-jnp.inf, jnp.nan):
        support = ewsg.Posterior(
            lambda p, x: -0.5 * jnp.sum((x - p) ** 2),
            lambda p, outside=outside: jnp.where(jnp.all(p > 0), 0.0, outside),
        )
        kernel = ewsg.random_walk_metropolis(support, 1.0)
        data = jnp.ones((3, 1))
        state, info = decided(kernel, np.array([0.5]), np.array([-1.0]), -1e9, data)
        assert float(state.position[0]) == 0.5
        assert float(info.acceptance) == 0
        assert bool(info.is_finite)


def test_a_run_reports_its_acceptance_and_its_cost():
    kernel = ewsg.random_walk_metropolis(
        ewsg.models.logistic_regression(), lambda step: 1.0 / (1 + step)
    )
    samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), DATA, 50, num_chains=4)
    moved = np.any(np.diff(samples.position, axis=1, prepend=np.zeros((4, 1, 2))) != 0, axis=2)
    np.testing.assert_allclose(samples.acceptance, moved.mean(axis=1), rtol=1e-6)
    assert 0.05 < samples.acceptance.mean() < 0.98
    np.testing.assert_array_equal(samples.overflow, 0)
    assert samples.gradient_evaluations == 4 * 12 * 51
    assert samples.evaluations.tolist() == [12 * (1 + t) for t in range(1, 51)]
    np.testing.assert_allclose(samples.step_size, 1 / samples.step, rtol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("temperature", [1.0, pytest.param(2.0, marks=pytest.mark.sweep)])
def test_it_stays_in_the_posterior(temperature):
    """From draws of a grid, through `sample`, against quadrature."""
    log_density = lambda theta: -potential(theta) / temperature
    starts, mean, covariance = laws.draws_and_moments(log_density, 2, num_chains=6_000, seed=2)
    kernel = ewsg.random_walk_metropolis(
        ewsg.models.logistic_regression(prior_scale=PRIOR_SCALE), 0.8, temperature=temperature
    )
    samples = ewsg.sample(
        jax.random.key(3),
        kernel,
        jnp.asarray(starts, jnp.float32),
        {"x": jnp.asarray(X, jnp.float32), "y": jnp.asarray(Y, jnp.float32)},
        25,
        burn_in=24,
        stacked=True,
    )
    laws.assert_moments(samples.position[:, 0], mean, covariance)
