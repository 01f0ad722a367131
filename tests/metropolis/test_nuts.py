"""NUTS goes where BlackJAX's kernel goes, in every metric, keeps its law, counts gradients."""

import dataclasses
import pickle

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax.dynamics import LowRank
from ewsg_jax.metropolis import energy, nuts
from ewsg_jax.metropolis.nuts import next_step_size
from tests.metropolis import laws
from tests.oracles import flymc

KEY = jax.random.key(0)
RNG = np.random.default_rng(1)
X = RNG.normal(size=(12, 2))
Y = (RNG.uniform(size=12) < 0.5).astype(float)
DATA = {"x": jnp.asarray(X, jnp.float32), "y": jnp.asarray(Y, jnp.float32)}
PRIOR_SCALE = 1.5
LOGISTIC = ewsg.models.logistic_regression(prior_scale=PRIOR_SCALE)
START = {"a": jnp.array([0.3, -0.2]), "b": jnp.float32(0.5)}


def likelihood(position, row):
    """Skewed, of two leaves, through no linear predictor."""
    return row["y"] * (row["x"] @ position["a"] + position["b"]) - jnp.exp(
        row["x"] @ position["a"] / 2 + position["b"]
    )


def prior(position):
    return -0.5 * (jnp.sum(position["a"] ** 2) + position["b"] ** 2)


SKEWED = ewsg.Posterior(likelihood, prior)
BASIS = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 1)))[0]
DENSE = np.array([[0.5, 0.2, 0.0], [0.2, 0.3, -0.1], [0.0, -0.1, 0.2]])
MASSES = {
    "one": 1.0,
    "number": 0.4,
    "diagonal": {"a": np.array([0.5, 0.2]), "b": np.array(0.1)},
    "dense": DENSE,
    "low rank": LowRank(np.array([0.5, 0.2, 0.1]), BASIS, np.array([3.0])),
}


def in_float64():
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float64), (START, DATA))


def theirs(key_words, log_density, position, step_size, inverse_mass, depth):
    """A step of BlackJAX's own kernel, with its own leapfrog and its own sums."""
    state = blackjax.nuts.init(position, log_density)
    key = jax.random.wrap_key_data(key_words, impl="threefry2x32")
    return blackjax.nuts.build_kernel()(key, state, log_density, step_size, inverse_mass, depth)


@pytest.mark.full
@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_step_is_that_of_blackjax_with_a_dense_mass(x64, depth, temperature):
    """The same key leads to the same point, for paths of every length up to 31 steps."""
    start, data = in_float64()
    inverse_mass = jnp.asarray(DENSE)
    density = lambda p: -SKEWED.potential(p, data) / temperature
    kernel = ewsg.nuts(
        SKEWED, 0.35, inverse_mass=DENSE, max_depth=depth, temperature=temperature, chunk_size=5
    )
    step = jax.jit(lambda words, state: kernel.transition(ewsg.Randomness((), words), state, data))
    other = jax.jit(lambda words, p: theirs(words, density, p, 0.35, inverse_mass, depth))
    state, lengths = kernel.init(KEY, start, data), set()
    for words in np.random.default_rng(1).integers(0, 2**32, size=(20, 2), dtype=np.uint32):
        expected, path = other(words, state.position)
        state, info = step(words, state)
        for name, leaf in state.position.items():
            np.testing.assert_allclose(leaf, expected.position[name], rtol=1e-9, atol=1e-11)
        gradient = jax.tree.map(lambda g: -temperature * g, expected.logdensity_grad)
        np.testing.assert_allclose(
            *(ravel_pytree(g)[0] for g in (state.dynamics.gradient, gradient)), atol=1e-8
        )
        np.testing.assert_allclose(info.acceptance, path.acceptance_rate, rtol=1e-6)
        assert int(info.gradient_evaluations) == len(Y) * int(path.num_integration_steps)
        lengths.add(int(path.num_integration_steps))
    assert max(lengths) == 2**depth - 1 if depth < 5 else max(lengths) > 7


@pytest.mark.full
@pytest.mark.parametrize("mass", MASSES)
def test_any_inverse_mass_is_a_change_of_coordinates(x64, mass):
    """BlackJAX with the mass 1 on the density of y, where θ = L y."""
    start, data = in_float64()
    kernel = ewsg.nuts(SKEWED, 0.5, inverse_mass=MASSES[mass])
    factor = kernel.mass.factor
    step = jax.jit(lambda words, state: kernel.transition(ewsg.Randomness((), words), state, data))
    density = lambda y: -SKEWED.potential(factor.times(y), data)
    other = jax.jit(lambda words, y: theirs(words, density, y, 0.5, jnp.ones(3), 10))
    state = kernel.init(KEY, start, data)
    for words in np.random.default_rng(3).integers(0, 2**32, size=(12, 2), dtype=np.uint32):
        expected, path = other(words, factor.solved(state.position))
        state, info = step(words, state)
        ours = ravel_pytree(state.position)[0]
        there = ravel_pytree(factor.times(expected.position))[0]
        np.testing.assert_allclose(ours, there, rtol=1e-9, atol=1e-11)
        assert int(info.gradient_evaluations) == len(Y) * int(path.num_integration_steps)


