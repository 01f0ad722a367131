"""What every kernel promises, on every combination of the table of methods.

Randomness is compared bit for bit; positions in float64 over at most 20 steps, to rounding.
"""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import ewsg_jax as ewsg
from ewsg_jax.base import rng
from ewsg_jax.gradients._protocol import uses_batches
from tests import contract
from tests.parts import altered

STEPS = 12


def close(a, b):
    chex.assert_trees_all_close(a, b, rtol=1e-9, atol=1e-12)


def same_bits(a, b):
    chex.assert_trees_all_equal(jax.tree.map(np.asarray, a), jax.tree.map(np.asarray, b))


def loop(kernel, key, state, data, steps=STEPS):
    """Step in a Python loop, one compiled step at a time; evaluations are all steps'."""
    evaluations = 0
    for t in range(steps):
        state, info = contract.compiled_step(kernel)(jax.random.fold_in(key, t), state, data)
        evaluations += int(info.gradient_evaluations)
    return state, info._replace(gradient_evaluations=evaluations)


@pytest.mark.usual_parameters(
    "uld-ABOBA",
    "sgld-False-random",
    "saga_ld-False-random",
    "svrg2nd_hmc-False-random-II",
    "nc_sghmc-euler-False-diagonal",
    "ewsg-ABOBA-True-blocks",
    "random_walk_metropolis",
)
@contract.every_method()
def test_ways_to_step_agree(x64, name, options):
    """A plain loop of one kernel's compiled step; one program for a stack of kernels, each with
    data of its own.

    The program is given the numbers that the step holds as constants, scans over its steps, and
    takes its states by donation.
    """
    sizes, base = (0.02, 0.05), contract.data()
    kernels = [contract.build(name, options, step_size=h) for h in sizes]
    stack = jax.tree.map(lambda *x: jnp.stack(x), *kernels)
    made = jax.vmap(lambda h: contract.build(name, options, step_size=h))(jnp.array(sizes))
    jax.tree.map(np.testing.assert_array_equal, stack, made)
    sets = jax.tree.map(lambda x: jnp.stack([x, x[::-1] * 0.5 if x.ndim > 1 else x[::-1]]), base)
    keys = jax.random.split(jax.random.key(3), 2)
    position = jnp.asarray(contract.POSITION)

    @functools.partial(jax.jit, donate_argnums=2)
    @functools.partial(jax.vmap, in_axes=(0, 0, 0, 0))
    def scanned(kernel, key, state, data):
        def step(state, t):
            randomness = kernel.draw(jax.random.fold_in(key, t), state, data)
            state, info = kernel.transition(randomness, state, data)
            return state, (randomness, info)

        return jax.lax.scan(step, state, jnp.arange(STEPS))

    starts, ends = [], []
    for c, kernel in enumerate(kernels):
        data = jax.tree.map(lambda x, c=c: x[c], sets)
        start = kernel.init(keys[c], position, data)
        end, info = loop(kernel, keys[c], start, data)
        assert bool(info.is_finite)
        assert int(end.step) == STEPS
        assert not np.allclose(end.position, start.position)
        cost = kernel.evaluations(data)
        assert info.gradient_evaluations <= cost.of_steps(0, STEPS)
        assert cost.counted or info.gradient_evaluations == cost.of_steps(0, STEPS)
        starts.append(start)
        ends.append((end, info))
    eager, _ = kernels[0].step(
        jax.random.fold_in(keys[0], 0), starts[0], jax.tree.map(lambda x: x[0], sets)
    )
    close(eager, loop(kernels[0], keys[0], starts[0], jax.tree.map(lambda x: x[0], sets), 1)[0])

    mine = (position, sets, stack)
    together, (randomness, infos) = scanned(
        stack, keys, jax.tree.map(lambda *x: jnp.stack(x), *starts), sets
    )
    for c, (end, info) in enumerate(ends):
        close(jax.tree.map(lambda x, c=c: x[c], together), end)
        assert int(infos.gradient_evaluations[c].sum()) == info.gradient_evaluations
        np.testing.assert_allclose(infos.step_size[c], sizes[c])
    assert not any(
        leaf.is_deleted() for leaf in jax.tree.leaves(mine) if isinstance(leaf, jax.Array)
    )
    # What the last step drew, bit for bit where it is whole numbers.
    for c, kernel in enumerate(kernels):
        data = jax.tree.map(lambda x, c=c: x[c], sets)
        before, _ = loop(kernel, keys[c], starts[c], data, STEPS - 1)
        alone = kernel.draw(jax.random.fold_in(keys[c], STEPS - 1), before, data)
        same_bits(_words(alone), _words(jax.tree.map(lambda x, c=c: x[c, -1], randomness)))


def _words(randomness):
    """What must agree bit for bit: integers; and normals, by one formula from the same bits."""
    return [x for x in jax.tree.leaves(randomness) if x.dtype == jnp.int32]


