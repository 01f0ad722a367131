"""SVRG, SAGA and control variates against every batch of six rows, formulas in NumPy."""

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax import _tree
from ewsg_jax.gradients._control_variate import ControlVariateMemory
from ewsg_jax.gradients._saga import SAGAMemory
from ewsg_jax.gradients._svrg import SVRGDraw, SVRGMemory
from ewsg_jax.rows import Batch, Block
from tests.gradients.test_enumeration import (
    BINARY,
    CLASSES,
    MATRIX,
    N,
    W,
    X,
    Y,
    as_jax,
    close,
    dict_posterior,
    no_weight,
)
from tests.oracles import enumeration

# Most of the time of these tests is compilation: do not optimise.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


class Model(NamedTuple):
    """A posterior, a NumPy position, and what NumPy says of both parts of ∇V anywhere."""

    posterior: ewsg.Posterior
    position: Any
    data: Any
    per_datum: Callable
    prior: Callable


def network_posterior():
    def log_likelihood(p, row):
        return -0.5 * jnp.square(jnp.tanh(row["x"] @ p["first"]) @ p["second"] - row["y"])

    return ewsg.Posterior(
        log_likelihood, lambda p: -0.5 * (jnp.sum(p["first"] ** 2) + jnp.sum(p["second"] ** 2))
    )


MODELS = {
    "linear_regression": Model(
        ewsg.models.linear_regression(noise_scale=0.8, prior_scale=0.7),
        W,
        {"x": X, "y": Y},
        lambda w: enumeration.linear_regression(w, X, Y, 0.8),
        lambda w: enumeration.normal_prior(w, 0.7),
    ),
    "logistic_regression": Model(
        ewsg.models.logistic_regression(prior_scale=0.7),
        W,
        {"x": X, "y": BINARY},
        lambda w: enumeration.logistic_regression(w, X, BINARY),
        lambda w: enumeration.normal_prior(w, 0.7),
    ),
    "softmax_regression": Model(
        ewsg.models.softmax_regression(prior_scale=0.7),
        MATRIX,
        {"x": X, "y": CLASSES},
        lambda w: enumeration.softmax_regression(w, X, CLASSES),
        lambda w: enumeration.normal_prior(w, 0.7),
    ),
    "custom": Model(
        dict_posterior(),
        {"log_scale": np.array(0.3), "mean": W},
        X,
        lambda p: enumeration.normal_with_unknown_scale(float(p["log_scale"]), p["mean"], X),
        lambda p: np.concatenate([[4 * p["log_scale"]], p["mean"]]),
    ),
    "network": Model(
        network_posterior(),
        {"first": MATRIX[:, :2], "second": MATRIX[0, 2:]},
        {"x": X, "y": Y},
        lambda p: enumeration.two_layer_network(p["first"], p["second"], X, Y),
        lambda p: np.concatenate([p["first"].ravel(), p["second"]]),
    ),
}

# The network is for SAGA's table in float32 alone.
NAMES = ("linear_regression", "logistic_regression", "softmax_regression", "custom")
KINDS = ("svrg", "saga", "control_variate")
ESTIMATORS = {kind: getattr(ewsg.gradients, kind) for kind in KINDS}

# b, and how rows are drawn; subsets of one row are listed as rows drawn with replacement are.
LAWS = [
    (1, {"replace": False}),
    (2, {"replace": True}),
    (2, {"replace": False}),
    (2, {"rows": "blocks"}),
]


def batches_of(law):
    """All equally probable batches of a law as row numbers, (N, b)."""
    batch_size, options = law
    if "rows" in options:
        return enumeration.blocks(N, batch_size)
    return enumeration.batches(N, batch_size, options["replace"])[0]


def randomness_of(law):
    """The same as what an estimator draws: blocks are told by where they start."""
    listed = jnp.asarray(batches_of(law), jnp.int32)
    return Block(start=listed[:, 0], size=law[0]) if "rows" in law[1] else Batch(listed)


def covariance_over(law, per_datum):
    batch_size, options = law
    if "rows" in options:
        return enumeration.block_covariance(per_datum, batch_size)
    return enumeration.batch_covariance(per_datum, batch_size, options["replace"])


def drawn(kind, randomness):
    return SVRGDraw(randomness, ()) if kind == "svrg" else randomness


def shifted(position, factor, shift):
    return jax.tree.map(lambda x: factor * x + shift, position)


def flat(tree):
    return ravel_pytree(tree)[0]


def like_position(vector, model):
    return ravel_pytree(as_jax(model.position))[1](jnp.asarray(vector))