def logistic_potential(theta):
    return (
        0.5 * np.sum(np.square(theta)) / PRIOR_SCALE**2
        - flymc.logistic_regression(X, Y)[0](theta).sum()
    )


@pytest.mark.parametrize("temperature", [1.0, pytest.param(2.0, marks=pytest.mark.full)])
def test_it_stays_in_the_posterior(temperature):
    """From a grid's draws, steps as long as may be, in a metric that is not the posterior's."""
    starts, mean, covariance = laws.draws_and_moments(
        lambda theta: -logistic_potential(theta) / temperature, 2, num_chains=4_000, seed=2
    )
    mass = np.array([[0.5, 0.3], [0.3, 0.6]])
    kernel = ewsg.nuts(LOGISTIC, 1.1, inverse_mass=mass, max_depth=4, temperature=temperature)
    samples = ewsg.sample(
        KEY,
        kernel,
        jnp.asarray(starts, jnp.float32),
        DATA,
        4,
        burn_in=3,
        stacked=True,
    )
    assert 0.5 < samples.acceptance.mean() < 0.97
    laws.assert_moments(samples.position[:, 0], mean, covariance)


@pytest.mark.full
def test_every_gradient_is_counted(monkeypatch):
    """By a potential that reports evaluations; most paths end before their last doubling."""
    seen = []
    real = nuts.potential_and_gradient

    def watched(*arguments):
        jax.debug.callback(lambda: seen.append(1))
        return real(*arguments)

    monkeypatch.setattr(nuts, "potential_and_gradient", watched)
    kernel = ewsg.nuts(LOGISTIC, 0.25)
    state = kernel.init(KEY, jnp.array([0.1, 0.2]), DATA)
    jax.effects_barrier()
    assert len(seen) == 1
    assert kernel.evaluations(DATA).at_init == len(Y)
    step = jax.jit(kernel.step)
    told = set()
    for key in jax.random.split(jax.random.key(5), 12):
        before = len(seen)
        state, info = step(key, state, DATA)
        jax.effects_barrier()
        assert int(info.gradient_evaluations) == len(Y) * (len(seen) - before)
        told.add(len(seen) - before)
    assert len(told) > 2
    assert kernel.evaluations(DATA).counted
    assert max(told) <= kernel.evaluations(DATA).per_step / len(Y) == 1023


@pytest.mark.full
def test_a_run_counts_beyond_32_bits(monkeypatch):
    """By rows of which 2²⁸ are said to be there."""
    kernel = ewsg.nuts(LOGISTIC, 0.5, max_depth=2)
    few = ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 300, num_chains=2)
    monkeypatch.setattr(nuts, "num_rows", lambda data: 2**28)
    jax.clear_caches()
    many = ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 300, num_chains=2)
    jax.clear_caches()
    assert few.gradient_evaluations % len(Y) == 0
    assert many.gradient_evaluations == few.gradient_evaluations // len(Y) * 2**28 > 2**33


@pytest.mark.full
def test_one_chain_whichever_way_it_is_run(tmp_path):
    """A loop, a scan, chains side by side or one after the other, resumed, saved and loaded."""
    kernel, start = ewsg.nuts(LOGISTIC, 0.5, inverse_mass=0.3, max_depth=6), jnp.array([0.1, -0.3])
    keys = jax.random.split(jax.random.key(7), 6)
    step = jax.jit(kernel.step)
    state, looped = kernel.init(KEY, start, DATA), []
    for key in keys:
        state, _ = step(key, state, DATA)
        looped.append(state.position)
    advance = lambda state, key: (lambda new: (new[0], new[0].position))(
        kernel.step(key, state, DATA)
    )
    scanned = jax.jit(lambda state: jax.lax.scan(advance, state, keys)[1])(
        kernel.init(KEY, start, DATA)
    )
    np.testing.assert_array_equal(np.stack(looped), scanned)

    run = lambda steps, **how: ewsg.sample(KEY, kernel, start, DATA, steps, num_chains=3, **how)
    together = run(20)
    apart = run(20, chain_batch_size=1)
    np.testing.assert_allclose(together.position, apart.position, rtol=2e-5, atol=2e-6)
    assert together.gradient_evaluations == apart.gradient_evaluations
    np.testing.assert_array_equal(run(20).position, together.position)

    whole = run(20, checkpoint=tmp_path / "run")
    resumed = ewsg.resume(tmp_path / "run", DATA, kernel=kernel)
    np.testing.assert_array_equal(whole.position, resumed.position)
    together.save(tmp_path / "saved.npz")
    loaded = ewsg.load(tmp_path / "saved.npz", kernel=kernel, data=DATA)
    np.testing.assert_array_equal(loaded.position, together.position)
    jax.tree.map(np.testing.assert_array_equal, loaded.state, together.state)
    further = ewsg.sample(KEY, kernel, None, DATA, 5, state=together.state)
    assert further.step[0] == 21


