"""What the compiled programs of estimators with memory hold: no second table, and no refresh that
is not due.

By XLA's own account of its temporaries, on the JAX that runs: whether a table is updated where it
lies has changed between versions, and a copy in each step is found by no test of values.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import compiled_loop
from tests.parts import altered

pytestmark = pytest.mark.full

N, D, BATCH = 20_000, 8, 5
NUMBER = 4
"""Bytes of a float32."""
RNG = np.random.default_rng(0)
DATA = {
    "x": jnp.asarray(RNG.normal(size=(N, D)), jnp.float32),
    "y": jnp.asarray(RNG.integers(0, 2, N), jnp.float32),
}
NUMBERS = ewsg.models.logistic_regression()
GRADIENTS = ewsg.Posterior(NUMBERS.log_likelihood, NUMBERS.log_prior)
TABLES = [pytest.param(NUMBERS, 1, id="numbers"), pytest.param(GRADIENTS, D, id="gradients")]


def temporaries(compiled):
    """The bytes that a program needs beside its arguments and results."""
    analysis = compiled.memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes


class CalledError(Exception):
    """The loop was called."""


@pytest.fixture
def loop_bytes(monkeypatch):
    """`loop_bytes(estimator, chains)`: the temporaries of the loop that `sample` would call."""
    advance = compiled_loop.advance

    def measure(estimator, chains):
        calls = []

        def stop(*args, **kwargs):
            calls.append((args, kwargs))
            raise CalledError

        for name in ("advance", "advance_small"):
            monkeypatch.setattr(compiled_loop, name, stop)
        kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-5), estimator)
        with pytest.raises(CalledError):
            ewsg.sample(jax.random.key(0), kernel, jnp.zeros(D), DATA, 3, num_chains=chains)
        ((args, kwargs),) = calls
        return temporaries(advance.lower(*args, **kwargs).compile())

    return measure


@pytest.mark.parametrize("chains", [1, 10])
@pytest.mark.parametrize(("posterior", "numbers"), TABLES)
def test_the_loop_holds_no_second_table(loop_bytes, posterior, numbers, chains):
    estimator = ewsg.gradients.saga(posterior, batch_size=BATCH)
    assert loop_bytes(estimator, chains) < 0.5 * NUMBER * N * numbers * chains


def test_a_second_table_would_be_seen(loop_bytes):
    """The obvious form, setting new rows once old ones are read, copies the table each step."""
    saga = ewsg.gradients.saga(GRADIENTS, batch_size=BATCH)

    def propose(randomness, memory, point, data, weight):
        estimate, update = saga.propose(randomness, memory, point, data, weight)
        rows = jax.tree.map(lambda x: x[update.indices], data)
        return estimate, (update, GRADIENTS.row_gradients(point, rows))

    def commit(proposed, memory):
        update, new = proposed
        table = memory.table.at[update.indices].set(new)
        return memory._replace(table=table, gradient=memory.gradient + update.sum)

    obvious = altered(saga, propose=propose, commit=commit)
    assert loop_bytes(obvious, 1) > NUMBER * N * D, "the measure would not see a copy"


def test_a_step_of_svrg_chooses_and_holds_a_chunk_of_rows():
    """Under `vmap` the refresh stays in a condition, and no chain is given data of its own."""
    chains, chunk = 20, 1000
    kernel = ewsg.kernel(
        ewsg.dynamics.langevin(1e-5),
        ewsg.gradients.svrg(NUMBERS, batch_size=BATCH, refresh_every=10, chunk_size=chunk),
    )

    def first(keys, positions):
        states = jax.vmap(kernel.init, (0, 0, None))(keys, positions, DATA)
        return jax.vmap(kernel.draw, (0, 0, None))(keys, states, DATA), states

    drawn = jax.eval_shape(
        first, jax.random.split(jax.random.key(0), chains), jnp.zeros((chains, D))
    )
    step = jax.jit(jax.vmap(kernel.transition, (0, 0, None))).lower(*drawn, DATA).compile()
    text = step.as_text()
    assert text is not None
    assert text.count(" conditional(") == 1, "the refresh is computed in every step"
    assert temporaries(step) < NUMBER * chunk * (D + 4 * chains) < NUMBER * N * chains / 2
