"""Epochs and sweeps of blocks: every block once, from its own cut; epochs of any kind."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base import rng
from ewsg_jax.rows import _view as view
from ewsg_jax.rows._named import sampling_scheme
from ewsg_jax.rows._scheme import Order
from tests.gradients.six_rows import N, X, Y, as_jax, close, no_weight
from tests.gradients.test_row_laws import MOST
from tests.oracles import enumeration

LAWS = ("block_epochs", "block_sweeps")
SIZES = [(5, 5), (7, 3), (100, 5), (101, 7)]


def order(words, step):
    return Order(jnp.asarray(words, jnp.uint32), jnp.asarray(step, jnp.int32))


def words_of(num_chains, seed=0):
    return jax.random.bits(jax.random.key(seed), (num_chains, 4), jnp.uint32)


@functools.cache
def stream(n, batch_size, rows, num_steps):
    """The batches of two chains, one step after the other: indices (chains, steps, b)."""
    law, data = sampling_scheme(batch_size, True, rows), jnp.arange(n, dtype=jnp.float32)

    def of_step(words, step):
        batch = view.fetched(law.draw(jax.random.key(0), data, order(words, step)), data)
        return batch.indices, batch.rows

    every = jax.vmap(jax.vmap(of_step, (None, 0)), (0, None))
    indices, found = jax.jit(every)(words_of(2), jnp.arange(num_steps))
    np.testing.assert_array_equal(found, np.asarray(indices, np.float32))
    return np.asarray(indices)


def blocks_of(indices, n):
    """The first row of each block, of which the others follow around the circle: (…,)."""
    rows = np.sort(indices, axis=-1)
    # The first one is that before which a row is missing; in a block of all rows it is row 0.
    gap = (np.roll(rows, 1, axis=-1) + 1) % n != rows
    assert np.all(gap.sum(axis=-1) == (1 if indices.shape[-1] < n else 0))
    return np.take_along_axis(rows, gap.argmax(axis=-1)[..., None], axis=-1)[..., 0]


@pytest.mark.usual_parameters("7-3-block_epochs", "5-5-block_sweeps")
@pytest.mark.parametrize("rows", LAWS)
@pytest.mark.parametrize(("n", "batch_size"), SIZES)
def test_every_block_comes_once_in_an_epoch(n, batch_size, rows):
    """Cut from the order's own row where b does not divide n; sweeps take each there and back."""
    count, orders, halves = n // batch_size, 6, 1 + (rows == "block_sweeps")
    cuts = []
    for indices in stream(n, batch_size, rows, count * orders * halves):
        starts = blocks_of(indices, n).reshape(orders, halves, count)
        if halves == 2:
            np.testing.assert_array_equal(starts[:, 1], starts[:, 0, ::-1])
        for own in starts[:, 0]:
            # The rows that are left out stand before the cut.
            left_out = set(range(n)) - set(
                ((own[:, None] + np.arange(batch_size)) % n).ravel().tolist()
            )
            assert len(left_out) == n % batch_size
            cuts.append(
                next(
                    (row for row in range(n) if row not in left_out and (row - 1) % n in left_out),
                    0,
                )
            )
            expected = (cuts[-1] + batch_size * np.arange(count)) % n
            np.testing.assert_array_equal(np.sort(own), np.sort(expected))
        if count >= 14:
            assert len(np.unique((starts[:, 0] - starts[:, 0, :1]) % n, axis=0)) == orders
    assert (len(set(cuts)) > 1) == (n % batch_size > 0)
    if count >= 14:
        one, other = stream(n, batch_size, rows, count * orders * halves)
        assert not np.array_equal(one - one[:1], other - other[:1])


def words_to_each_cut():
    """Words whose first order is cut at row 0, 1, …, n − 1; the order is the same for all."""
    tried = jnp.asarray([[5, 0, k, 7] for k in range(64)], jnp.uint32)
    cut = lambda words: rng.permuted(words[2:], jnp.int32(0), jnp.int32(0), N)
    cuts = np.asarray(jax.jit(jax.vmap(cut))(tried))
    return tried[jnp.array([int(np.flatnonzero(cuts == row)[0]) for row in range(N)])]


@pytest.mark.usual_parameters("4")
@pytest.mark.parametrize("batch_size", [2, 4, 5])
def test_estimates_are_unbiased_in_every_place(x64, batch_size):
    """Over all cuts: each row is in b of n batches of a step, whichever step of the epoch it is."""
    model = ewsg.models.linear_regression(noise_scale=0.8, prior_scale=0.7)
    w, data = np.array([0.3, -0.5, 0.9]), as_jax({"x": X, "y": Y})
    estimator = ewsg.gradients.uniform(model, batch_size=batch_size, rows="block_epochs")
    # Where b divides n there is one cut, and the order is averaged over.
    aligned, steps = N % batch_size == 0, N // batch_size
    count = 600 if aligned else N
    words = (
        jnp.asarray([[5, k, 0, 0] for k in range(count)], jnp.uint32)
        if aligned
        else words_to_each_cut()
    )

    @jax.jit
    def gradients(words):
        def of_step(step):
            drawn = estimator.draw(jax.random.key(0), data, order(words, step))
            estimate, _ = estimator.propose(drawn, (), jnp.asarray(w), data, no_weight)
            return estimate.gradient, estimate.batch.indices

        return jax.vmap(of_step)(jnp.arange(steps))

    values, indices = jax.vmap(gradients)(words)
    per_datum, prior = enumeration.linear_regression(w, X, Y, 0.8), enumeration.normal_prior(w, 0.7)
    for step in range(steps):
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
    close(
        np.asarray(values).reshape(-1, 3),
        enumeration.stochastic_gradients(per_datum, prior, batches),
    )


