"""Exponential weights: what a step costs, whose draws and memory it uses, and what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients import Estimate, Evaluations
from ewsg_jax.gradients._index_chain import ChainDraw
from ewsg_jax.rows import Batch
from tests.gradients.test_index_chain import FRICTION, POSITION, X, setting
from tests.oracles import enumeration
from tests.parts import altered

pytestmark = pytest.mark.full


@pytest.mark.parametrize(
    ("batch_size", "replace", "chain_length", "evaluations"),
    [(1, True, 0, 1), (2, False, 3, 8), (2, False, math.inf, 20)],
)
def test_evaluations(batch_size, replace, chain_length, evaluations):
    s = setting("gaussian_location", batch_size, replace)
    estimator = ewsg.gradients.exponentially_weighted(s.uniform(), chain_length=chain_length)
    assert estimator.evaluations(s.data) == Evaluations(evaluations, batch_size)
    kernel = ewsg.kernel(ewsg.dynamics.semi_implicit(0.01, friction=1.0), estimator)
    state = jax.jit(kernel.init)(jax.random.key(0), jnp.asarray(POSITION, jnp.float32), s.data)
    counted = jax.jit(lambda key: kernel.step(key, state, s.data)[1].gradient_evaluations)(
        jax.random.key(1)
    )
    assert int(counted) == evaluations


def test_probe_is_the_chosen_batchs(x64):
    s = setting("gaussian_location", 2, False)
    estimator = ewsg.gradients.exponentially_weighted(s.uniform())
    estimate = Estimate(jnp.zeros(2), Batch(jnp.array([3, 1])), jnp.float32(0))
    elsewhere = jnp.array([-1.0, 2.0])
    gradient = jax.jit(lambda p: estimator.gradient_at(estimate, p, s.data))(elsewhere)
    per_datum = enumeration.gaussian_location(np.asarray(elsewhere), X, 0.9)
    prior = enumeration.normal_prior(elsewhere, 2.0)
    expected = enumeration.stochastic_gradients(per_datum, prior, np.array([[3, 1]]))[0]
    np.testing.assert_allclose(gradient, expected, rtol=1e-13)


def test_the_defaults_are_one_proposal_and_no_change_of_momentum():
    uniform, weighted = (
        setting("gaussian_location").uniform(),
        ewsg.gradients.exponentially_weighted,
    )
    assert weighted(uniform) == weighted(
        uniform, chain_length=1, frozen_noise="momentum", carry_index=False
    )


def test_too_many_batches_for_exact_weights_are_refused():
    posterior = ewsg.models.gaussian_location()
    kernel = ewsg.ewsg(
        posterior, 0.01, friction=1.0, batch_size=3, chain_length=math.inf, replace=False
    )
    with pytest.raises(
        ValueError, match="n = 100 and batch_size = 3 give 161,700 of them, at most 100,000"
    ):
        kernel.init(jax.random.key(0), jnp.zeros(2), jnp.zeros((100, 2)))
    kernel.init(jax.random.key(0), jnp.zeros(2), jnp.zeros((80, 2)))  # 82,160 of them


def counting(s):
    """The plain estimator with a memory: how many commits, the last batch, how many refreshes."""
    inner = s.uniform()

    def init(key, position, data):
        return {
            "commits": jnp.int32(0),
            "last": jnp.full(s.batches.shape[1], -1, jnp.int32),
            "refreshes": jnp.int32(0),
        }

    def refresh(randomness, memory, step, point, data):
        return memory | {"refreshes": memory["refreshes"] + 1}, point, 7

    def propose(rows, memory, point, data, weight):
        estimate, _ = inner.propose(rows, memory, point, data, weight)
        return estimate, rows.indices

    def commit(rows, memory):
        return memory | {"commits": memory["commits"] + 1, "last": rows}

    evaluations = lambda data: Evaluations(per_step=2, per_extra_gradient=2, at_init=3)
    return altered(
        inner, propose=propose, evaluations=evaluations, init=init, refresh=refresh, commit=commit
    )


def test_only_the_accepted_batch_is_committed(x64):
    """Three visits from each batch, with uniforms that accept none, the first, the second, all."""
    s = setting("gaussian_location")
    estimator = ewsg.gradients.exponentially_weighted(counting(s), chain_length=3)
    kernel = ewsg.kernel(ewsg.dynamics.semi_implicit(s.step_size, friction=FRICTION), estimator)
    state = kernel.init(jax.random.key(0), jnp.asarray(POSITION), s.data)
    transition = jax.jit(kernel.transition)
    assert kernel.evaluations(s.data) == Evaluations(4 * 2, 2, 3)
    yes, no = (
        -1e9,
        np.inf,
    )  # beyond any threshold, so that the pattern does not depend on the weights
    patterns = [((no, no, no), 0), ((yes, no, no), 1), ((no, yes, no), 2), ((yes, yes, yes), 3)]
    for step, (log_uniforms, place) in enumerate(patterns, start=1):
        rows = np.roll(np.arange(4), step)[:, None]
        draw = ChainDraw(Batch(jnp.asarray(rows, jnp.int32)), jnp.array(log_uniforms))
        state, info = transition(ewsg.Randomness(draw, jnp.zeros(2)), state, s.data)
        assert state.memory["last"].tolist() == rows[place].tolist()
        assert int(state.memory["commits"]) == step
        assert int(state.memory["refreshes"]) == step
        assert int(info.gradient_evaluations) == 4 * 2 + 7
        np.testing.assert_allclose(
            info.index_acceptance, np.mean(np.array(log_uniforms) < 0), rtol=1e-6
        )


@pytest.mark.full
@pytest.mark.parametrize("chain_length", [0, 2, math.inf])
def test_a_refresh_gets_the_wrapped_estimators_own_draw(chain_length):
    """A refresh may draw numbers itself (SVRG's option I): it sees a batch, not the index chain."""
    seen = []
    inner = ewsg.gradients.uniform(ewsg.models.gaussian_location(), batch_size=1)

    def refresh(randomness, memory, step, point, data):
        seen.append(randomness)
        return memory, point, 0

    estimator = ewsg.gradients.exponentially_weighted(
        altered(inner, refresh=refresh), chain_length=chain_length
    )
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator)
    data = jnp.arange(5.0)[:, None]
    state = kernel.init(jax.random.key(0), jnp.zeros(1), data)
    drawn = kernel.draw(jax.random.key(1), state, data)
    kernel.transition(drawn, state, data)
    batches = drawn.batch.batches
    batches = batches.randomness if chain_length == math.inf else batches
    np.testing.assert_array_equal(seen[-1].indices, batches.indices[0])


@pytest.mark.full
@pytest.mark.parametrize("weight", [np.inf, np.nan])
def test_a_weight_that_is_not_finite_is_no_weight(weight):
    """Whichever way candidates are weighed the gradient is NaN; M = 0 weighs none."""
    s = setting("gaussian_location")
    infinite = lambda estimate, frozen_noise: weight + 0 * jnp.sum(estimate.gradient)
    for chain_length in (1, np.inf, 0):
        estimator = ewsg.gradients.exponentially_weighted(s.uniform(), chain_length=chain_length)
        draw = estimator.draw(jax.random.key(0), s.data)
        estimate, _ = estimator.propose(draw, (), jnp.asarray(POSITION), s.data, infinite)
        assert np.isfinite(estimate.gradient).tolist() == [chain_length == 0] * 2
