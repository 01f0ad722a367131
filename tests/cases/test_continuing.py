"""What people continue with what: yesterday's state on today's rows, an edited script."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

KEY = jax.random.key(0)
MODEL = ewsg.models.gaussian_location()
RANDOM = np.random.default_rng(0)
YESTERDAY = RANDOM.normal(0.0, 1.0, (40, 2)).astype(np.float32)
TODAY = RANDOM.normal(1.0, 1.0, (40, 2)).astype(np.float32)
KERNELS = {
    "svrg_ld": ewsg.svrg_ld(MODEL, 1e-3, batch_size=5, refresh_every=1_000),
    "cv_ld": ewsg.cv_ld(MODEL, 1e-3, batch_size=5, center=jnp.zeros(2)),
    "nuts": ewsg.nuts(MODEL, 0.1),
}


def run(kernel, data, state=None, **options):
    start = jnp.zeros(2) if state is None else None
    options = {"num_chains": 2, "progress": False} | options
    return ewsg.sample(KEY, kernel, start, data, 10, state=state, **options)


@pytest.fixture(scope="module")
def samples():
    """A run of each kernel on yesterday's rows."""
    return {name: run(kernel, YESTERDAY) for name, kernel in KERNELS.items()}


@pytest.mark.parametrize("name", KERNELS)
def test_a_state_does_not_continue_on_other_rows(name, samples):
    """They are as many, and the memory would be of the old ones for as long as nothing refreshes
    it: control variates were 32 sds off.
    """
    state = samples[name].state
    for what in (state, copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        with pytest.raises(ValueError, match=r"data must be the 40 rows .* kernel\.init\(key, "):
            run(KERNELS[name], TODAY, what)
    # The same rows in another order are others for tables and orders of rows.
    with pytest.raises(ValueError, match="in their order"):
        run(KERNELS[name], YESTERDAY[::-1], state)


def test_a_state_continues_on_the_same_rows_in_other_arrays(samples):
    """Arrays of JAX, of float64, in another memory order, out of a file."""
    state, kernel = samples["cv_ld"].state, KERNELS["cv_ld"]
    more = run(kernel, YESTERDAY, state)
    for rows in (jnp.asarray(YESTERDAY), YESTERDAY.astype(float), np.asfortranarray(YESTERDAY)):
        np.testing.assert_array_equal(run(kernel, rows, state).position, more.position)


def test_what_the_user_steps_is_not_compared(samples):
    """A compiled step does not know its rows, and a program does not keep those of its first
    state.
    """
    kernel, step = KERNELS["svrg_ld"], jax.jit(KERNELS["svrg_ld"].step)
    for rows in (YESTERDAY, TODAY):
        state = run(kernel, rows).state
        one = jax.tree.map(lambda x: x[0], state._replace(order=()))
        moved, _ = step(KEY, one, jnp.asarray(rows))
        run(kernel, rows, jax.tree.map(lambda x: x[None], moved), num_chains=1)


def test_a_loaded_state_and_joined_runs_have_the_same_rows(samples, tmp_path):
    first, path = samples["cv_ld"], tmp_path / "run.npz"
    first.save(path)
    with pytest.raises(ValueError, match="data must be the 40 rows"):
        ewsg.load(path, kernel=KERNELS["cv_ld"], data=TODAY)
    whole = ewsg.load(path, kernel=KERNELS["cv_ld"], data=YESTERDAY.astype(float))
    with pytest.raises(ValueError, match="data must be the 40 rows"):
        run(KERNELS["cv_ld"], TODAY, whole.state)
    # States whose rows are not known, as those in files of earlier versions.
    bare = first.state._replace(rows=type(first.state.rows)(40))
    later = run(KERNELS["cv_ld"], TODAY, bare)
    for earlier in (first, whole, ewsg.load(path)):
        with pytest.raises(ValueError, match="got one on other rows"):
            earlier.concatenate(later)
    assert first.concatenate(run(KERNELS["cv_ld"], YESTERDAY, first.state)).num_draws == 20


def test_a_data_set_of_several_continues_by_itself():
    sets = ewsg.stack_data([YESTERDAY, TODAY[:20]])
    runs = run(KERNELS["svrg_ld"], sets)
    assert run(KERNELS["svrg_ld"], sets, runs.state).whole.num_draws == 10
    assert run(KERNELS["svrg_ld"], YESTERDAY, runs[0].state).num_draws == 10


@pytest.mark.full
def test_a_stream_of_other_rows_is_refused():
    kernel = ewsg.svrg_ld(MODEL, 1e-3, batch_size=5, refresh_every=1_000)
    state = run(kernel, ewsg.stream(YESTERDAY, window=20)).state
    assert run(kernel, ewsg.stream(YESTERDAY, window=20), state).num_draws == 10
    with pytest.raises(ValueError, match="data must be the 40 rows"):
        run(kernel, ewsg.stream(TODAY, window=20), state)
