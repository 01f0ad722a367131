"""Chains of FlyMC stay in the law that it targets, say what they did, and hold nothing as long as
the data.

z-tests over many chains that start at draws of the law, with fixed seeds, each at a level of 2e-8.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.chains import run
from tests.metropolis import laws
from tests.oracles import flymc

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("optimised")]

PRIOR_SCALE = 2.0
POSTERIOR = ewsg.models.logistic_regression(prior_scale=PRIOR_SCALE)
ROWS = 40
X = np.random.default_rng(3).normal(size=(ROWS, 2)) * 2
Y = (np.random.default_rng(4).uniform(size=ROWS) < 1 / (1 + np.exp(-X @ [1.0, -0.5]))).astype(float)
DATA = {"x": jnp.asarray(X, jnp.float32), "y": jnp.asarray(Y, jnp.float32)}
CENTER = np.array([0.6, -0.4])
CENTER_32 = jnp.asarray(CENTER, jnp.float32)
MODEL = flymc.logistic_regression(X, Y)


def log_posterior(theta):
    return -0.5 * np.sum(theta**2) / PRIOR_SCALE**2 + MODEL[0](theta).sum()


@pytest.mark.parametrize("temperature", [1.0, pytest.param(1.7, marks=pytest.mark.sweep)])
def test_it_stays_in_the_posterior(temperature):
    """From a grid's draws, through `sample`, against quadrature; a run reports what steps did."""
    law = laws.draws_and_moments(
        lambda theta: log_posterior(theta) / temperature, 2, num_chains=6_000, seed=5
    )
    kernel = ewsg.flymc(
        POSTERIOR,
        0.3,
        capacity=ROWS,
        resample_probability=0.2,
        center=CENTER_32,
        temperature=temperature,
    )
    starts = jnp.asarray(law[0], jnp.float32)
    samples = ewsg.sample(jax.random.key(6), kernel, starts, DATA, 30, burn_in=29, stacked=True)
    laws.assert_moments(samples.position[:, 0], *law[1:])
    # Given a position of its own law, the number of bright data has a known mean and variance.
    bright = np.sum(np.asarray(samples.state.dynamics.bright.rows) >= 0, axis=1)
    odds = np.array(
        [flymc.odds(MODEL, theta, CENTER, temperature) for theta in samples.position[:, 0]]
    )
    p = odds / (1 + odds)
    z = np.sum(bright - p.sum(axis=1)) / np.sqrt(np.sum(p * (1 - p)))
    assert abs(z) < laws.Z, f"{bright.mean()} bright data, {p.sum(axis=1).mean()} expected, z = {z}"
    assert 0.3 < samples.acceptance.mean() < 0.99
    np.testing.assert_array_equal(samples.overflow, 0)
    assert samples.state.memory.center.shape == (2,), "chains share the centre"
    assert 2 * ROWS < samples.data_passes * ROWS < 2 * ROWS + 30 * ROWS * 0.6


@pytest.mark.parametrize(
    ("capacity", "room"),
    [
        pytest.param(2, 12, marks=pytest.mark.sweep),
        pytest.param(40, 7, marks=pytest.mark.sweep),
        (2, 7),
    ],
)
def test_where_sets_do_not_fit_the_law_is_that_of_those_that_do(capacity, room):
    """θ has density ∝ exp(−V) P(at most `capacity` bright | θ), for any number of proposals."""

    def log_density(theta):
        odds = flymc.odds(MODEL, theta, CENTER)
        return log_posterior(theta) + np.log(
            max(flymc.at_most(odds / (1 + odds), capacity), 1e-300)
        )

    starts, *unrestricted = laws.draws_and_moments(log_posterior, 2, num_chains=8_000, seed=7)
    kernel = ewsg.flymc(
        POSTERIOR,
        0.3,
        capacity=capacity,
        resample_probability=0.2,
        proposal_capacity=room,
        center=CENTER_32,
    )
    keys = jax.random.split(jax.random.key(8), len(starts))
    states = jax.jit(jax.vmap(kernel.init, (0, 0, None)))(
        keys, jnp.asarray(starts, jnp.float32), DATA
    )
    # Draws of the posterior whose bright sets fit are draws of the joint law given that they do.
    fits = ~np.asarray(states.dynamics.overflow)
    states = jax.tree.map(lambda x: x[fits], states)
    mean, covariance = laws.law_of(log_density, 2)[3:]

    states, overflow = run(kernel, states, DATA, 20, keys[fits], lambda states, info: info.overflow)
    assert 0.02 < overflow.mean() < 0.9
    laws.assert_moments(states.position, mean, covariance)
    if capacity < ROWS:
        # The restricted law is another one, and the test would see the difference.
        with pytest.raises(AssertionError, match=r"covariance|mean"):
            laws.assert_moments(states.position, *unrestricted)


