"""SAGA's table and its sum, in float32 and less: what rounding may do to them, and no more."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base import pytrees
from tests.gradients.six_rows import MODELS, N, X, Y, as_jax, flat, like_position


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

    @jax.jit
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


@pytest.mark.full
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


@pytest.mark.full
def test_a_sum_misses_nothing_once_it_is_small_again():
    """A thousand ones that a float32 of 2³⁰ does not see: the optimised program keeps them."""

    @jax.jit
    def total(terms):
        add = lambda pair, term: (pytrees.add_with_error(*pair, term), None)
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

    @jax.jit
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


@pytest.mark.full
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_the_first_sum_is_that_of_the_table_as_it_is_stored(dtype):
    """Where gradients are rounded to few bits both lose; the unit is √n again."""
    n = 8000
    data = jnp.asarray(np.random.default_rng(0).normal(size=(n, 1)), dtype)
    estimator = ewsg.gradients.saga(ewsg.models.gaussian_location(), batch_size=2)
    memory = jax.jit(estimator.init)(jax.random.key(0), jnp.full(1, 1e3, dtype), data)
    assert (memory.table.dtype, memory.gradient.dtype, memory.error.dtype) == (
        dtype,
        jnp.float32,
        jnp.float32,
    )
    total = np.asarray(memory.gradient, np.float64) + np.asarray(memory.error)
    expected = np.asarray(memory.table, np.float64).sum(axis=0)
    assert np.abs(total - expected).max() < 0.003 * np.sqrt(n)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("rows", ["random", "epochs"])
def test_the_sum_follows_a_table_that_rounds(dtype, rows):
    """Differences are added to a table in half precision, which rounds; the sum knows to what."""
    n, rng = 100, np.random.default_rng(3)
    data = jnp.asarray(rng.normal(size=(n, 2)), jnp.float32)
    estimator = ewsg.gradients.saga(ewsg.models.gaussian_location(), batch_size=5, rows=rows)
    order = ewsg.rows.Order(jnp.arange(4, dtype=jnp.uint32), jnp.int32(0))

    @jax.jit
    def run(points, data):
        memory = estimator.init(jax.random.key(0), points[0], data)

        def step(memory, at):
            number, point = at
            batch = estimator.draw(
                jax.random.fold_in(jax.random.key(1), number), data, order._replace(step=number)
            )
            _, update = estimator.propose(batch, memory, point, data, None)
            return estimator.commit(update, memory), None

        return jax.lax.scan(step, memory, (jnp.arange(len(points)), points))[0]

    memory = run(jnp.asarray(rng.normal(size=(2_000, 2)), dtype), data)
    total = np.asarray(memory.gradient, np.float64) + np.asarray(memory.error)
    expected = np.asarray(memory.table, np.float64).sum(axis=0)
    assert np.abs(total - expected).max() < 1e-4


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