def some_memory(kind, model):
    """A memory that is not one of the point, and the references α that it stands for, (n, d)."""
    if kind == "saga":
        rng = np.random.default_rng(7)
        if model.posterior.predictor is None:
            references = rng.normal(size=(N, flat(model.position).size))
            table = jax.vmap(lambda row: like_position(row, model))(jnp.asarray(references))
        else:
            table = rng.normal(size=(N, *np.shape(model.position)[1:]))
            references = np.stack(
                [np.multiply.outer(x, t).ravel() for x, t in zip(X, table, strict=True)]
            )
        total = like_position(references.sum(axis=0), model)
        return SAGAMemory(as_jax(table), total, jax.tree.map(jnp.zeros_like, total)), references
    reference = shifted(model.position, -0.7, 0.3)
    references = model.per_datum(reference)
    total = like_position(references.sum(axis=0), model)
    if kind == "svrg":
        return SVRGMemory(as_jax(reference), total, ()), references
    return ControlVariateMemory(as_jax(reference), total), references


class Outcomes(NamedTuple):
    """Of each batch: the estimate, the probe elsewhere, both (N, d), and the memory after it."""

    gradients: object
    probes: object
    memories: object


@functools.cache
def estimators_on_all_batches(name, kind):
    """`every(memory, position, elsewhere, data) -> Outcomes` of each law, from the one memory."""
    model = MODELS[name]

    def every(memory, position, elsewhere, data):
        found = []
        for law in LAWS:
            estimator = ESTIMATORS[kind](model.posterior, batch_size=law[0], **law[1])

            def one(randomness, estimator=estimator, batch_size=law[0]):
                estimate, update = estimator.propose(randomness, memory, position, data, no_weight)
                probe = estimator.gradient_at(estimate, elsewhere, data)
                return Outcomes(
                    flat(estimate.gradient), flat(probe), estimator.commit(update, memory)
                )

            found.append(jax.vmap(one)(drawn(kind, randomness_of(law))))
        return found

    return quick_jit(every)


def outcomes(name, kind, memory):
    model = MODELS[name]
    every = estimators_on_all_batches(name, kind)
    elsewhere = shifted(model.position, 0.5, -0.2)
    return jax.device_get(
        every(memory, as_jax(model.position), as_jax(elsewhere), as_jax(model.data))
    )


# Laws over all batches.