@contract.every_kernel(shift=0)
def test_sample_is_stepping(x64, name, options):
    """The compiled run is the plain loop over keys of (key, chain, step), however it is cut."""
    kernel, data, key = contract.build(name, options), contract.data(), jax.random.key(5)
    position = jnp.asarray(contract.POSITION)
    run = functools.partial(ewsg.sample, key, kernel, position, data, STEPS, burn_in=2, thin=3)
    samples = run(num_chains=3)
    assert samples.position.shape == (3, 3, 3)
    assert samples.step.tolist() == [5, 8, 11]
    init_key, run_key, _ = jax.random.split(key, 3)
    counted = []
    for chain in range(3):
        own_key = jax.random.fold_in(run_key, chain)
        start = kernel.init(
            jax.random.fold_in(jax.random.fold_in(init_key, 1), chain), position, data
        )
        state, info = loop(kernel, own_key, start, data, samples.num_steps)
        counted.append(info.gradient_evaluations)
        close(state.position, samples.state.position[chain])
        fifth, _ = loop(kernel, own_key, start, data, 5)
        np.testing.assert_allclose(samples.position[chain, 0], fifth.position, rtol=1e-9)
    assert len(np.unique(samples.position[:, -1], axis=0)) == 3, "chains must differ"
    cost = kernel.evaluations(data)
    if cost.counted:
        assert samples.gradient_evaluations == 3 * cost.at_init + sum(counted)
    else:
        spent = [cost.at_init + cost.of_steps(0, count) for count in (5, 8, 11, STEPS)]
        assert samples.evaluations.tolist() == spent[:3]
        assert samples.gradient_evaluations == 3 * spent[3]
    # One chain in blocks of one step.
    close(samples.position[:1], run(num_chains=1, randomness_memory=1).position)
    if uses_batches(kernel):
        shared = ewsg.sample(
            key, kernel, position, data, STEPS, num_chains=2, shared_minibatch=True
        )
        assert shared.is_finite.all()


@contract.every_kernel(shift=5)
def test_sharded_chains_are_one_device(x64, name, options):
    kernel, data = contract.build(name, options), contract.data()
    assert jax.device_count() >= 2, "tests/conftest.py asks for two devices"
    mesh = jax.make_mesh((2,), ("chains",), axis_types=(AxisType.Auto,))
    keys = jax.random.split(jax.random.key(7), 4)
    states = jax.vmap(kernel.init, in_axes=(0, None, None))(
        keys, jnp.asarray(contract.POSITION), data
    )
    step = jax.jit(jax.vmap(kernel.step, in_axes=(0, 0, None)))
    sharding = NamedSharding(mesh, PartitionSpec("chains"))
    sharded = step(jax.device_put(keys, sharding), jax.device_put(states, sharding), data)
    assert len(jax.tree.leaves(sharded)[0].sharding.device_set) == 2
    close(jax.tree.map(np.asarray, sharded), jax.tree.map(np.asarray, step(keys, states, data)))


@contract.every_kernel(shift=6)
def test_keys_are_used_once(name, options, monkeypatch):
    """JAX's checker is content; every key that draws noise or rows is seen once in a run."""
    kernel, data, key = contract.build(name, options), contract.data(jnp.float32), jax.random.key(8)
    position = jnp.asarray(contract.POSITION, jnp.float32)
    with jax.debug_key_reuse(True):
        state = kernel.init(jax.random.key(1), position, data)
        jax.jit(kernel.step)(jax.random.key(2), state, data)

    seen = []
    for function in ("noise", "index_words", "log_uniform"):
        monkeypatch.setattr(rng, function, _spy(getattr(rng, function), seen))
    ewsg.sample(key, contract.build(name, options), position, data, STEPS, num_chains=3)
    jax.effects_barrier()
    estimator = ewsg.METHODS[name].estimator
    draws = 1 if estimator == "full" else 2 + (options.get("option") == "I")
    if estimator.startswith("exponentially_weighted"):
        draws += 1 + options["num_proposals"]
    draws += options.get("correction", False)
    at_init = options.get("structure") == "low_rank" or name in ("sgnht", "flymc")
    # A memory that chains share is made once more.
    once_for_all = name == "flymc"
    assert len(seen) == 3 * (STEPS * draws + at_init) + once_for_all
    assert len(set(seen)) == len(seen)


def _spy(function, seen):
    def spied(key, *arguments, **options):
        jax.debug.callback(
            lambda words: seen.append(tuple(words.tolist())), jax.random.key_data(key)
        )
        return function(key, *arguments, **options)

    return spied


