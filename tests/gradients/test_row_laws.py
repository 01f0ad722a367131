"""Blocks and reshuffled epochs: every block of small data, permutations of many keys."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base import rng
from ewsg_jax.rows import _view as view
from ewsg_jax.rows._named import sampling_scheme
from ewsg_jax.rows._scheme import Order
from ewsg_jax.run.layout import ProgramLayout, choose_layout
from tests.gradients.six_rows import N, X, Y, as_jax
from tests.oracles import enumeration

# A datum of several parts: vectors, whole numbers, a matrix, a scalar.
ROWS = np.random.default_rng(5)
PARTS = {
    "vector": ROWS.normal(size=(N, 3)),
    "matrix": ROWS.normal(size=(N, 2, 4)),
    "label": np.arange(N, dtype=np.int32),
    "scalar": ROWS.normal(size=N),
}
AHEAD = ["random", "blocks", "epochs", "block_epochs", "block_sweeps"]
SIZES = [1, 2, 3, 5, 7, 16, 100, 1000]


def assert_rows_are(batch, indices, data):
    """The rows of gathered batches are the data at their numbers, bit for bit."""
    found = view.fetched(batch, data).rows
    for name, leaf in data.items():
        np.testing.assert_array_equal(found[name], np.asarray(leaf)[indices], err_msg=name)


# Blocks.


@pytest.mark.usual_parameters("3", "6")
@pytest.mark.parametrize("batch_size", range(1, N + 1))
def test_blocks_are_the_cyclic_ones(x64, batch_size):
    """All n starts: each block b rows in order, around the end too; each row in b of them."""
    law, data = sampling_scheme(batch_size, True, "blocks"), as_jax(PARTS)
    blocks = law.batches(data)
    assert blocks.start.dtype == jnp.int32
    np.testing.assert_array_equal(blocks.start, np.arange(N))
    batches = view.fetch(blocks, data)
    assert batches.indices.dtype == jnp.int32
    np.testing.assert_array_equal(
        np.sort(batches.indices), np.sort(enumeration.blocks(N, batch_size))
    )
    np.testing.assert_array_equal(np.bincount(np.ravel(batches.indices)), batch_size)
    assert_rows_are(batches, np.asarray(batches.indices), data)
    again = view.fetched(jax.tree.map(lambda x: x[2], batches), data)
    np.testing.assert_array_equal(again.indices, batches.indices[2])
    in_step = jax.jit(jax.vmap(lambda block: view.fetched(block, data)))(blocks)
    np.testing.assert_array_equal(in_step.indices, batches.indices)
    assert_rows_are(in_step, np.asarray(batches.indices), data)


@pytest.mark.full
@pytest.mark.parametrize("rows", AHEAD)
def test_rows_are_fetched_ahead_of_the_step(rows):
    """A run draws the rows of many steps at once, and fetches them at once."""
    data = {"x": jnp.zeros((N, 3)), "y": jnp.zeros(N)}
    kernel = ewsg.sgld(ewsg.models.linear_regression(), 1e-3, batch_size=4, rows=rows)
    state = jax.vmap(lambda key: kernel.init(key, jnp.zeros(3), data))(
        jax.random.split(jax.random.key(0), 2)
    )
    known = ProgramLayout(
        shared_minibatch=False, shared_memory=False, num_slots=1, keep=None, moments=None
    )
    layout, _ = choose_layout(kernel, state, data, 10, 2**20, known)
    assert (layout.gather_ahead, layout.block_size) == (True, 10)


def test_every_start_of_a_block_has_its_share_of_words(monkeypatch):
    """One word each: the words of start s are those from ⌈s 2³²/n⌉ to ⌈(s + 1) 2³²/n⌉ − 1."""
    law, data = sampling_scheme(2, True, "blocks"), as_jax(PARTS)
    first = [-(-start * 2**32 // N) for start in range(N + 1)]
    shapes = []

    def draw(word):
        def bits(key, shape, dtype):
            shapes.append(shape)
            return jnp.full(shape, word, dtype)

        monkeypatch.setattr(jax.random, "bits", bits)
        return int(law.draw(jax.random.key(0), data).start)

    assert [draw(word) for word in first[:-1]] == list(range(N))
    assert [draw(word - 1) for word in first[1:]] == list(range(N))
    assert set(shapes) == {(1, 1)}


# Epochs.


WORDS = jnp.array([3, 4, 5, 6], jnp.uint32)


def stream(n, batch_size, steps):
    """Batches of some steps, by their numbers as they are counted in 32 bits, shape (steps, b)."""
    law, data = sampling_scheme(batch_size, True, "epochs"), jnp.arange(n, dtype=jnp.float32)

    def of_step(step):
        batch = view.fetched(law.draw(jax.random.key(0), data, Order(WORDS, step)), data)
        return batch.indices, batch.rows

    indices, rows = jax.jit(jax.vmap(of_step))(np.asarray(steps, np.uint32).astype(np.int32))
    np.testing.assert_array_equal(rows, np.asarray(indices, np.float32))
    return np.asarray(indices)


@pytest.mark.usual_parameters("1-1-0", "3-3-4294966596", "7-5-2147483648")
@pytest.mark.parametrize("first", [0, 2**31, 2**32 - 700])
@pytest.mark.parametrize(("n", "batch_size"), [(1, 1), (3, 3), (5, 3), (7, 5), (100, 7)])
def test_no_row_comes_twice_in_an_epoch(n, batch_size, first):
    """⌊n/b⌋ steps; where b does not divide n, others are left out. A step's number has 32 bits."""
    count = n // batch_size
    first = -(-first // count) * count
    indices = stream(n, batch_size, first + np.arange(6 * count)).reshape(6, count * batch_size)
    for number, epoch in enumerate(indices):
        assert len(set(epoch.tolist())) == count * batch_size
        permuted = rng.permuted(WORDS[:2], jnp.uint32(first // count + number), jnp.arange(n), n)
        np.testing.assert_array_equal(epoch, permuted[: count * batch_size])
    if n >= 100:
        assert len(np.unique(indices, axis=0)) == 6
        assert len({frozenset(range(n)) - set(epoch.tolist()) for epoch in indices}) == 6


def test_rows_of_an_epoch_are_the_datas():
    law = sampling_scheme(4, True, "epochs")
    data = jax.tree.map(lambda x: jnp.asarray(x, np.float32), PARTS)
    draw = lambda: view.fetched(law.draw(jax.random.key(0), data, Order(WORDS, jnp.int32(1))), data)
    batch = jax.jit(draw)()
    assert_rows_are(batch, np.asarray(batch.indices), data)
    np.testing.assert_array_equal(
        batch.indices, rng.permuted(WORDS[:2], jnp.int32(1), jnp.arange(4), N)
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", ["uniform", "svrg", "saga", "control_variate", "covariance_tracking"]
)
def test_every_estimator_goes_on_in_its_epoch(kind):
    """Six rows, two a step: three steps are an epoch; each chain has words of its own."""
    model = ewsg.models.linear_regression()
    estimator = getattr(ewsg.gradients, kind)(model, batch_size=2, rows="epochs")
    data = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), {"x": X, "y": Y})
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    assert estimator.law.ordered
    assert not ewsg.rows.lists_batches(estimator)

    @jax.jit
    def run(key):
        def step(state, _):
            drawn = kernel.draw(key, state, data)
            return kernel.transition(drawn, state, data)[0], drawn.batch

        return jax.lax.scan(step, kernel.init(key, jnp.zeros(3), data), length=6)[1]

    streams = []
    for seed in range(2):
        batch = run(jax.random.key(seed))
        indices = np.asarray((batch.batch if kind == "svrg" else batch).indices)
        np.testing.assert_array_equal(
            np.sort(indices.reshape(2, N), axis=1), np.tile(np.arange(N), (2, 1))
        )
        streams.append(indices.tolist())
    assert streams[0] != streams[1]


@pytest.mark.parametrize(
    ("replace", "rows"), [(True, "random"), (False, "random"), (True, "blocks")]
)
def test_distinct_says_whether_a_row_may_come_twice(replace, rows):
    law, data = sampling_scheme(4, replace, rows), jnp.zeros(N)
    indices = jax.vmap(lambda drawn: view.fetched(drawn, data).indices)(law.batches(data))
    assert law.distinct == all(len(set(batch)) == 4 for batch in indices.tolist())


# As many rows as there are numbers for.

MOST = 2**31 - 1


def test_rows_near_the_end_of_32_bits():
    """The last batches of an epoch and a block over the data's end, where data are none at all."""
    law, count = sampling_scheme(5, True, "epochs"), MOST // 5
    places, block = (
        jnp.arange(5, dtype=jnp.int32),
        sampling_scheme(5, True, "blocks").batches(jnp.zeros(6)),
    )

    @jax.jit
    def run(step, start):
        data = jnp.broadcast_to(jnp.uint8(0), (MOST,))  # of which no number is used
        drawn = law.draw(jax.random.key(0), data, Order(WORDS, step)).indices
        return drawn, view.fetched(dataclasses.replace(block, start=start), data).indices

    for number, place in ((0, count - 1), (1, 0), (3, count - 2)):
        step = np.uint32(number * count + place).astype(np.int32)
        epoch, _ = run(step, jnp.int32(0))
        np.testing.assert_array_equal(
            epoch, rng.permuted(WORDS[:2], jnp.int32(number), 5 * place + places, MOST)
        )
    for left in (1, 3, 5):
        _, found = run(jnp.int32(0), jnp.int32(MOST - left))
        np.testing.assert_array_equal(np.sort(found), [*range(5 - left), *range(MOST - left, MOST)])
    np.testing.assert_array_equal(
        run(jnp.int32(0), jnp.int32(MOST - 6))[1], np.arange(MOST - 6, MOST - 1)
    )


# Refusals.


@ewsg.module
class Pairs(ewsg.rows.RowLaw):
    """Each row twice, in a batch of an even size."""

    returns: str = ewsg.static(default="batch")

    def draw(self, key, data, order=None):
        assert order is None
        rows = jnp.repeat(jax.random.randint(key, (self.batch_size // 2,), 0, N), 2)
        if self.returns == "too few":
            return ewsg.rows.Batch(rows[1:])
        return (
            rows
            if self.returns == "numbers"
            else ewsg.rows.Batch(rows, weights=self._weights(rows))
        )

    def _weights(self, rows):
        return jnp.ones(rows.shape) if self.returns == "weights" else None


@pytest.mark.parametrize(
    ("returns", "error", "match"),
    [
        (
            "numbers",
            TypeError,
            r"draw of pairs\(batch_size=4, returns='numbers'\) must return an "
            r"ewsg_jax\.rows\.Batch",
        ),
        ("too few", ValueError, r"must return 4 rows, shape \(4,\); got shape \(3,\)"),
        (
            "weights",
            ValueError,
            "must say whether its batches have weights; got False and a batch with weights",
        ),
    ],
)
def test_a_law_of_ones_own_draws_what_it_says(returns, error, match):
    model, data = ewsg.models.gaussian_location(), jnp.zeros((N, 1))
    for kind in ("uniform", "svrg", "saga", "control_variate"):
        estimator = getattr(ewsg.gradients, kind)(
            model, batch_size=4, rows=Pairs(batch_size=4, returns=returns)
        )
        with pytest.raises(error, match=match):
            estimator.check(jnp.zeros(1), data)
    with pytest.raises(ValueError, match="a scheme with independent = True"):
        ewsg.gradients.covariance_tracking(model, batch_size=4, rows=Pairs(batch_size=4))


def test_batches_of_a_draw_of_ones_own_are_not_listed_by_another_class():
    """Exact weights would be those of the batches that are listed, not of those that are drawn."""

    @ewsg.module
    class Doubled(type(ewsg.gradients.uniform(ewsg.models.gaussian_location(), batch_size=1))):
        def draw(self, key, data, order=None):
            return tuple(super(type(self), self).draw(k, data) for k in jax.random.split(key))

    model = ewsg.models.gaussian_location()
    estimator = Doubled(posterior=model, law=sampling_scheme(1, True, "random"))
    with pytest.raises(
        ValueError,
        match="chain_length must be finite for an estimator whose batches cannot be listed",
    ):
        ewsg.gradients.exponentially_weighted(estimator, chain_length=np.inf)
