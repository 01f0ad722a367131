"""Epochs and sweeps of blocks: every block once, cut after cut; and epochs of any kind, many steps at once."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import _random
from ewsg_jax.rows import gathering
from ewsg_jax.rows.block_epochs import BlockEpoch
from ewsg_jax.rows.named import row_law
from tests.gradients.test_enumeration import N, X, Y, as_jax, close, no_weight
from tests.gradients.test_row_laws import MOST
from tests.oracles import enumeration

quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
LAWS = ("block_epochs", "block_sweeps")
SIZES = [(5, 5), (7, 3), (100, 5), (101, 7)]


def memories(law, seed=0, num_chains=2):
    return jax.vmap(law.init)(jax.random.split(jax.random.key(seed), num_chains))


@functools.cache
def stream(n, batch_size, rows, num_steps):
    """The batches of two chains, one step after the other: indices (chains, steps, b)."""
    law, data = row_law(batch_size, True, rows), jnp.arange(n, dtype=jnp.float32)

    def step(memory, _):
        batch = law.batch((), memory, data)
        return law.advance(memory, data), (batch.indices, gathering.rows_of(batch, data))

    run = lambda memory: jax.lax.scan(step, memory, length=num_steps)[1]
    indices, found = quick_jit(jax.vmap(run))(memories(law))
    np.testing.assert_array_equal(found, np.asarray(indices, np.float32))
    return np.asarray(indices)


def blocks_of(indices, n):
    """The first row of each block, of which the others are the next ones around the circle: (…,)."""
    rows = np.sort(indices, axis=-1)
    # The first one is that before which a row is missing; in a block of all rows it is row 0.
    gap = (np.roll(rows, 1, axis=-1) + 1) % n != rows
    assert np.all(gap.sum(axis=-1) == (1 if indices.shape[-1] < n else 0))
    return np.take_along_axis(rows, gap.argmax(axis=-1)[..., None], axis=-1)[..., 0]


@pytest.mark.parametrize("rows", LAWS)
@pytest.mark.parametrize(("n", "batch_size"), SIZES)
def test_every_block_comes_once_in_an_epoch(n, batch_size, rows):
    """The cut of an order begins where the last one ended; sweeps take each twice, the second time backwards."""
    count, orders, halves = n // batch_size, 6, 1 + (rows == "block_sweeps")
    for indices in stream(n, batch_size, rows, count * orders * halves):
        starts = blocks_of(indices, n).reshape(orders, halves, count)
        if halves == 2:
            np.testing.assert_array_equal(starts[:, 1], starts[:, 0, ::-1])
        starts = starts[:, 0]
        first = min(starts[0], key=lambda row: tuple(np.sort((starts[0] - row) % n)))
        first = 0 if n % batch_size == 0 else first
        for number in range(orders):
            cut = first + number * count * batch_size
            expected = (cut + batch_size * np.arange(count)) % n
            np.testing.assert_array_equal(np.sort(starts[number]), np.sort(expected))
        if count >= 14:
            assert len(np.unique((starts - starts[:, :1]) % n, axis=0)) == orders
    if count >= 14:
        one, other = stream(n, batch_size, rows, count * orders * halves)
        assert not np.array_equal(one - one[:1], other - other[:1])


@pytest.mark.parametrize("rows", LAWS)
def test_in_the_long_run_all_rows_come_as_often(rows):
    """Seven rows in blocks of three: in seven orders each row is left out once."""
    steps = 2 * 7 * (1 + (rows == "block_sweeps"))
    for indices in stream(7, 3, rows, steps):
        assert len(set(np.bincount(indices.ravel(), minlength=7))) == 1


@pytest.mark.parametrize("batch_size", [2, 4, 5])
def test_estimates_are_unbiased_in_every_place(x64, batch_size):
    """Over all first rows: each row is in b of n batches of a step, whichever step it is."""
    model = ewsg.models.linear_regression(noise_scale=0.8, prior_scale=0.7)
    w, data = np.array([0.3, -0.5, 0.9]), as_jax({"x": X, "y": Y})
    estimator = ewsg.gradients.uniform(model, batch_size=batch_size, rows="block_epochs")
    # The words that lead to first row 0, 1, …; where b divides n all do to row 0, and the order is averaged over.
    aligned = N % batch_size == 0
    count = 600 if aligned else N
    words = jnp.asarray([[5, k, -(-(k % N) * 2**32 // N), 0] for k in range(count)], jnp.uint32)
    if not aligned:
        words = words.at[:, 1].set(0)

    @quick_jit
    def gradients(words):
        def step(memory, _):
            estimate, memory = estimator.propose((), memory, jnp.asarray(w), data, no_weight)
            return memory, (estimate.gradient, estimate.batch)

        return jax.lax.scan(step, estimator.init(jax.random.key(0), w, data)._replace(words=words), length=7)[1]

    values, indices = jax.vmap(gradients)(words)
    per_datum, prior = enumeration.linear_regression(w, X, Y, 0.8), enumeration.normal_prior(w, 0.7)
    for step in range(7):
        seen = np.bincount(np.ravel(indices[:, step]), minlength=N)
        if aligned:
            # Blocks of an order that is as good as any: 5 standard deviations.
            share = batch_size / N
            assert np.abs(seen / count - share).max() <= 5 * math.sqrt(share * (1 - share) / count)
        else:
            np.testing.assert_array_equal(seen, batch_size)
            close(np.mean(values[:, step], axis=0), enumeration.full_gradient(per_datum, prior))
    # The estimate of each batch gives every row the weight n/b.
    batches = np.asarray(indices).reshape(-1, batch_size)
    close(np.asarray(values).reshape(-1, 3), enumeration.stochastic_gradients(per_datum, prior, batches))


# Many steps at once.


@pytest.mark.parametrize("rows", ["epochs", *LAWS])
@pytest.mark.parametrize(("n", "batch_size", "done", "num_steps"), [(7, 3, 3, 30), (40, 4, 7, 6), (9, 1, 2, 4)])
def test_many_steps_at_once_are_those_steps(rows, n, batch_size, done, num_steps):
    """Over the ends of several epochs, of one, and within an epoch."""
    law, data = row_law(batch_size, True, rows), {"x": jnp.arange(4.0 * n).reshape(n, 4), "y": jnp.arange(n)}

    @quick_jit
    def run(memory):
        advance = jax.vmap(lambda memory: law.advance(memory, data))
        memory = jax.lax.fori_loop(0, done, lambda _, m: advance(m), memory)
        batch = jax.vmap(lambda memory: law.batch((), memory, data).indices)
        one_by_one = jax.lax.scan(lambda m, _: (advance(m), batch(m)), memory, length=num_steps)[1]
        chosen = law.ahead((), memory, np.arange(num_steps), data)
        fetched = law.gather(chosen, data)
        again = jax.vmap(jax.vmap(lambda one: law.batch(one, (), data)))(fetched)
        alone = law.ahead((), jax.tree.map(lambda x: x[1], memory), np.arange(num_steps), data)
        return one_by_one, fetched.indices, gathering.rows_of(again, data), chosen[:, 1], alone

    one_by_one, indices, found, of_second, alone = run(memories(law))
    np.testing.assert_array_equal(indices, one_by_one)
    np.testing.assert_array_equal(found["y"], one_by_one)
    np.testing.assert_array_equal(found["x"], np.asarray(data["x"])[np.asarray(one_by_one)])
    np.testing.assert_array_equal(of_second, alone)


ESTIMATORS = ["uniform", "svrg", "saga", "control_variate", "covariance_tracking", "kept_covariance"]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_estimator_lets_its_rows_be_chosen_ahead(kind):
    """Of six rows four a step: the same steps as where each chooses its own."""
    rows = "epochs" if "covariance" in kind else "block_sweeps"
    model, data = ewsg.models.linear_regression(), as_jax({"x": X, "y": Y})
    estimator = getattr(ewsg.gradients, kind)(model, batch_size=4, rows=rows)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    if "covariance" in kind:
        kernel = ewsg.kernel(ewsg.dynamics.noise_corrected(1e-3, friction=1.0), estimator)

    @quick_jit
    def run(key):
        state = kernel.init(key, jnp.zeros(3), data)
        keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(7))
        randomness = jax.vmap(lambda key: kernel.draw(key, state, data))(keys)
        ahead = kernel.gather(kernel.ahead(randomness, state, np.arange(7), data), data)
        step = lambda state, drawn: (kernel.transition(drawn, state, data)[0], None)
        return ahead, jax.lax.scan(step, state, ahead)[0], jax.lax.scan(step, state, randomness)[0]

    ahead, one, other = run(jax.random.key(2))
    batch = ahead.batch.batch if kind == "svrg" else ahead.batch
    assert batch.indices.shape == (7, 4)
    for mine, its in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", ["epochs", "block_sweeps"])
def test_a_run_is_its_steps(x64, rows):
    """Whole, in blocks of one step and in two parts; and one step after the other."""
    model, data = ewsg.models.gaussian_location(), jnp.asarray(np.random.default_rng(0).normal(size=(23, 1)))
    kernel = ewsg.sghmc(model, 0.05, friction=1.0, batch_size=4, rows=rows)
    key, start = jax.random.key(1), jnp.zeros(1)
    run = functools.partial(ewsg.sample, key, kernel, data=data, num_chains=2, progress=False)
    whole = run(position=start, num_steps=40)
    _, run_key, _ = jax.random.split(key, 3)
    step = quick_jit(jax.vmap(kernel.step, in_axes=(0, 0, None)))
    first = run(position=start, num_steps=1)
    state, own = first.state, jax.vmap(lambda chain: jax.random.fold_in(run_key, chain))(jnp.arange(2))
    for t in range(1, 40):
        state, _ = step(jax.vmap(lambda key, t=t: jax.random.fold_in(key, t))(own), state, data)
    for others in (state, run(position=start, num_steps=40, randomness_memory=1).state):
        for mine, its in zip(jax.tree.leaves(whole.state), jax.tree.leaves(others), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9)


# As many rows as there are numbers for.


@pytest.mark.parametrize("batch_size", [1, 5, 2**30, MOST])
def test_blocks_near_the_end_of_32_bits(batch_size):
    """Cuts, places and starts in Python's integers; the data are none at all."""
    count, left_out = divmod(MOST, batch_size)
    law, last = row_law(batch_size, True, "block_epochs"), MOST - 1
    # The last two words lead to the last row.
    words, steps = jnp.array([1, 2, 2**32 - 1, 2**32 - 1], jnp.uint32), np.arange(3)
    then = [divmod(count - 1 + int(step), count) for step in steps]

    @quick_jit
    def run(back):
        data = jnp.broadcast_to(jnp.uint8(0), (MOST,))  # of which no number is used
        memory = BlockEpoch(words, jnp.int32(3), jnp.int32(count - 1), back)
        blocks = [
            _random.permuted(words[:2], jnp.int32(3 + later), jnp.int32(place), count) for later, place in then
        ]
        return law.ahead((), memory, steps, data), law.advance(memory, data), blocks

    for back in (0, 1, MOST - 1):
        starts, after, blocks = run(jnp.int32(back))
        for start, block, (later, _) in zip(starts.tolist(), blocks, then, strict=True):
            cut = (last - back - later * left_out) % MOST if left_out else 0
            assert start == (cut + int(block) * batch_size) % MOST
        assert (int(after.number), int(after.place)) == (4, 0)
        assert int(after.back) == ((back + left_out) % MOST if left_out else back)
