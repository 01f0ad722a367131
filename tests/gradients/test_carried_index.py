"""The index chain carried from step to step: the exact law of state and index, on few batches,
without sampling.

For every batch that the last step may have accepted, every proposal and either side of each
threshold, the step is made from chosen randomness; the law of (state, batch) that follows is
compared with the transition matrix of the index, made by NumPy from log weights typed from the
paper.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients._exponentially_weighted import CarriedDraw, CarriedMemory
from ewsg_jax.gradients._index_chain import ChainDraw
from ewsg_jax.rows import Batch
from ewsg_jax.rows._view import AsDrawn
from tests.gradients.test_index_chain import FRICTION, MOMENTUM, POSITION, TEMPERATURE, setting
from tests.gradients.test_index_chain_cost import counting
from tests.oracles import index_chain

pytestmark = pytest.mark.full

EDGE = 1e-9
BATCHES = pytest.mark.parametrize(("batch_size", "replace"), [(1, True), (2, False)])


def carried(s, chain_length=1, **options):
    """The kernel of a setting."""
    estimator = ewsg.gradients.exponentially_weighted(
        s.uniform(), chain_length=chain_length, carry_index=True, **options
    )
    return ewsg.kernel(
        ewsg.dynamics.semi_implicit(s.step_size, friction=FRICTION, temperature=TEMPERATURE),
        estimator,
    )


def state_with(kernel, s, last):
    """The kernel's state at the setting's place, its last batch chosen."""
    state = kernel.init(jax.random.key(0), jnp.asarray(POSITION), s.data)
    dynamics = state.dynamics._replace(momentum=jnp.asarray(MOMENTUM))
    return state._replace(dynamics=dynamics, memory=state.memory._replace(last=Batch(last)))


def draw_of(rows, log_uniforms):
    return ewsg.Randomness(
        ChainDraw(CarriedDraw(Batch(rows), AsDrawn(Batch(rows))), log_uniforms), jnp.zeros(2)
    )


def stepper(s, chain_length, gathers, **options):
    """`run(last, proposals, log_uniforms)`: positions, momenta, memory, shares accepted."""
    kernel = carried(s, chain_length, **options)

    def one(last, proposals, log_uniforms):
        drawn = draw_of(proposals, log_uniforms)
        drawn = kernel.fetch(drawn, s.data) if gathers else drawn
        state, info = kernel.transition(drawn, state_with(kernel, s, last), s.data)
        return (
            state.position,
            state.dynamics.momentum,
            state.memory.last.indices,
            info.index_acceptance,
        )

    rows = jnp.asarray(s.batches, jnp.int32)
    run = jax.jit(jax.vmap(one))
    return lambda last, proposals, u: jax.device_get(
        run(rows[last], rows[proposals], jnp.asarray(u))
    )


def moved(s):
    """Where the step leads with each batch: semi-implicit Euler without noise, typed."""
    momentum = MOMENTUM - s.step_size * (FRICTION * MOMENTUM + s.gradients)
    return POSITION + s.step_size * momentum, momentum


@pytest.mark.usual_parameters("1-True-1-True", "2-False-2-False")
@pytest.mark.parametrize(("chain_length", "gathers"), [(1, False), (2, False), (1, True)])
@BATCHES
def test_the_transition_matrix_of_the_index(x64, batch_size, replace, chain_length, gathers):
    """From every batch, over all proposals and accepts: row i of P^M, where its batch leads."""
    s = setting("logistic_regression", batch_size, replace)
    count, w = len(s.batches), s.log_weights()
    run = stepper(s, chain_length, gathers)
    tuples = np.array(list(itertools.product(range(count), repeat=chain_length + 1)))
    log_accept = np.minimum(0, w[None, :] - w[:, None])
    matrix = np.zeros((count, count))
    positions, momenta = moved(s)
    for pattern in itertools.product([True, False], repeat=chain_length):
        current = tuples[:, 0]
        probability = np.full(len(tuples), count**-chain_length, float)
        uniforms = []
        for accepts, proposal in zip(pattern, tuples[:, 1:].T, strict=True):
            edge = log_accept[current, proposal]
            uniforms.append(np.minimum(edge - EDGE if accepts else edge + EDGE, 0))
            probability = probability * (np.exp(edge) if accepts else -np.expm1(edge))
            current = proposal if accepts else current
        possible = probability > 0
        position, momentum, last, share = run(
            tuples[:, 0], tuples[:, 1:], np.stack(uniforms, axis=1)
        )
        np.testing.assert_array_equal(last[possible], s.batches[current[possible]])
        np.testing.assert_allclose(position[possible], positions[current[possible]], rtol=1e-12)
        np.testing.assert_allclose(momentum[possible], momenta[current[possible]], rtol=1e-12)
        np.testing.assert_allclose(share[possible], np.mean(pattern), rtol=1e-7)
        found = np.all(last[:, None] == s.batches, axis=2).argmax(axis=1)
        np.add.at(matrix, (tuples[:, 0], found), probability)
    expected = np.linalg.matrix_power(index_chain.transition_matrix(w), chain_length)
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-12)
    p = index_chain.exact_law(w)
    np.testing.assert_allclose(p @ matrix, p, rtol=0, atol=1e-12)


def test_the_last_batch_is_weighed_where_the_chain_now_is(x64):
    """Two steps: the second's threshold is by weights at the new state, not the old one."""
    s = setting("gaussian_location")
    kernel = carried(s)
    rows = jnp.asarray(s.batches, jnp.int32)
    transition = jax.jit(kernel.transition)
    start = state_with(kernel, s, rows[0])
    after, _ = transition(draw_of(rows[2][None], jnp.array([-1e9])), start, s.data)
    assert after.memory.last.indices.tolist() == rows[2].tolist()
    per_datum = (np.asarray(after.position) - np.asarray(s.data)) / 0.9**2
    gradients = len(s.batches) * per_datum + np.asarray(after.position) / 4
    w = index_chain.log_weights(
        gradients,
        np.asarray(after.dynamics.momentum),
        s.step_size,
        FRICTION,
        TEMPERATURE,
        "momentum",
    )
    old = s.log_weights()
    edges = np.minimum(0, w - w[2])
    worth = [
        j
        for j in range(len(w))
        if edges[j] < -EDGE and abs(edges[j] - min(0, old[j] - old[2])) > 1e-3
    ]
    assert worth
    for j in worth:
        for sign, share in ((-1, 1), (1, 0)):
            _, info = transition(
                draw_of(rows[j][None], jnp.array([edges[j] + sign * EDGE])), after, s.data
            )
            assert info.index_acceptance == share


