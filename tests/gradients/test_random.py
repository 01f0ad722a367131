"""Random potentials, whose outcomes are enumerated: the row that a key chooses, or the mask."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import Randomness
from ewsg_jax.gradients._index_chain import ChainDraw
from ewsg_jax.gradients._protocol import no_weight
from ewsg_jax.gradients._random import KeyedDraw
from ewsg_jax.posterior.random import NO_VALUES, key_of
from ewsg_jax.rows import Batch

N = 5
DATA = np.random.default_rng(4).normal(size=(N, 2))
START = np.array([0.3, -0.2])
MODEL = ewsg.models.gaussian_location(noise_scale=0.7, prior_scale=2.0)


def row_of(key):
    """The outcome of a key, one of five."""
    return jax.random.randint(key, (), 0, N)


def potential(key, mean, data):
    """n times one row's part, with the prior: unbiased, as by a batch of one row."""
    row = data[row_of(key)]
    return -N * MODEL.log_likelihood(mean, row) - MODEL.log_prior(mean)


def gradient(key, mean, data):
    return jax.grad(lambda p: potential(key, p, data))(mean)


def without_prior(key, mean, data):
    return -N * MODEL.log_likelihood(mean, data[row_of(key)])


@functools.cache
def words():
    """Words of a key for each outcome, in their order."""
    some = jax.random.bits(jax.random.key(0), (64, 2), jnp.uint32)
    rows = np.asarray(jax.vmap(lambda w: row_of(key_of(w)))(some))
    return some[np.array([np.flatnonzero(rows == row)[0] for row in range(N)])]


ESTIMATORS = {
    "potential": lambda: ewsg.gradients.random(potential),
    "gradient": lambda: ewsg.gradients.random(gradient),
    "without prior": lambda: ewsg.gradients.random(without_prior, log_prior=MODEL.log_prior),
    "with posterior": lambda: ewsg.gradients.random(potential, posterior=MODEL),
}
DYNAMICS = {
    "langevin": lambda: ewsg.dynamics.langevin(0.02),
    "euler": lambda: ewsg.dynamics.euler(0.05, friction=2.0),
    "semi_implicit": lambda: ewsg.dynamics.semi_implicit(0.05, friction=2.0),
    "splitting": lambda: ewsg.dynamics.splitting(0.05, friction=2.0),
    "exact": lambda: ewsg.dynamics.exact(0.05, friction=2.0),
    "BAOAB": lambda: ewsg.dynamics.splitting_scheme("BAOAB", 0.05, friction=2.0),
    "thermostat": lambda: ewsg.dynamics.thermostat(0.05, friction=2.0),
}
UNIFORM = ewsg.gradients.uniform(MODEL, batch_size=1)


def both(dynamics, estimator, drawn, of_rows):
    """Next states by the random potential and by a batch of one row, with one noise."""
    states = []
    for inner, batch in ((estimator, drawn), (UNIFORM, of_rows)):
        kernel: Any = ewsg.kernel(dynamics, inner)
        state = kernel.init(jax.random.key(1), START, DATA)
        noise = kernel.dynamics.draw(jax.random.key(2), state.dynamics)
        for _ in range(2):
            state, _ = kernel.transition(Randomness(batch, noise), state, jnp.asarray(DATA))
        states.append(state.dynamics)
    return states


@pytest.mark.usual_parameters("langevin-potential", "BAOAB-gradient")
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", DYNAMICS)
def test_outcomes_make_the_steps_of_rows(x64, name, kind):
    """So the law is that of `uniform` with one row, which is known from all its batches."""
    estimator = ESTIMATORS[kind]()
    for row in range(N):
        pair = both(DYNAMICS[name](), estimator, words()[row], Batch(jnp.array([row])))
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-11), *pair)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["without prior", "with posterior"])
def test_a_metric_of_gradients_takes_the_prior_apart(x64, kind):
    for row in range(N):
        dynamics = ewsg.dynamics.preconditioned(0.05)
        pair = both(dynamics, ESTIMATORS[kind](), words()[row], Batch(jnp.array([row])))
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-11), *pair)


def test_the_mean_over_outcomes_is_the_gradient(x64):
    estimator = ESTIMATORS["potential"]()
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator)
    kernel.init(jax.random.key(0), START, DATA)
    estimates = [estimator.propose(w, (), START, DATA, no_weight)[0].gradient for w in words()]
    np.testing.assert_allclose(np.mean(estimates, axis=0), MODEL.gradient(jnp.asarray(START), DATA))


