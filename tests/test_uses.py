"""A step inside other people's programs: donation, BlackJAX's loop, a TPU's compiler."""

import blackjax.util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import ewsg_jax as ewsg
from tests import contract

pytestmark = pytest.mark.full

KEY = jax.random.key(3)


@contract.every_pair()
def test_donated_states(name, options):
    """A loop may give its state away: with it nothing of the caller's own may be lost."""
    kernel, data = contract.build(name, options), contract.data(jnp.float32)
    position = jnp.asarray(contract.POSITION, jnp.float32)
    state = kernel.init(KEY, position, data)
    places = [
        {
            leaf.unsafe_buffer_pointer()
            for leaf in jax.tree.leaves(tree)
            if leaf.dtype in (jnp.float32, jnp.int32)
        }
        for tree in (state, (position, data))
    ]
    assert places[0]
    assert not places[0] & places[1]


@contract.every_kernel(shift=2)
def test_lowered_for_a_tpu(name, options):
    """A vmapped step of many chains has a lowering for TPUs, with the data as an argument."""
    kernel, data = contract.build(name, options), contract.data(jnp.float32)
    keys = jax.random.split(KEY, 4)
    states = jax.vmap(kernel.init, in_axes=(0, None, None))(
        keys, jnp.asarray(contract.POSITION, jnp.float32), data
    )
    step = jax.jit(jax.vmap(kernel.step, in_axes=(0, 0, None)))
    exported = export.export(step, platforms=["tpu"])(keys, states, data)
    assert exported.platforms == ("tpu",)
    assert len(exported.in_avals) == len(jax.tree.leaves((keys, states, data)))
    assert [x.shape for x in exported.out_avals] == [
        x.shape for x in jax.tree.leaves(jax.eval_shape(step, keys, states, data))
    ]


@pytest.mark.parametrize("name", ["ewsg", "svrg_ld"])
def test_blackjax_loop(name):
    """BlackJAX's inference loop runs a bound kernel, and goes where its keys go."""
    kernel, data = contract.build(name, ewsg.METHODS[name].example), contract.data(jnp.float32)
    algorithm = kernel.bind(data)
    position = jnp.asarray(contract.POSITION, jnp.float32)
    state = algorithm.init(position, KEY)
    jax.tree.map(np.testing.assert_array_equal, state, kernel.init(KEY, position, data))
    last, history = blackjax.util.run_inference_algorithm(
        KEY,
        blackjax.SamplingAlgorithm(algorithm.init, algorithm.step),
        num_steps=6,
        initial_state=state,
        transform=lambda state, info: (state.position, info.gradient_evaluations),
    )
    positions, evaluations = history
    assert positions.shape == (6, 3)
    cost = kernel.evaluations(data)
    assert np.asarray(evaluations).tolist() == [cost.of_steps(t, 1) for t in range(6)]
    step = contract.compiled_step(kernel)
    for key in jax.random.split(KEY, 6):
        state, _ = step(key, state, data)
    np.testing.assert_allclose(last.position, state.position, rtol=2e-5, atol=1e-6)
    assert int(last.step) == 6


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_gathered_rows_are_the_rows(dtype):
    """They are what indexing gives, at once and where they are used."""
    from ewsg_jax.rows import _view as view

    leaf = jnp.arange(120).reshape(5, 3, 8).astype(dtype)
    data = {"x": leaf, "n": jnp.arange(5)}
    for indices in (jnp.array([3, 0, 3]), jnp.array([[1, 4], [2, 2]])):
        for gather in (
            view.gather,
            jax.jit(view.gather),
            lambda _, i: view.Batch(i),
        ):
            rows = view.fetched(gather(data, indices), data).rows
            np.testing.assert_array_equal(
                np.asarray(rows["x"], np.float32), np.asarray(leaf, np.float32)[indices]
            )
            np.testing.assert_array_equal(rows["n"], indices)