@pytest.mark.sweep
def test_flymc_agrees_with_metropolis():
    """Two ways to one posterior from the mode, in 3 dimensions: means, variances between chains."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=(100, 3))
    y = (rng.uniform(size=100) < 1 / (1 + np.exp(-x @ [1.0, 0.5, -1.0]))).astype(float)
    data = {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.float32)}
    mode = np.zeros(3)
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ mode))
        curvature = x.T @ (x * (p * (1 - p))[:, None]) + np.eye(3) / PRIOR_SCALE**2
        mode += np.linalg.solve(curvature, x.T @ (y - p) - mode / PRIOR_SCALE**2)
    mode = jnp.asarray(mode, jnp.float32)
    runs = [
        ewsg.sample(
            jax.random.key(seed),
            kernel,
            mode,
            data,
            300,
            num_chains=400,
            burn_in=100,
            thin=4,
        )
        for seed, kernel in enumerate(
            (
                ewsg.random_walk_metropolis(POSTERIOR, 0.35),
                ewsg.flymc(POSTERIOR, 0.25, capacity=60, resample_probability=0.1),
            )
        )
    ]
    np.testing.assert_array_equal(runs[1].overflow, 0)
    center = runs[0].position.mean(axis=(0, 1))
    for power in (1, 2):
        ours, other = (np.mean((run.position - center) ** power, axis=1) for run in runs)
        error = np.sqrt((ours.var(axis=0) + other.var(axis=0)) / len(ours))
        z = (ours.mean(axis=0) - other.mean(axis=0)) / error
        assert np.abs(z).max() < laws.Z, (power, z)
    assert runs[1].data_passes < 0.5 * runs[0].data_passes
    assert runs[0].data_passes == 301


def test_a_start_that_does_not_fit_is_told():
    far = jnp.array([4.0, 4.0])
    # So few are selected that no later step has too many.
    kernel = ewsg.flymc(POSTERIOR, 0.01, capacity=3, center=CENTER_32, resample_probability=1e-4)
    state = jax.jit(kernel.init)(jax.random.key(0), far, DATA)
    assert bool(state.dynamics.overflow)
    rows = np.asarray(state.dynamics.bright.rows)
    assert (rows >= 0).all()
    with pytest.warns(RuntimeWarning, match=r"3 of 3 chains had more bright .* in up to 1 steps"):
        samples = ewsg.sample(jax.random.key(0), kernel, far, DATA, 3, num_chains=3)
    np.testing.assert_array_equal(samples.overflow, 1)
    assert any(
        "a bounded set could not hold" in note for note in ewsg.diagnostics.summary(samples).notes
    )
    assert not np.asarray(samples.state.dynamics.overflow).any(), "told once"


@pytest.mark.parametrize(
    ("chunk_size", "temperature"),
    [(4096, 1.0), (7, 1.0), (4096, 0.6)],
    ids=["4096", "7", "another temperature"],
)
def test_the_start_is_drawn_from_its_law(chunk_size, temperature):
    """Each datum bright with probability 1 − (B/L)^(1/T), in any chunks; gaps of its position."""
    theta = np.array([-0.3, 0.5])
    kernel = ewsg.flymc(
        POSTERIOR,
        0.1,
        capacity=ROWS,
        center=CENTER_32,
        chunk_size=chunk_size,
        temperature=temperature,
    )
    keys = jax.random.split(jax.random.key(1), 20_000)
    init = jax.jit(
        jax.vmap(lambda key: kernel.init(key, jnp.asarray(theta, jnp.float32), DATA).dynamics)
    )
    bright = init(keys).bright
    rows = np.asarray(bright.rows)
    found = np.stack([(rows == i).any(axis=1) for i in range(ROWS)], axis=1)
    odds = flymc.odds(MODEL, theta, CENTER, temperature)
    p = odds / (1 + odds)
    often = p * len(keys) > 100
    assert often.sum() > 10
    standard = ((found - p) / np.sqrt(p * (1 - p)))[:, often]
    z = standard.mean(axis=0) * np.sqrt(len(keys))
    assert np.abs(z).max() < laws.Z
    products = standard.T @ standard / len(keys)
    assert np.abs(products - np.diag(np.diag(products))).max() < laws.Z / np.sqrt(len(keys))
    assert found[:, ~often].mean() < 100 / len(keys)
    used = rows >= 0
    np.testing.assert_allclose(
        np.asarray(bright.gaps)[used],
        temperature * np.log1p(odds)[rows[used]],
        rtol=1e-4,
        atol=1e-6,
    )
    np.testing.assert_array_equal(np.asarray(bright.gaps)[~used], 0)


def test_a_step_holds_nothing_as_long_as_the_data():
    """The compiled step has no temporary that grows with n; it moves arrays of fixed length."""

    kernel = ewsg.flymc(
        POSTERIOR, 0.1, capacity=50, resample_probability=1e-3, proposal_capacity=90
    )

    def bytes_of(n):
        data = {
            "x": jax.ShapeDtypeStruct((n, 8), jnp.float32),
            "y": jax.ShapeDtypeStruct((n,), jnp.float32),
        }
        state = jax.eval_shape(
            kernel.init, jax.random.key(0), jax.ShapeDtypeStruct((8,), jnp.float32), data
        )
        assert max(x.size for x in jax.tree.leaves(state)) <= 64
        analysis = (
            jax.jit(kernel.step).lower(jax.random.key(1), state, data).compile().memory_analysis()
        )
        assert analysis is not None
        return analysis.temp_size_in_bytes

    assert bytes_of(400_000) <= bytes_of(10_000) + 1024
    assert bytes_of(400_000) < 4 * 10_000


def test_gathering_ahead_changes_nothing(x64):
    data = jax.tree.map(lambda x: x.astype(float), DATA)
    kernel = ewsg.flymc(POSTERIOR, 0.3, capacity=ROWS, resample_probability=0.3, center=CENTER)

    @jax.jit
    def both(key, data):
        state = kernel.init(key, jnp.array([0.2, 0.1]), data)
        randomness = kernel.draw(key, state, data)
        ahead = kernel.transition(kernel.fetch(randomness, data), state, data)
        return ahead, kernel.transition(randomness, state, data)

    ahead, there = both(jax.random.key(1), data)
    for a, b in zip(jax.tree.leaves(ahead), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