def test_weights_choose_among_outcomes_as_among_rows(x64):
    """Two proposals in every order, with every decision of the index chain."""
    dynamics = ewsg.dynamics.semi_implicit(0.1, friction=1.0)
    of_keys, of_rows = (
        ewsg.kernel(dynamics, ewsg.gradients.exponentially_weighted(one, num_proposals=1))
        for one in (ESTIMATORS["potential"](), UNIFORM)
    )
    data = jnp.asarray(DATA)
    start = of_rows.init(jax.random.key(1), jnp.asarray(START), data)
    noise = of_rows.draw(jax.random.key(2), start, data).noise

    @jax.jit
    def ends(places, log_uniform):
        draws = words()[places], Batch(places[:, None])
        return [
            kernel.transition(Randomness(ChainDraw(drawn, log_uniform), noise), start, data)[0]
            for kernel, drawn in zip((of_keys, of_rows), draws, strict=True)
        ]

    words()
    for first, second in [(0, 1), (1, 0), (3, 3), (4, 2)]:
        for log_uniform in (-0.01, -3.0):
            pair = ends(jnp.array([first, second]), jnp.array([log_uniform]))
            of_key, of_row = (state.dynamics for state in pair)
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-11), of_key, of_row)


@pytest.mark.full
def test_the_outcome_that_was_accepted_last_may_be_carried(x64):
    weighted = ewsg.gradients.exponentially_weighted(ESTIMATORS["potential"](), carry_index=True)
    kernel = ewsg.kernel(ewsg.dynamics.semi_implicit(0.1, friction=1.0), weighted)
    samples = ewsg.sample(jax.random.key(3), kernel, START, DATA, 50)
    assert samples.is_finite.all()
    assert 0 < samples.index_acceptance[0] < 1


def dropout(weight, row, key):
    """One mask of two, each of probability 1/2."""
    kept = jax.random.bernoulli(key, 0.5, (2,))
    return -0.5 * jnp.sum((row - kept * weight) ** 2)


def test_a_likelihood_with_a_key_has_the_mean_over_rows_and_keys(x64):
    """All rows and all four masks: their mean is the gradient of the mean log likelihood."""
    estimator = ewsg.gradients.random_likelihood(
        dropout, lambda w: -0.5 * jnp.sum(w**2), batch_size=1
    )
    some = jax.random.bits(jax.random.key(1), (64, 2), jnp.uint32)
    masks = np.asarray(jax.vmap(lambda w: jax.random.bernoulli(key_of(w), 0.5, (2,)))(some))
    chosen = [np.flatnonzero((masks == m).all(1))[0] for m in ([0, 0], [0, 1], [1, 0], [1, 1])]
    estimates = [
        estimator.propose(
            KeyedDraw(Batch(jnp.array([row])), some[k][None]), (), START, DATA, no_weight
        )[0].gradient
        for row in range(N)
        for k in chosen
    ]
    # E over masks of ∇ ½(x − m w)² = ½ (w − x) for each coordinate.
    expected = START + 0.5 * (START - DATA).sum(0)
    np.testing.assert_allclose(np.mean(estimates, axis=0), expected)


def test_each_row_of_a_batch_has_its_own_key():
    estimator = ewsg.gradients.random_likelihood(dropout, lambda w: 0.0, batch_size=3)
    drawn = estimator.draw(jax.random.key(0), DATA)
    assert drawn.words.shape == (3, 2)
    assert len({tuple(w) for w in drawn.words.tolist()}) == 3
    again = estimator.draw(jax.random.key(1), DATA)
    assert not np.array_equal(drawn.words, again.words)


def test_a_run_counts_steps_and_repeats(x64):
    """In blocks, ahead of the step, continued and with several chains: the same draws."""
    estimator = ewsg.gradients.random(potential, num_evaluations=1)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.01), estimator)
    run = functools.partial(ewsg.sample, jax.random.key(0), kernel)
    whole = run(START, DATA, 40, num_chains=3)
    half = run(START, DATA, 20, num_chains=3)
    rest = run(None, DATA, 20, state=half.state)
    np.testing.assert_array_equal(whole.draws[:, 20:], rest.draws)
    assert whole.data_passes == 40 / N
    keys = jax.random.split(jax.random.key(1), 2)
    state = kernel.init(keys[0], START, DATA)
    _, info = jax.jit(kernel.step)(keys[1], state, DATA)
    assert int(info.gradient_evaluations) == 1


@pytest.mark.full
def test_chains_have_the_variance_of_the_step_and_its_noise(x64):
    """Stationary: z-test at α = 1e-6 against T/λ and the covariance of outcomes."""
    h, chains = 0.01, 4_000
    kernel = ewsg.kernel(ewsg.dynamics.langevin(h), ewsg.gradients.random(potential))
    samples = ewsg.sample(
        jax.random.key(5), kernel, START, DATA, 400, num_chains=chains, burn_in=399
    )
    curvature = N / 0.7**2 + 1 / 2.0**2
    noise = N**2 * DATA.var(0) / 0.7**4
    expected = (2 * h + h**2 * noise) / (1 - (1 - h * curvature) ** 2)
    found = samples.draws[:, 0].var(0, ddof=1)
    errors = expected * np.sqrt(2 / (chains - 1))
    assert (np.abs(found - expected) < 4.9 * errors).all()