@pytest.mark.usual_parameters("custom-*")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_mean_and_covariance_over_all_batches(x64, name, kind):
    """Whatever the memory is, the mean is ∇V and the covariance that of the differences."""
    model = MODELS[name]
    memory, references = some_memory(kind, model)
    per_datum, prior = model.per_datum(model.position), model.prior(model.position)
    for law, found in zip(LAWS, outcomes(name, kind, memory), strict=True):
        listed = batches_of(law)
        close(found.gradients, enumeration.reduced_gradients(per_datum, references, prior, listed))
        probabilities = np.full(len(listed), 1 / len(listed))
        mean, covariance = enumeration.mean_and_covariance(found.gradients, probabilities)
        close(mean, enumeration.full_gradient(per_datum, prior))
        close(covariance, covariance_over(law, per_datum - references))
        assert np.abs(covariance).max() > 1e-3, f"{law} says nothing"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_probe_is_the_same_batch_and_memory_elsewhere(x64, name, kind):
    model = MODELS[name]
    memory, references = some_memory(kind, model)
    elsewhere = shifted(model.position, 0.5, -0.2)
    per_datum, prior = model.per_datum(elsewhere), model.prior(elsewhere)
    for law, found in zip(LAWS, outcomes(name, kind, memory), strict=True):
        close(
            found.probes,
            enumeration.reduced_gradients(per_datum, references, prior, batches_of(law)),
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_batch_is_exact_where_the_memory_was_made(x64, name, kind):
    """SVRG at its anchor, control variates at their centre, SAGA at its start, own memories."""
    model = MODELS[name]
    # Six rows in chunks of four.
    estimator = ESTIMATORS[kind](model.posterior, batch_size=2, chunk_size=4)

    @quick_jit
    def made(position, data):
        memory = estimator.init(jax.random.key(0), position, data)
        return estimator.refresh(drawn(kind, ()), memory, jnp.int32(0), position, data)[0]

    memory = made(as_jax(model.position), as_jax(model.data))
    per_datum = model.per_datum(model.position)
    close(flat(memory.gradient), per_datum.sum(axis=0))
    if kind == "saga":
        assert sum(x.size for x in jax.tree.leaves(memory.table)) == N * numbers_per_row(model)
        close(table_rows(memory.table, model), per_datum)
    full = enumeration.full_gradient(per_datum, model.prior(model.position))
    for found in outcomes(name, kind, memory):
        close(found.gradients, np.tile(full, (len(found.gradients), 1)))


def numbers_per_row(model):
    """One for each linear predictor, or a whole position."""
    if model.posterior.predictor is None:
        return flat(model.position).size
    return int(np.prod(np.shape(model.position)[1:]))


def table_rows(table, model):
    """What SAGA's table stands for, (n, d), in NumPy."""
    if model.posterior.predictor is None:
        return np.asarray(jax.vmap(flat)(table))
    return np.stack(
        [np.multiply.outer(x, t).ravel() for x, t in zip(X, np.asarray(table), strict=True)]
    )


def test_a_centre_that_is_given_is_the_centre(x64):
    model = MODELS["logistic_regression"]
    center = model.position + 0.5
    data = as_jax(model.data)
    for given in (None, jnp.asarray(center)):
        estimator = ewsg.gradients.control_variate(model.posterior, batch_size=1, center=given)
        memory = jax.jit(estimator.init)(jax.random.key(0), jnp.asarray(model.position), data)
        expected = model.position if given is None else center
        np.testing.assert_array_equal(memory.center, expected)
        close(memory.gradient, model.per_datum(expected).sum(axis=0))


@pytest.mark.parametrize("kind", ["svrg", "control_variate"])
def test_a_step_leaves_anchor_and_centre_alone(x64, kind):
    memory, _ = some_memory(kind, MODELS["custom"])
    for found in outcomes("custom", kind, memory):
        for before, after in zip(
            jax.tree.leaves(memory), jax.tree.leaves(found.memories), strict=True
        ):
            np.testing.assert_array_equal(after, np.broadcast_to(before, after.shape))


# SAGA's table.


@pytest.mark.parametrize("name", NAMES)
def test_commit_replaces_the_rows_of_the_batch(x64, name):
    """Every batch of every law, also with a row twice: α, its sum, and nothing else."""
    model = MODELS[name]
    memory, references = some_memory("saga", model)
    per_datum = model.per_datum(model.position)
    for law, found in zip(LAWS, outcomes(name, "saga", memory), strict=True):
        for number, rows in enumerate(batches_of(law)):
            after = jax.tree.map(lambda x, k=number: x[k], found.memories)
            expected = references.copy()
            expected[rows] = per_datum[rows]
            close(table_rows(after.table, model), expected)
            close(np.asarray(flat(after.gradient)), expected.sum(axis=0))


class Run(NamedTuple):
    """SAGA's steps: tables (steps + 1, 3, d), their sums and the points, in float64."""

    table: np.ndarray
    total: np.ndarray
    point: np.ndarray


def repeated_rows(name, num_steps):
    """A float32 run, batches of four among three rows: every one holds a row twice."""
    x, y = np.float32(X[:3]), np.float32(Y[:3])
    model = MODELS[name]
    kernel = ewsg.kernel(
        ewsg.dynamics.langevin(2e-3), ewsg.gradients.saga(model.posterior, batch_size=4)
    )
    start = jax.tree.map(lambda p: jnp.asarray(p, jnp.float32), model.position)

    @quick_jit
    def run(keys, position, data):
        def step(state, key):
            state, _ = kernel.step(key, state, data)
            return state, (state.memory, state.position)

        state = kernel.init(keys[0], position, data)
        return (state.memory, state.position), jax.lax.scan(step, state, keys[1:])[1]

    keys = jax.random.split(jax.random.key(3), num_steps + 1)
    first, later = run(keys, start, as_jax({"x": x, "y": y}))
    memories, points = jax.tree.map(
        lambda a, b: np.concatenate([np.asarray(a)[None], np.asarray(b)]), first, later
    )
    if model.posterior.predictor is None:
        rows = jax.vmap(jax.vmap(flat))(memories.table)
    else:
        # One number α for each row: what it stands for is α x.
        rows = memories.table[:, :, None].astype(np.float64) * x
    found = rows, jax.vmap(flat)(memories.gradient), jax.vmap(flat)(points)
    return Run(*(np.asarray(numbers, np.float64) for numbers in found))


@pytest.mark.parametrize("name", ["linear_regression", "network"])
def test_the_sum_stays_the_tables_in_float32(name):
    """10⁴ steps leave the sum where rounding alone may have moved it: a forward error bound, u =
    2⁻²⁴.

    One step adds to sum − Σα at most: u|sum| where the change is added, (b + 1)u Σ|Δα| in the
    change itself, and u Σ|α| where the table is changed.
    """
    num_steps, batch_size, unit = 10_000, 4, 2.0**-24
    model, (table, total, point) = MODELS[name], repeated_rows(name, num_steps)
    error = total - table.sum(axis=1)
    after, change = np.abs(table[1:]), np.abs(np.diff(table, axis=0))
    # Δα before rounding is the change of the table but for u|α|.
    rounding = (
        np.abs(total[1:])
        + (batch_size + 1) * (change + unit * after).sum(axis=1)
        + after.sum(axis=1)
    )
    bound = np.abs(error[:1]) + unit * np.concatenate(
        [np.zeros_like(rounding[:1]), np.cumsum(rounding, axis=0)]
    )
    assert np.all(np.abs(error) <= bound)
    typical = np.abs(table).sum(axis=1).mean(axis=0)
    assert np.all(bound[-1] < 0.02 * typical), "the bound says little"
    assert np.all(np.abs(error[0]) < 1e-5 * typical)
    assert np.all(change.max(axis=(0, 1)) > 0.01 * typical), "the table hardly changes"

    # A row of the table is what it was or the gradient at the step's point, also where the batch
    # holds it twice.
    for step in range(0, num_steps, 97):
        new = model.per_datum(as_numpy(like_position(point[step], model)))[:3]
        known = np.minimum(
            np.abs(table[step + 1] - new), np.abs(table[step + 1] - table[step])
        ).max(axis=1)
        assert np.all(known < 1e-5 * typical.max())


def as_numpy(tree):
    return jax.tree.map(np.asarray, tree)


def test_a_sum_misses_nothing_once_it_is_small_again():
    """A thousand ones that a float32 of 2³⁰ does not see: the optimised program keeps them."""

    @jax.jit
    def total(terms):
        add = lambda pair, term: (_tree.add_with_error(*pair, term), None)
        return jax.lax.scan(add, (jnp.float32(0), jnp.float32(0)), terms)[0]

    large = np.float32(2.0**30)
    before, error = total(jnp.asarray([large] + 1000 * [1]))
    assert (float(before), float(error)) == (2.0**30 + 1024, -24)
    down = 2**10 * [-(2.0**20)]
    assert tuple(map(float, total(jnp.asarray([large, *1000 * [1], *down])))) == (1000, 0)


FAR = [("numbers", "random"), ("gradients", "random"), ("gradients", "epochs")]


@pytest.mark.parametrize(("form", "rows"), FAR)
def test_a_far_start_leaves_no_bias(form, rows):
    """float32, 1,000 rows, from a point where their gradients are 1,000 times what they are near
    the mode.

    After ten epochs the sum is down to its usual size, √n, which is also the posterior's sd in its
    unit. What is missing from it stays for ever: it must be nothing in that unit.
    """
    n, rng = 1000, np.random.default_rng(0)
    x = np.float32(rng.normal(size=(n, 2)))
    posterior, data = ewsg.models.gaussian_location(), jnp.asarray(x)
    if form == "numbers":
        posterior, data = ewsg.models.linear_regression(), {"x": jnp.asarray(x), "y": jnp.zeros(n)}
    estimator = ewsg.gradients.saga(posterior, batch_size=2, rows=rows)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.3 / n), estimator)

    @quick_jit
    def run(key, data):
        state = kernel.init(key, jnp.full(2, 1e3), data)
        step = lambda state, key: (kernel.step(key, state, data)[0], None)
        return state, jax.lax.scan(step, state, jax.random.split(key, 10 * n // 2))[0]

    for state in run(jax.random.key(1), data):
        table = np.asarray(state.memory.table, np.float64)
        expected = x.T @ table if form == "numbers" else table.sum(axis=0)
        missing = (state.memory.gradient - expected) / np.sqrt(n)
        assert np.abs(missing).max() < 0.003
    assert np.abs(state.memory.gradient).max() < 10 * np.sqrt(n), (
        "the table is not that of the mode yet"
    )


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_the_first_sum_is_that_of_the_table_as_it_is_stored(dtype):
    """Where gradients are rounded to few bits both lose; the unit is √n again."""
    n = 8000
    data = jnp.asarray(np.random.default_rng(0).normal(size=(n, 1)), dtype)
    estimator = ewsg.gradients.saga(ewsg.models.gaussian_location(), batch_size=2)
    memory = quick_jit(estimator.init)(jax.random.key(0), jnp.full(1, 1e3, dtype), data)
    assert (memory.table.dtype, memory.gradient.dtype, memory.error.dtype) == (
        dtype,
        jnp.float32,
        jnp.float32,
    )
    total = np.asarray(memory.gradient, np.float64) + np.asarray(memory.error)
    expected = np.asarray(memory.table, np.float64).sum(axis=0)
    assert np.abs(total - expected).max() < 0.003 * np.sqrt(n)


@pytest.mark.parametrize(
    ("name", "numbers"), [("linear_regression", 1), ("softmax_regression", 4), ("custom", 4)]
)
def test_a_table_that_is_too_large_is_refused(name, numbers):
    """One number of 4 bytes for each row and predictor, or a position for each row."""
    model = MODELS[name]
    position, data = jax.tree.map(jnp.asarray, (model.position, model.data))
    size = 4 * numbers * N
    ewsg.gradients.saga(model.posterior, batch_size=1, memory_limit=size).check(position, data)
    with pytest.raises(
        ValueError, match=f"memory_limit must be at least {size} .*SAGA's table of 6 rows"
    ):
        ewsg.gradients.saga(model.posterior, batch_size=1, memory_limit=size - 1).check(
            position, data
        )


# SVRG's anchors, along a NumPy run of the whole method without noise.

STEP_SIZE, FRICTION = 0.1, 1.5
DYNAMICS = {
    "langevin": lambda: ewsg.dynamics.langevin(STEP_SIZE),
    "semi_implicit": lambda: ewsg.dynamics.semi_implicit(STEP_SIZE, friction=FRICTION),
    "splitting": lambda: ewsg.dynamics.splitting(STEP_SIZE, friction=FRICTION),
}


def point_of(dynamics, position, momentum):
    return position + STEP_SIZE / 2 * momentum if dynamics == "splitting" else position


def moved(dynamics, position, momentum, gradient):
    """One step without noise: methods.md, section 1."""
    h, gamma = STEP_SIZE, FRICTION
    if dynamics == "langevin":
        return position - h * gradient, momentum
    if dynamics == "semi_implicit":
        momentum = (1 - gamma * h) * momentum - h * gradient
        return position + h * momentum, momentum
    after = np.exp(-gamma * h / 2) * (np.exp(-gamma * h / 2) * momentum - h * gradient)
    return position + h / 2 * (momentum + after), after


def run_of_svrg(dynamics, every, batches, takes=None):
    """(points, anchors, ends): where each step begins, its anchor, and (position, momentum) after
    it.

    `takes` (option I) says for each step whether its point becomes the next anchor's candidate.
    """
    model = MODELS["linear_regression"]
    position, momentum, anchor, candidate = W, np.zeros_like(W), W, W
    points, anchors, ends = [], [], []
    for step, batch in enumerate(batches):
        point = point_of(dynamics, position, momentum)
        points.append(point)
        if takes is not None and (takes[step] or step == 0):
            candidate = point
        if step % every == 0:
            anchor = point if takes is None else candidate
            # The chain restarts at the anchor: its evaluation point, with the momentum that it has.
            position, point = position + anchor - point, anchor
        here, there = model.per_datum(point), model.per_datum(anchor)
        gradient = enumeration.reduced_gradients(here, there, model.prior(point), batch[None])[0]
        position, momentum = moved(dynamics, position, momentum, gradient)
        anchors.append(anchor)
        ends.append(np.concatenate([position, momentum]))
    return np.array(points), np.array(anchors), np.array(ends)


def steps_of(kernel, batches, words=()):
    """Anchors, gradients and (position, momentum) by step, for chosen batches, no noise."""
    model = MODELS["linear_regression"]

    def step(state, randomness):
        batch, word = randomness
        noise = jnp.zeros(3)
        state, _ = kernel.transition(
            ewsg.Randomness(SVRGDraw(batch, word), noise), state, as_jax(model.data)
        )
        momentum = getattr(state.dynamics, "momentum", noise)
        return state, (
            state.memory.anchor,
            state.memory.gradient,
            jnp.concatenate([state.position, momentum]),
        )

    start = kernel.init(jax.random.key(0), jnp.asarray(W), as_jax(model.data))
    return jax.lax.scan(step, start, (Batch(jnp.asarray(batches, jnp.int32)), words))[1]


PERIODS = {"K": (3, 3), "1": (1, 1), "K(n)": (lambda n: n - 1, 5), "n/b": (None, 2)}


@pytest.mark.parametrize(
    ("dynamics", "period"),
    [
        *(("langevin", period) for period in PERIODS),
        ("semi_implicit", "K"),
        ("splitting", "K"),
        ("splitting", "n/b"),
    ],
)
def test_option_two_anchors_where_the_gradient_is_wanted(x64, dynamics, period):
    """At steps 0, K, 2K and no other; K = ⌈6/4⌉ = 2 where none is given."""
    model, (refresh_every, every) = MODELS["linear_regression"], PERIODS[period]
    batches = np.random.default_rng(0).integers(N, size=(11, 4))
    estimator = ewsg.gradients.svrg(model.posterior, batch_size=4, refresh_every=refresh_every)
    kernel = ewsg.kernel(DYNAMICS[dynamics](), estimator)
    anchors, totals, ends = quick_jit(lambda: steps_of(kernel, batches))()
    points, expected, positions = run_of_svrg(dynamics, every, batches)
    np.testing.assert_array_equal(expected, points[np.arange(11) // every * every])
    close(np.asarray(anchors), expected, 1e-12)
    close(np.asarray(totals), np.stack([model.per_datum(w).sum(axis=0) for w in expected]), 1e-12)
    close(np.asarray(ends), positions, 1e-12)


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_option_one_restarts_at_each_point_with_equal_probability(x64, dynamics):
    """All words that matter: the i-th point since the last anchor is taken with probability 1/i.

    Over two periods of K = 3 the pair of anchors has 9 values, each of probability 1/9, and the
    chain is in each case NumPy's that goes on from there with the momentum it had.
    """
    model, every, num_steps = MODELS["linear_regression"], 3, 8
    batches = np.random.default_rng(1).integers(N, size=(num_steps, 1))
    places = [(step - 1) % every + 1 for step in range(1, 2 * every + 1)]
    patterns = np.array(list(itertools.product([True, False], repeat=len(places))))
    probabilities = np.prod(
        np.where(patterns, 1 / np.array(places), 1 - 1 / np.array(places)), axis=1
    )
    patterns, probabilities = patterns[probabilities > 0], probabilities[probabilities > 0]
    takes = np.pad(patterns, ((0, 0), (1, num_steps - 1 - len(places))))

    # The largest word that takes a point, and the least that does not: of 2³² words the first
    # ⌈2³²/i⌉ do.
    edges = [-(-(2**32) // i) for i in places]
    words = np.pad(
        np.where(patterns, np.array(edges) - 1, np.minimum(edges, 2**32 - 1)), ((0, 0), (1, 1))
    )
    assert all(abs(edge / 2**32 - 1 / i) <= 2.0**-32 for edge, i in zip(edges, places, strict=True))

    estimator = ewsg.gradients.svrg(model.posterior, batch_size=1, refresh_every=every, option="I")
    kernel = ewsg.kernel(DYNAMICS[dynamics](), estimator)
    run = quick_jit(jax.vmap(lambda words: steps_of(kernel, batches, words)))
    anchors, totals, ends = run(jnp.asarray(words[:, :, None], jnp.uint32))

    law = {}
    for number, (taken, probability) in enumerate(zip(takes, probabilities, strict=True)):
        points, expected, positions = run_of_svrg(dynamics, every, batches, taken)
        close(np.asarray(anchors[number]), expected, 1e-12)
        close(
            np.asarray(totals[number]),
            np.stack([model.per_datum(w).sum(axis=0) for w in expected]),
            1e-12,
        )
        close(np.asarray(ends[number]), positions, 1e-12)
        chosen = [
            period + np.flatnonzero((points[period : period + every] == w).all(axis=1))
            for period, w in ((1, expected[every]), (1 + every, expected[2 * every]))
        ]
        pair = tuple(int(x.item()) for x in chosen)
        law[pair] = law.get(pair, 0) + probability
    assert set(law) == set(itertools.product((1, 2, 3), (4, 5, 6)))
    np.testing.assert_allclose(list(law.values()), 1 / 9, rtol=1e-14)


def test_option_one_warns_where_a_momentum_is_kept():
    """Not Langevin dynamics, which has none, nor option II, nor anchors that do not move."""
    posterior = ewsg.models.gaussian_location()
    svrg = {
        option: ewsg.gradients.svrg(posterior, batch_size=2, option=option)
        for option in ("I", "II")
    }
    underdamped = ewsg.dynamics.splitting(0.1, friction=1.0, inverse_mass=2.0)
    weighted = ewsg.gradients.exponentially_weighted(svrg["I"])
    for estimator in (svrg["I"], weighted):
        with pytest.warns(
            UserWarning, match=r"variances are about \(K \+ 1\)/\(2K\) of the right ones"
        ):
            ewsg.kernel(underdamped, estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ewsg.kernel(ewsg.dynamics.langevin(0.1, inverse_mass=2.0), svrg["I"])
        ewsg.kernel(underdamped, svrg["II"])


def test_option_one_draws_one_word_beside_the_batch():
    """It is uniform on 32 bits, and says nothing of the batch's rows."""
    model, count = MODELS["linear_regression"], 4096
    data = as_jax(model.data)
    one, two = (
        ewsg.gradients.svrg(model.posterior, batch_size=2, option=option) for option in ("I", "II")
    )
    assert two.draw(jax.random.key(0), data).word == ()
    draws = quick_jit(
        lambda key: jax.vmap(lambda k: one.draw(k, data))(jax.random.split(key, count))
    )
    batch, word = jax.device_get(draws(jax.random.key(0)))
    assert (word.shape, word.dtype) == ((count, 1), np.uint32)
    assert len(np.unique(word)) == count
    # 6 standard deviations of the mean of so many throws.
    bits = (word >> np.arange(32, dtype=np.uint32)) & 1
    assert np.abs(bits.mean(axis=0) - 1 / 2).max() < 6 * (1 / 2) / np.sqrt(count)
    same = np.uint64(N) * word >> np.uint64(32) == batch.indices
    assert np.abs(same.mean(axis=0) - 1 / N).max() < 6 * np.sqrt(1 / N * (1 - 1 / N)) / np.sqrt(
        count
    )


# The full gradient is computed when it is due, and once for all chains.

CHAINS = 4


def counting(calls):
    """Linear regression whose residual notes for how many rows and chains it is run."""

    def on_host(predictors, y):
        calls.append(np.broadcast_shapes(predictors.shape, y.shape))
        return (y - predictors).astype(predictors.dtype)

    def residual(predictors, rows):
        like = jax.ShapeDtypeStruct(predictors.shape, predictors.dtype)
        return jax.pure_callback(on_host, like, predictors, rows["y"], vmap_method="expand_dims")

    return ewsg.Posterior.linear(
        lambda s, row: -0.5 * (row["y"] - s) ** 2,
        lambda w: -0.5 * jnp.sum(w**2),
        inputs=lambda row: row["x"],
        residual=residual,
    )


REFRESHED = {
    "svrg-II": lambda posterior: ewsg.gradients.svrg(posterior, batch_size=2),
    "svrg-I": lambda posterior: ewsg.gradients.svrg(posterior, batch_size=2, option="I"),
    "covariance_tracking": lambda posterior: ewsg.gradients.covariance_tracking(
        posterior, batch_size=2
    ),
    "exponentially_weighted": lambda posterior: ewsg.gradients.exponentially_weighted(
        ewsg.gradients.svrg(posterior, batch_size=2)
    ),
}


@pytest.mark.usual_parameters("svrg-II")
@pytest.mark.parametrize("name", REFRESHED)
def test_chains_in_phase_share_a_refresh(name):
    """K = 3: one full gradient for all chains in steps 0, 3, 6, and no row of it in others."""
    calls = []
    kernel = ewsg.kernel(
        ewsg.dynamics.splitting(0.05, friction=1.0), REFRESHED[name](counting(calls))
    )
    data = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), {"x": X, "y": Y})
    keys = jax.random.split(jax.random.key(0), CHAINS)
    starts = jnp.asarray(np.random.default_rng(2).normal(size=(CHAINS, 3)), jnp.float32)
    states = quick_jit(jax.vmap(kernel.init, (0, 0, None)))(keys, starts, data)
    step = quick_jit(jax.vmap(kernel.step, (0, 0, None))).lower(keys, states, data).compile()
    assert str(step.as_text()).count(" conditional(") == 1, "the refresh is computed in every step"

    full = []
    for _ in range(7):
        calls.clear()
        states, info = jax.block_until_ready(step(keys, states, data))
        full.append([shape for shape in calls if shape[-1] == N])
        assert {shape[-1] for shape in calls} <= {N, 2}
        assert np.ptp(info.gradient_evaluations) == 0
    assert [len(x) for x in full] == [1, 0, 0, 1, 0, 0, 1]
    assert {shape for x in full for shape in x} == {(CHAINS, N)}


def test_only_the_accepted_batch_looks_at_the_tracked_anchor():
    """b = 2, M = 4, a step without a reset: 5 candidates here, one at the anchor, 12 rows."""
    calls = []
    estimator = ewsg.gradients.exponentially_weighted(
        ewsg.gradients.covariance_tracking(counting(calls), batch_size=2), chain_length=4
    )
    kernel = ewsg.kernel(ewsg.dynamics.noise_corrected(0.05, friction=1.0), estimator)
    data = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), {"x": X, "y": Y})
    state = kernel.init(jax.random.key(0), jnp.asarray(W, jnp.float32), data).at_step(jnp.int32(1))
    calls.clear()
    _, info = jax.block_until_ready(quick_jit(kernel.step)(jax.random.key(1), state, data))
    assert sum(map(math.prod, calls)) == info.gradient_evaluations == 12


@pytest.mark.usual_parameters("svrg-II")
@pytest.mark.parametrize("name", ["svrg-II", "svrg-I", "covariance_tracking"])
def test_chains_out_of_phase_have_their_own_refresh(x64, name):
    """Chains at steps 0 to 3, side by side and one by one: the same states, memories and counts."""
    kernel = ewsg.kernel(
        ewsg.dynamics.splitting(0.05, friction=1.0),
        REFRESHED[name](MODELS["linear_regression"].posterior),
    )
    data = as_jax({"x": X, "y": Y})
    init, step = quick_jit(kernel.init), quick_jit(kernel.step)
    keys = jax.random.split(jax.random.key(1), (CHAINS, 12))
    alone = []
    for chain in range(CHAINS):
        state = init(keys[chain, 0], jnp.asarray(W), data)
        for ahead in range(chain):
            state, _ = step(keys[chain, ahead], state, data)
        alone.append(state)
    together = stack(alone)
    assert together.step.tolist() == list(range(CHAINS))
    all_steps = quick_jit(jax.vmap(kernel.step, (0, 0, None)))
    differ = 0
    for later in range(CHAINS, 12):
        together, info = all_steps(keys[:, later], together, data)
        counted = info.gradient_evaluations.tolist()
        pairs = [step(keys[chain, later], alone[chain], data) for chain in range(CHAINS)]
        alone = [state for state, _ in pairs]
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(stack(alone)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        assert counted == [int(info.gradient_evaluations) for _, info in pairs]
        differ += len(set(counted)) == 2
    assert differ > 4, "the chains are in phase"


def stack(states):
    return jax.tree.map(lambda *x: np.stack(x), *states)


# Evaluations.

PLAIN = {
    "full": lambda p: ewsg.gradients.full(p),
    "uniform": lambda p: ewsg.gradients.uniform(p, batch_size=2),
    "uniform-epochs": lambda p: ewsg.gradients.uniform(p, batch_size=2, rows="epochs"),
    "svrg-II": lambda p: ewsg.gradients.svrg(p, batch_size=2, refresh_every=4),
    "svrg-I": lambda p: ewsg.gradients.svrg(p, batch_size=2, refresh_every=5, option="I"),
    "saga": lambda p: ewsg.gradients.saga(p, batch_size=2),
    "control_variate": lambda p: ewsg.gradients.control_variate(p, batch_size=2),
    "stratified": lambda p: ewsg.gradients.stratified(
        p, batch_size=2, labels=lambda data: jnp.arange(N) % 2, num_strata=2
    ),
    "covariance_tracking": lambda p: ewsg.gradients.covariance_tracking(p, batch_size=2),
    "low_rank": lambda p: ewsg.gradients.covariance_tracking(
        p, batch_size=2, structure="low_rank", rank=2
    ),
}
# Per step, at init, per refresh and K, for n = 6 and b = 2: methods.md.
COSTS = {
    "full": (N, 0, 0, 1),
    "uniform": (2, 0, 0, 1),
    "uniform-epochs": (2, 0, 0, 1),
    "svrg-II": (4, 0, N, 4),
    "svrg-I": (4, 0, N, 5),
    "saga": (2, N, 0, 1),
    "control_variate": (4, N, 0, 1),
    "stratified": (2, 0, 0, 1),
    "covariance_tracking": (4, 0, N, 3),
    "low_rank": (4, 0, 2 * N, 3),
}


@pytest.mark.parametrize("chain_length", [None, 2])
@pytest.mark.parametrize("name", COSTS)
def test_steps_report_what_evaluations_say_beforehand(name, chain_length):
    """All runs of up to 14 steps, from any step: the sum of reports, and NumPy's count."""
    estimator = PLAIN[name](MODELS["linear_regression"].posterior)
    per_step, at_init, per_refresh, every = COSTS[name]
    if chain_length is not None:
        if name in ("full", "uniform-epochs"):
            return
        estimator = ewsg.gradients.exponentially_weighted(estimator, chain_length=chain_length)
        # What a candidate does not take, but the accepted batch does: the tracked covariance's look
        # at its anchor.
        late = 2 if "rank" in name or "covariance" in name else 0
        per_step = (per_step - late) * (chain_length + 1) + late
    kernel = ewsg.kernel(ewsg.dynamics.semi_implicit(0.01, friction=1.0), estimator)
    data = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), {"x": X, "y": Y})
    evaluations = kernel.evaluations(data)
    assert evaluations._replace(per_accepted=0)._asdict() == {
        "per_step": per_step,
        "per_extra_gradient": N if name == "full" else 2,
        "at_init": at_init,
        "per_refresh": per_refresh,
        "refresh_every": every,
        "counted": False,
        "per_accepted": 0,
        "expected": 0.0,
    }

    def counted(key, step, data):
        state = kernel.init(key, jnp.zeros(3), data).at_step(step)
        return kernel.step(key, state, data)[1].gradient_evaluations

    # Nothing else of a step is asked for, so that nothing else is compiled.
    reported = quick_jit(jax.vmap(counted, (None, 0, None)))(
        jax.random.key(0), jnp.arange(14, dtype=jnp.int32), data
    )
    assert reported.dtype == jnp.int32
    expected = per_step + per_refresh * (np.arange(14) % every == 0)
    np.testing.assert_array_equal(reported, expected)
    for first, count in itertools.product(range(14), range(15)):
        if first + count <= 14:
            assert evaluations.of_steps(first, count) == expected[first : first + count].sum()