@pytest.mark.full
def test_paths_that_fail_leave_the_chain_where_it_is():
    """Steps that are far too long: nothing is accepted, nothing is lost."""
    kernel = ewsg.nuts(LOGISTIC, 1e4, max_depth=3)
    start = kernel.init(KEY, jnp.array([0.1, -0.3]), DATA)
    state, info = kernel.step(KEY, start, DATA)
    np.testing.assert_array_equal(state.position, start.position)
    assert float(info.acceptance) < 1e-6
    assert bool(info.is_finite)
    assert int(info.gradient_evaluations) == len(Y)


@pytest.mark.full
@pytest.mark.parametrize("outside", [-jnp.inf, jnp.nan])
def test_no_path_leads_where_the_density_is_0_or_no_number(outside):
    """A half normal density: its mean is √(2/π) of its scale."""
    half = ewsg.Posterior(
        lambda p, x: -0.5 * jnp.sum((x - p) ** 2), lambda p: jnp.where(jnp.all(p > 0), 0.0, outside)
    )
    kernel = ewsg.nuts(half, 0.3, max_depth=4)
    samples = ewsg.sample(KEY, kernel, jnp.ones(1), jnp.zeros((3, 1)), 4_000, num_chains=8)
    assert (samples.position > 0).all()
    assert 0.05 < samples.acceptance.mean() < 0.95
    np.testing.assert_allclose(samples.mean, np.sqrt(2 / np.pi / 3), rtol=0.04)


def test_a_kernel_is_a_value():
    kernel = ewsg.nuts(
        LOGISTIC, 0.1, inverse_mass=2.0, max_depth=7, temperature=2.0, chunk_size=100
    )
    given = "step_size=0.1, max_depth=7, temperature=2.0, chunk_size=100, inverse_mass=2.0"
    assert repr(kernel) == f"nuts(posterior={LOGISTIC!r}, {given})"
    names = {"nuts": ewsg.nuts, "logistic_regression": ewsg.models.logistic_regression}
    assert eval(repr(kernel), names) == kernel == pickle.loads(pickle.dumps(kernel))
    assert "inverse_mass" not in repr(ewsg.nuts(LOGISTIC, 0.1))
    assert dataclasses.replace(kernel, max_depth=6) != kernel


@pytest.mark.full
def test_kernels_of_a_stack_are_those_alone():
    kernels = [ewsg.nuts(LOGISTIC, h, max_depth=4) for h in (0.2, 0.6)]
    run = lambda kernel: ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 6, num_chains=2)
    stacked = run(ewsg.stack(kernels))
    for i, kernel in enumerate(kernels):
        np.testing.assert_allclose(stacked[i].position, run(kernel).position, rtol=1e-4, atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("model", ["linear", "any"])
def test_differences_of_the_potential_have_the_digits_that_an_acceptance_needs(x64, model):
    """400,000 rows in float32 against float64: to 10⁻⁴, where V itself is rounded to 0.02."""
    n, rng = 400_000, np.random.default_rng(0)
    x, w = rng.normal(size=(n, 3)).astype(np.float32), np.array([0.5, -1.0, 0.2], np.float32)
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-x @ w))).astype(np.float32)
    data, posterior = {"x": jnp.asarray(x), "y": jnp.asarray(y)}, LOGISTIC
    if model == "any":
        posterior = ewsg.Posterior(LOGISTIC.log_likelihood, LOGISTIC.log_prior)
    look = jax.jit(lambda p, data: energy.potential_and_gradient(posterior, p, data, 4096))
    wide = jax.tree.map(lambda a: a.astype(jnp.float64), data)
    at = [w + 0.004 * rng.normal(size=3).astype(np.float32) for _ in range(6)]
    found = [look(jnp.asarray(p), data) for p in at]
    exact = [look(jnp.asarray(p, jnp.float64), wide) for p in at]
    assert found[0][0].value.dtype == jnp.float32
    for (v, g), (v64, g64) in zip(found[1:], exact[1:], strict=True):
        np.testing.assert_allclose(v.above(found[0][0]), v64.above(exact[0][0]), atol=1e-4)
        np.testing.assert_allclose(g, g64, rtol=1e-3, atol=1.0)
    value, error = exact[0][0]
    reference = LOGISTIC.varying.potential(jnp.asarray(at[0], jnp.float64), wide)
    np.testing.assert_allclose(value + error, reference, rtol=1e-12)
    assert abs(float(found[0][0].value) - float(value)) > 1e-3