@pytest.mark.full
def test_a_forecast_measures_the_noise_by_repeats():
    """With the posterior of the mean it is that of `uniform` with one row."""
    data = np.random.default_rng(5).normal(size=(N, 2)).astype(np.float32)
    mode = ewsg.find_mode(jax.random.key(0), MODEL, jnp.zeros(2), data)
    ratios = [
        ewsg.forecast(
            ewsg.kernel(ewsg.dynamics.langevin(0.01), estimator), mode, data
        ).variance_ratio
        for estimator in (ewsg.gradients.random(potential, posterior=MODEL), UNIFORM)
    ]
    np.testing.assert_allclose(*ratios, rtol=0.05)


@pytest.mark.full
@pytest.mark.parametrize("width", [1.0, 1.4])
@pytest.mark.parametrize("kind", ["random", "likelihood with a key"])
def test_a_check_finds_wrong_draws_by_two_keys_a_draw(kind, width):
    """Exact draws of the target of the mean, and wider ones."""
    n = 40
    data = np.random.default_rng(7).normal(size=(n, 2)).astype(np.float32)

    def of_rows(key, mean, data):
        rows = data[jax.random.randint(key, (10,), 0, n)]
        return 0.5 * jnp.sum(mean**2) + n / 10 * 0.5 * jnp.sum((rows - mean) ** 2)

    estimator, variance = ewsg.gradients.random(of_rows), 1 / (n + 1)
    if kind != "random":
        estimator = ewsg.gradients.random_likelihood(
            dropout, lambda w: -0.5 * jnp.sum(w**2), batch_size=10
        )
        # E ½(x − m w)² = ¼ x² + ¼ (x − w)² for each coordinate: half of the rows count.
        variance = 1 / (n / 2 + 1)
    center = data.sum(0) * (variance if kind == "random" else variance / 2)
    normals = np.random.default_rng(8).normal(size=(4, 2_000, 2))
    draws = (center + width * np.sqrt(variance) * normals).astype(np.float32)
    report = ewsg.check(jax.random.key(0), draws, estimator.posterior, data)
    assert report.outcome == ("right" if width == 1 else "wrong")
    np.testing.assert_allclose(report.sd_ratio, width, rtol=0.06)


def test_what_needs_values_is_refused():
    estimator = ewsg.gradients.random(potential)
    for call in (
        lambda: ewsg.find_mode(jax.random.key(0), estimator.posterior, START, DATA),
        lambda: ewsg.plan(jax.random.key(0), estimator.posterior, START, DATA),
        lambda: estimator.posterior.potential(START, DATA),
        lambda: ewsg.gradients.uniform(estimator.posterior, batch_size=1).check(START, DATA),
    ):
        with pytest.raises(ValueError, match="values that can be evaluated; got a random") as e:
            call()
        assert str(e.value) == NO_VALUES
    mode = ewsg.find_mode(jax.random.key(0), MODEL, jnp.zeros(2), jnp.asarray(DATA))
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.01), estimator)
    with pytest.raises(ValueError, match="values that can be evaluated; got a random potential"):
        ewsg.forecast(kernel, mode, DATA)


RANDOM = np.random.default_rng(6)
REFUSED = {
    "or a pytree like the position; it returned": lambda key, p, data: p[:1],
    "or a pytree like the position; it failed": lambda key, p, data: p @ data,
    "draw from its first one": lambda key, p, data: jax.random.normal(jax.random.key(0)) * p.sum(),
    "return the same for the same": lambda key, p, data: RANDOM.uniform() * p.sum(),
    "be differentiable": lambda key, p, data: jnp.round(p).sum() + row_of(key) * 1.0,
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_function_that_is_none_is_refused(text):
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.1), ewsg.gradients.random(REFUSED[text]))
    with pytest.raises(ValueError, match=f"function must .*{text}"):
        ewsg.sample(jax.random.key(0), kernel, START, DATA, 3)


def test_a_position_of_one_number_needs_a_word():
    make = functools.partial(ewsg.gradients.random, lambda key, p, data: p**2)
    for estimator in (make(returns="gradient"), make(returns="potential")):
        estimator.check(jnp.array(1.0), DATA)
    with pytest.raises(ValueError, match="returns must be 'potential' or 'gradient'"):
        make().check(jnp.array(1.0), DATA)


def test_labels_of_a_likelihood_with_a_key_are_checked():
    def of_group(effects, row, key):
        return effects[row["group"]] * row["x"]

    estimator = ewsg.gradients.random_likelihood(of_group, lambda p: 0.0, batch_size=1)
    rows = {"x": jnp.ones(3), "group": jnp.array([0, 1, 4])}
    with pytest.raises(ValueError, match="indices in bounds"):
        ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator).init(
            jax.random.key(0), jnp.zeros(3), rows
        )