@contract.every_kernel(shift=7)
def test_one_trace(name, options):
    traces = []
    model = ewsg.models.logistic_regression()

    def counted(logits, rows):
        traces.append(1)
        return model.predictor.residual(logits, rows)

    def counted_bound(*arguments):
        traces.append(1)
        return model.bound.gaps(*arguments)

    def counted_prior(position):
        traces.append(1)
        return model.log_prior(position)

    posterior = ewsg.Posterior.linear(
        model.predictor.log_likelihood,
        # Metropolis evaluates no gradient.
        counted_prior if name == "random_walk_metropolis" else model.log_prior,
        inputs=model.predictor.inputs,
        residual=counted,
        bound=altered(model.bound, gaps=counted_bound),
    )
    kernel, data = contract.build(name, options, posterior), contract.data(jnp.float32)
    position = jnp.asarray(contract.POSITION, jnp.float32)
    ewsg.sample(jax.random.key(0), kernel, position, data, 20, num_chains=2)
    first = len(traces)
    is_plain = ewsg.METHODS[name].memory == "none" and ewsg.METHODS[name].estimator != "none"
    assert 0 < first <= (2 if is_plain else 24)
    ewsg.sample(jax.random.key(1), kernel, position + 1, data, 20, num_chains=2, burn_in=3, thin=2)
    again = len(traces)
    assert again <= 2 * first, (
        "another thinning may change the size of the buffer of draws, nothing else"
    )
    ewsg.sample(jax.random.key(2), kernel, position, data, 20, num_chains=2)
    assert len(traces) == again


@contract.every_kernel(shift=8)
def test_data_stay_out_of_the_program(name, options):
    """The lowered step has one length for any n: no data is a constant in it."""
    kernel = contract.build(name, options)

    def length(n):
        shapes = {
            "x": jax.ShapeDtypeStruct((n, 3), jnp.float32),
            "y": jax.ShapeDtypeStruct((n,), jnp.float32),
        }
        state = jax.eval_shape(kernel.init, jax.random.key(0), jnp.zeros(3), shapes)
        return len(jax.jit(kernel.step).lower(jax.random.key(1), state, shapes).as_text())

    # Both above the chunk size and below the two-word limit; only the printed lengths may differ.
    assert abs(length(10_000) - length(100_000)) <= 200


def posterior_of_trees():
    def log_likelihood(position, row):
        logit = row["x"] @ position["weights"] + position["nested"][0]
        return row["y"] * logit - jax.nn.softplus(logit)

    def log_prior(position):
        return -0.5 * sum(
            jnp.sum(leaf**2).astype(jnp.float32) for leaf in jax.tree.leaves(position)
        )

    return ewsg.Posterior(log_likelihood, log_prior)


@pytest.mark.usual_parameters(
    "ld",
    "uld-exact",
    "sghmc-semi_implicit-True-random",
    "sghmc-ABOBA-True-random",
    "hamcmc-True-random",
    "ewsg_ld-True-blocks",
    "cp_sghmc-euler",
    "svrg_ld-True-blocks-II",
    "cv_ld-True-random",
    "cv_uld-True-blocks",
    "saga_hmc-True-random",
    "svrg2nd_hmc-False-random-II",
    "nc_sghmc-semi_implicit-False-low_rank",
    "psgld-True-random-False",
    "random_walk_metropolis",
    "psgld-False-random-True",
)
@contract.every_pair()
def test_trees_and_dtypes_are_kept(x64, name, options):
    """Leaves of several dtypes, for any of the hyperparameters, float64 arrays here."""
    position = {
        "weights": jnp.zeros(3, jnp.float32),
        "nested": (jnp.zeros((), jnp.bfloat16), None, jnp.zeros((2, 1), jnp.float16)),
        "wide": jnp.zeros((), jnp.float64),
    }
    arrays = {
        "friction",
        "temperature",
        "inverse_mass",
        "damping",
        "decay",
        "trust_region",
        "initial_scale",
    }
    options = {
        key: jnp.asarray(value) if key in arrays else value for key, value in options.items()
    }
    kernel = contract.build(name, options, posterior_of_trees(), step_size=jnp.asarray(0.05))
    data = contract.data(jnp.float32)
    state = jax.eval_shape(kernel.init, jax.random.key(0), position, data)
    moved, _ = jax.eval_shape(kernel.step, jax.random.key(1), state, data)
    chex.assert_trees_all_equal_shapes_and_dtypes(moved, state)
    chex.assert_trees_all_equal_shapes_and_dtypes(moved.position, position)


@pytest.mark.full
@contract.every_kernel(shift=9)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_steps_in_few_bits_are_finite(name, options, dtype):
    dtype = jnp.dtype(dtype)
    kernel = contract.build(name, options, posterior_of_trees())
    position = {"weights": jnp.zeros(3, dtype), "nested": (jnp.zeros((), dtype), None)}
    state = kernel.init(jax.random.key(0), position, contract.data(dtype))
    moved, info = jax.jit(kernel.step)(jax.random.key(1), state, contract.data(dtype))
    assert bool(info.is_finite)
    chex.assert_trees_all_equal_shapes_and_dtypes(moved, state)
