"""Rows drawn within strata: every batch of small ones, and how rows go to the strata."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax.base import rng as random_module
from ewsg_jax.rows._strata import allocate
from tests.gradients.six_rows import MODELS, NAMES, N, as_jax, close, no_weight, shifted
from tests.oracles import enumeration

# Labels of the six rows, how many strata there are, b, and how many rows each stratum then gets (by
# hand).
STRATA = {
    "one each": ([0, 1, 0, 1, 1, 0], 2, 2, [1, 1]),
    "by size": ([2, 0, 0, 1, 0, 0], 3, 4, [2, 1, 1]),
    "two empty ones": ([3, 1, 3, 3, 1, 3], 4, 4, [0, 1, 0, 3]),
    "one stratum": ([0, 0, 0, 0, 0, 0], 1, 2, [2]),
    "a row each": ([5, 3, 1, 0, 2, 4], 6, 6, [1, 1, 1, 1, 1, 1]),
}


def words_of(batches, labels, strata):
    """For each place of each batch its row's least word, the k-th of a stratum: ⌈k 2³²/n_c⌉."""
    place = np.array(
        [np.searchsorted(np.flatnonzero(labels == labels[row]), row) for row in range(len(labels))]
    )
    size = np.bincount(labels, minlength=strata.max() + 1)[strata]
    return -(-place[batches] * 2**32 // size)


@functools.cache
def results(name, strata):
    """All batches, and what the estimator makes of them, each row by its least word and by its
    last.

    That is (estimates, rows, probes elsewhere), batches on the leading axis.
    """
    model = MODELS[name]
    labels, num_strata, batch_size, seats = STRATA[strata]
    labels = np.array(labels)
    estimator = ewsg.gradients.stratified(
        model.posterior,
        batch_size=batch_size,
        labels=lambda data: jnp.asarray(labels),
        num_strata=num_strata,
    )
    batches, places = enumeration.stratified_batches(labels, seats)
    first = words_of(batches, labels, places)
    size = np.bincount(labels)[places]
    # The last word of a row is the one before the next row's first.
    last = -(-((first * size >> 32) + 1) * 2**32 // size) - 1

    @jax.jit
    def every(words, position, elsewhere, data):
        memory = estimator.init(jax.random.key(0), position, data)

        def one(words):
            estimate, update = estimator.propose(words, memory, position, data, no_weight)
            assert update == ()
            probe = estimator.gradient_at(estimate, elsewhere, data)
            return ravel_pytree(estimate.gradient)[0], estimate.batch[0], ravel_pytree(probe)[0]

        return jax.vmap(one)(words)

    elsewhere = shifted(model.position, 0.5, -0.2)
    run = lambda words: jax.device_get(
        every(
            jnp.asarray(words[:, None], jnp.uint32),
            as_jax(model.position),
            as_jax(elsewhere),
            as_jax(model.data),
        )
    )
    return batches, run(first), run(last)


def weighted(per_datum, prior, labels, seats, batches):
    """∇V₀ + Σ_c (n_c/b_c) Σ_{i∈I_c} ∇Vᵢ of each batch."""
    weight = np.array([np.sum(labels == label) / seats[label] for label in labels])
    return prior + (weight[batches, None] * per_datum[batches]).sum(axis=1)


CASES = [(name, "by size") for name in NAMES] + [
    ("logistic_regression", key) for key in STRATA if key != "by size"
]


@pytest.mark.usual_parameters("custom-by size", "logistic_regression-two empty ones")
@pytest.mark.parametrize(("name", "strata"), CASES)
def test_over_all_batches(x64, name, strata):
    """Each batch, from both ends of its words, as probable: unbiased, Σ_c (n_c²/b_c) S_c."""
    model, labels, seats = MODELS[name], np.array(STRATA[strata][0]), STRATA[strata][3]
    batches, first, last = results(name, strata)
    assert len(batches) == np.prod([np.sum(labels == c) ** b for c, b in enumerate(seats)])
    per_datum, prior = model.per_datum(model.position), model.prior(model.position)
    elsewhere = shifted(model.position, 0.5, -0.2)
    for values, indices, probes in (first, last):
        np.testing.assert_array_equal(indices, batches)
        close(values, weighted(per_datum, prior, labels, seats, batches))
        close(
            probes,
            weighted(model.per_datum(elsewhere), model.prior(elsewhere), labels, seats, batches),
        )
    mean, covariance = enumeration.mean_and_covariance(
        values, np.full(len(batches), 1 / len(batches))
    )
    close(mean, enumeration.full_gradient(per_datum, prior))
    close(covariance, enumeration.stratified_covariance(per_datum, labels, seats))
    if len({np.sum(labels == c) / seats[c] for c in labels}) == 1:
        # Proportional: never more than of as many rows from anywhere.
        plain = enumeration.batch_covariance(per_datum, len(batches[0]), True)
        assert np.linalg.eigvalsh(plain - covariance).min() > -1e-12


def test_words_are_drawn_for_every_place():
    """As many words as rows a batch has, two for each where n asks for two; none is drawn twice."""
    estimator = ewsg.gradients.stratified(
        ewsg.models.gaussian_location(),
        batch_size=5,
        labels=lambda x: jnp.zeros(len(x), jnp.int32),
        num_strata=1,
    )
    draw = lambda n: jax.eval_shape(lambda: estimator.draw(jax.random.key(0), jnp.zeros((n, 1))))
    assert (draw(N).shape, draw(N).dtype) == ((1, 5), jnp.uint32)
    assert draw(random_module.ONE_WORD_LIMIT + 1).shape == (2, 5)
    assert len(np.unique(estimator.draw(jax.random.key(0), jnp.zeros((N, 1))))) == 5


# Allocation.


@functools.partial(jax.jit, static_argnums=1)
def allocated(sizes, batch_size):
    return jax.vmap(lambda one: allocate(one, batch_size))(sizes)


def random_sizes(num_strata, largest, count, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, largest + 1, size=(count, num_strata)) * (
        rng.random((count, num_strata)) < 0.8
    )
    sizes[sizes.sum(axis=1) == 0, 0] = 1
    return sizes.astype(np.int32)


@pytest.mark.usual_parameters("3-1-1", "3-10-10", "40-5-20", "2000-3-3")
@pytest.mark.parametrize(
    ("num_strata", "batch_size"), [(1, 1), (3, 3), (4, 7), (5, 20), (10, 10), (10, 100)]
)
@pytest.mark.parametrize("largest", [3, 40, 2000])
def test_allocation(num_strata, batch_size, largest):
    """b in all, one or more for each stratum with rows, then by largest remainder."""
    sizes = random_sizes(num_strata, largest, 300, num_strata * largest + batch_size)
    seats = np.asarray(allocated(jnp.asarray(sizes), batch_size))
    np.testing.assert_array_equal(seats.sum(axis=1), batch_size)
    np.testing.assert_array_equal(seats > 0, sizes > 0)
    proportional = 0
    for one, found in zip(sizes.tolist(), seats.tolist(), strict=True):
        expected = enumeration.one_each_then_greedy(one, batch_size)
        assert equal_but_for_ties(found, expected, one), (one, found, expected)
        if min(batch_size * size for size in one if size) >= sum(one):
            proportional += 1
            remainder = enumeration.largest_remainder(one, batch_size)
            assert equal_but_for_ties(found, remainder, one), (one, found, remainder)
    assert proportional > 0


def equal_but_for_ties(found, expected, sizes):
    """Equal; or strata that lack the same, which rounding may swap, have changed places."""
    n, b = sum(sizes), sum(expected)
    if found == expected:
        return True
    gained = [
        b * size - n * seat
        for size, seat, other in zip(sizes, expected, found, strict=True)
        if other > seat
    ]
    lost = [
        b * size - n * seat
        for size, seat, other in zip(sizes, found, expected, strict=True)
        if other > seat
    ]
    return sorted(gained) == sorted(lost) and all(
        abs(a - b) <= 1 for a, b in zip(found, expected, strict=True)
    )


def test_equal_strata_share_equally():
    np.testing.assert_array_equal(allocated(jnp.full((1, 4), 25), 12), [[3, 3, 3, 3]])
    np.testing.assert_array_equal(allocated(jnp.full((1, 4), 25), 14), [[4, 4, 3, 3]])
    np.testing.assert_array_equal(allocated(jnp.array([[999_997, 1, 1, 1]]), 10), [[7, 1, 1, 1]])


# Labels.


@pytest.mark.full
def test_labels_of_data_that_a_compiled_step_holds():
    """BlackJAX's loops compile the step with bound data: labels are checked while tracing."""
    model = MODELS["logistic_regression"]
    estimator = ewsg.gradients.stratified(
        model.posterior, batch_size=2, labels=lambda data: data["y"] + 0, num_strata=2
    )
    position, data = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float32), (model.position, model.data)
    )
    data = data | {"y": jnp.asarray(model.data["y"])}
    bound = ewsg.kernel(ewsg.dynamics.langevin(0.01), estimator).bind(data)
    state, _ = jax.jit(bound.step)(jax.random.key(1), bound.init(position))
    assert int(state.step) == 1