@pytest.mark.parametrize("rows", ["epochs", *LAWS])
def test_all_rows_are_as_probable(rows):
    """Seven rows in batches of three, 20,000 orders: each left out as often, to 5 sds."""
    law, data = sampling_scheme(3, True, rows), jnp.arange(7.0)
    draw = lambda words: (
        view.fetched(law.draw(jax.random.key(0), data, order(words, 0)), data).indices
    )
    seen = np.bincount(np.ravel(jax.jit(jax.vmap(draw))(words_of(20_000))), minlength=7)
    assert np.abs(seen / 20_000 - 3 / 7).max() <= 5 * math.sqrt(3 / 7 * 4 / 7 / 20_000)


# A run.


ESTIMATORS = [
    "uniform",
    "svrg",
    "saga",
    "control_variate",
    "covariance_tracking",
    "kept_covariance",
]


@pytest.mark.full
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_estimator_takes_the_rows_that_were_fetched(kind):
    """Of six rows four a step: the same steps as where each fetches its own."""
    rows = "epochs" if "covariance" in kind else "block_sweeps"
    model, data = ewsg.models.linear_regression(), as_jax({"x": X, "y": Y})
    estimator = getattr(ewsg.gradients, kind)(model, batch_size=4, rows=rows)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    if "covariance" in kind:
        kernel = ewsg.kernel(ewsg.dynamics.noise_corrected(1e-3, friction=1.0), estimator)

    @jax.jit
    def run(key):
        state = kernel.init(key, jnp.zeros(3), data)
        draw = lambda t: kernel.draw(jax.random.fold_in(key, t), state.at_step(t), data)
        randomness = jax.vmap(draw)(jnp.arange(7, dtype=jnp.int32))
        ahead = kernel.fetch(randomness, data)
        step = lambda state, drawn: (kernel.transition(drawn, state, data)[0], None)
        return ahead, jax.lax.scan(step, state, ahead)[0], jax.lax.scan(step, state, randomness)[0]

    ahead, one, other = run(jax.random.key(2))
    batch = ahead.batch.batch if kind == "svrg" else ahead.batch
    assert batch.indices.shape == (7, 4)
    for mine, its in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("rows", ["epochs", "block_sweeps"])
def test_a_run_is_its_steps(x64, rows):
    """Whole, in blocks of one step and in two parts; and one step after the other."""
    model = ewsg.models.gaussian_location()
    data = jnp.asarray(np.random.default_rng(0).normal(size=(23, 1)))
    kernel = ewsg.sghmc(model, 0.05, friction=1.0, batch_size=4, rows=rows)
    key, start = jax.random.key(1), jnp.zeros(1)
    run = functools.partial(ewsg.sample, key, kernel, data=data, num_chains=2)
    whole = run(position=start, num_steps=40)
    _, run_key, _ = jax.random.split(key, 3)
    step = jax.jit(jax.vmap(kernel.step, in_axes=(0, 0, None)))
    first = run(position=start, num_steps=1)
    state = first.state
    own = jax.vmap(lambda chain: jax.random.fold_in(run_key, chain))(jnp.arange(2))
    for t in range(1, 40):
        state, _ = step(jax.vmap(lambda key, t=t: jax.random.fold_in(key, t))(own), state, data)
    for others in (state, run(position=start, num_steps=40, randomness_memory=1).state):
        for mine, its in zip(jax.tree.leaves(whole.state), jax.tree.leaves(others), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9)


# As many rows as there are numbers for.


@pytest.mark.full
@pytest.mark.parametrize("batch_size", [1, 5, 2**30, MOST])
def test_blocks_near_the_end_of_32_bits(batch_size):
    """Cuts, places and starts in Python's integers; steps beyond 2³¹, negative, to 2³²."""
    count, left_out = divmod(MOST, batch_size)
    law, words = (
        sampling_scheme(batch_size, True, "block_epochs"),
        jnp.array([1, 2, 3, 4], jnp.uint32),
    )
    steps = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]
    then = [divmod(step, count) for step in steps]

    @jax.jit
    def run():
        data = jnp.broadcast_to(jnp.uint8(0), (MOST,))  # of which no number is used
        starts, blocks, cuts = [], [], []
        for step, (number, place) in zip(steps, then, strict=True):
            signed = jnp.int32(step - 2**32 * (step >= 2**31))
            starts.append(law.draw(jax.random.key(0), data, Order(words, signed)).start)
            epoch = jnp.int32(number - 2**32 * (number >= 2**31))
            blocks.append(rng.permuted(words[:2], epoch, jnp.int32(place), count))
            cuts.append(rng.permuted(words[2:], epoch, jnp.int32(0), MOST))
        return starts, blocks, cuts

    for start, block, cut in zip(*run(), strict=True):
        first = int(cut) if left_out else 0
        assert int(start) == (first + int(block) * batch_size) % MOST