@pytest.mark.full
def test_the_first_batch_is_drawn_at_init_and_each_step_draws_as_many_as_it_proposes():
    s = setting("gaussian_location", 2, False)
    kernel = carried(s, 3)
    keys = jax.random.split(jax.random.key(1), 4000)
    start = jnp.asarray(POSITION, jnp.float32)
    first = np.asarray(
        jax.jit(jax.vmap(lambda k: kernel.init(k, start, s.data).memory.last.indices))(keys)
    )
    hits = np.all(np.sort(first)[:, None] == np.sort(s.batches), axis=2)
    counts = hits.sum(axis=0) * (len(hits.T) / 4000)
    np.testing.assert_allclose(counts, 1, atol=0.3)
    state = kernel.init(keys[0], start, s.data)
    drawn = kernel.draw(keys[1], state, s.data).batch
    assert drawn.batches.batch.indices.shape == (3, 2)
    assert drawn.log_uniforms.shape == (3,)
    assert kernel.evaluations(s.data) == kernel.estimator.evaluations(s.data)
    assert kernel.evaluations(s.data).per_step == 4 * 2
    assert int(kernel.step(keys[2], state, s.data)[1].gradient_evaluations) == 4 * 2


def test_the_wrapped_memory_moves_with_the_accepted_batch(x64):
    s = setting("gaussian_location")
    inner = counting(s)
    estimator = ewsg.gradients.exponentially_weighted(inner, chain_length=2, carry_index=True)
    kernel = ewsg.kernel(ewsg.dynamics.semi_implicit(s.step_size, friction=FRICTION), estimator)
    state = kernel.init(jax.random.key(0), jnp.asarray(POSITION), s.data)
    assert isinstance(state.memory, CarriedMemory)
    for log_uniforms, place in (((np.inf, np.inf), None), ((-1e9, np.inf), 0), ((np.inf, -1e9), 1)):
        before = state.memory.last.indices
        rows = jnp.asarray(s.batches[[3, 1]], jnp.int32)
        state, info = jax.jit(kernel.transition)(
            draw_of(rows, jnp.array(log_uniforms)), state, s.data
        )
        expected = before if place is None else rows[place]
        assert (
            state.memory.last.indices.tolist()
            == state.memory.memory["last"].tolist()
            == expected.tolist()
        )
        assert int(info.gradient_evaluations) == 3 * 2 + 7


def test_a_run_is_the_steps_and_chains_have_batches_of_their_own():
    """`sample` draws and gathers ahead: the same positions as steps one by one."""
    data = jnp.asarray(np.random.default_rng(0).normal(size=(20, 2)), jnp.float32)
    kernel = ewsg.ewsg(
        ewsg.models.gaussian_location(), 0.02, friction=5.0, batch_size=3, carry_index=True
    )
    samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), data, 30, num_chains=4)
    last = np.asarray(samples.state.memory.last.indices)
    assert last.shape == (4, 3)
    assert len({tuple(row) for row in last}) > 1
    again = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), data, 10, num_chains=4)
    more = ewsg.sample(jax.random.key(0), kernel, None, data, 20, state=again.state)
    np.testing.assert_allclose(
        np.concatenate([again.position, more.position], 1), samples.position, rtol=1e-5
    )


def test_forecast_and_text():
    kernel = ewsg.ewsg(
        ewsg.models.gaussian_location(), 0.1, friction=1.0, batch_size=1, carry_index=True
    )
    assert "carry_index=True" in repr(kernel)
    assert "remembering" not in repr(kernel)
    data = jnp.ones((5, 1))
    mode = ewsg.find_mode(jax.random.key(0), ewsg.models.gaussian_location(), jnp.zeros(1), data)
    with pytest.raises(ValueError, match="carry_index=True, whose batches depend on each other"):
        ewsg.forecast(kernel, mode, data)