@pytest.mark.full
def test_a_potential_that_is_raised_often_does_not_drift():
    """10⁵ rises of some 10⁻³ on 3·10⁶, of which float32 alone would keep none."""
    rises = np.random.default_rng(0).normal(3e-3, 1e-3, 100_000).astype(np.float32)
    first = energy.CompensatedPotential(jnp.float32(3e6), jnp.float32(0))
    last, _ = jax.jit(lambda x: jax.lax.scan(lambda v, r: (v.raised(r), None), first, x))(
        jnp.asarray(rises)
    )
    np.testing.assert_allclose(last.above(first), rises.astype(np.float64).sum(), rtol=1e-5)
    assert abs(float(last.error)) <= 0.125


@pytest.mark.parametrize("target", [0.65, 0.8, 0.9])
def test_the_next_step_size(target):
    """At the wanted share nothing changes; shares of 2Φ(−h²) lead to the right one at once."""
    shares = lambda h: 2 * scipy.stats.norm.cdf(-np.square(h))
    wanted = np.sqrt(-scipy.stats.norm.ppf(target / 2))
    for h in (0.8 * wanted, wanted, 1.3 * wanted):
        np.testing.assert_allclose(next_step_size(h, shares(h), target), wanted, rtol=1e-4)
    assert float(next_step_size(0.3, 1.0, target)) == pytest.approx(1.2)
    assert float(next_step_size(0.3, 0.0, target)) < 0.3 / 2
    assert float(next_step_size(0.3, np.nan, target)) == float(next_step_size(0.3, 0.0, target))


@pytest.mark.full
def test_float32_that_does_not_know_the_potential_is_reported():
    """Rows with a V of 10⁶ each, which differ by what a position adds to them."""
    n = 10_000
    far = ewsg.Posterior(lambda p, x: 1e6 - 0.5 * (x - p[0]) ** 2, lambda p: 0.0)
    near = ewsg.Posterior(lambda p, x: -0.5 * (x - p[0]) ** 2, lambda p: 0.0)
    data = jnp.asarray(np.random.default_rng(0).normal(size=n), jnp.float32)
    with pytest.warns(RuntimeWarning, match="float32 knows the potential of these 10,000 rows to"):
        ewsg.nuts(far, 0.01).check(jnp.zeros(1), data)
    ewsg.nuts(near, 0.01).check(jnp.zeros(1), data)
    few = data[: n // 2]
    ewsg.nuts(far, 0.01).check(jnp.zeros(1), few)


@pytest.mark.full
def test_what_float32_does_not_know_is_that_beside_the_temperature():
    """Rows with a V of 3·10⁴ each: differences of V are off by 0.05."""
    posterior = ewsg.Posterior(lambda p, x: 3e4 - 0.5 * (x - p[0]) ** 2, lambda p: 0.0)
    data = jnp.asarray(np.random.default_rng(0).normal(size=10_000), jnp.float32)
    ewsg.nuts(posterior, 0.01).check(jnp.zeros(1), data)
    with pytest.warns(RuntimeWarning, match=r"only at a temperature of 0\.001, so nuts accepts"):
        ewsg.nuts(posterior, 0.01, temperature=1e-3).check(jnp.zeros(1), data)
    far = ewsg.Posterior(lambda p, x: 1e6 - 0.5 * (x - p[0]) ** 2, lambda p: 0.0)
    ewsg.nuts(far, 0.1, temperature=1e4).check(jnp.zeros(1), data)


@pytest.mark.full
def test_a_position_of_float64_does_not_answer_for_one_of_float32(x64):
    posterior = ewsg.Posterior(lambda p, x: 1e6 - 0.5 * (x - p[0]) ** 2, lambda p: 0.0)
    data = jnp.asarray(np.random.default_rng(0).normal(size=10_000), jnp.float32)
    kernel = ewsg.nuts(posterior, 0.01)
    kernel.check(jnp.zeros(1, jnp.float64), data)
    with pytest.warns(RuntimeWarning, match="float32 knows the potential of these 10,000 rows to"):
        kernel.check(jnp.zeros(1, jnp.float32), data)


def test_more_evaluations_than_32_bits_hold_are_refused():
    kernel = ewsg.nuts(ewsg.models.gaussian_location(), 0.01)
    position = jnp.zeros(1)
    many = jax.ShapeDtypeStruct((3_000_000, 1), jnp.float32)
    with pytest.raises(
        ValueError, match=r"max_depth must be at most 9 for n = 3,000,000, .*; got 10"
    ):
        kernel.check(position, many)
    dataclasses.replace(kernel, max_depth=9).check(position, many)
