"""What a run takes: memory, told before; looks at the data, once; failures lose nothing."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base import checked_arrays, checks, memory
from ewsg_jax.run import compiled_loop, health

pytestmark = pytest.mark.full

KEY = jax.random.key(8)
DATA = jnp.linspace(-1.0, 1.0, 6)[:, None]
MODEL = ewsg.models.gaussian_location()
KERNEL = ewsg.sgld(MODEL, 0.1, batch_size=2)


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        # 3 · 10⁸ chains of a position and a step number, 4 bytes each, and their one draw.
        (
            {"num_chains": 3 * 10**8},
            ["got 4 GiB", "300,000,000 chains take 3 times 2.24 GiB", "draws 1.12 GiB"],
        ),
        ({"num_chains": 10**9}, ["1,000,000,000 chains take 3 times 7.45 GiB", "fewer chains"]),
        ({"num_steps": 2 * 10**9}, ["draws 7.45 GiB", "keep=None and moments=ewsg_jax.moments()"]),
    ],
)
def test_a_run_that_does_not_fit_is_told_so_beforehand(monkeypatch, options, holds):
    monkeypatch.setattr(compiled_loop.StepProgram, "__call__", None)  # nothing is run
    with pytest.raises(
        ValueError, match=r"^memory_limit must be at least \d.*GiB for this run"
    ) as error:
        ewsg.sample(
            KEY, KERNEL, jnp.zeros(1), DATA, **{"num_steps": 1, "memory_limit": 2**32} | options
        )
    for text in holds:
        assert text in str(error.value)


def test_draws_that_are_not_kept_take_no_memory():
    run = ewsg.sample(
        KEY,
        KERNEL,
        jnp.zeros(1),
        DATA,
        2_000,
        keep=None,
        moments=ewsg.moments(),
        memory_limit=2**20,
    )
    assert run.num_steps == run.moments.weight[0] == 2_000
    held = run.draws, run.state, run.moments.mean, run.moments.variance
    assert sum(np.size(x) for x in jax.tree.leaves(held)) < 10


def test_what_is_free_is_what_the_system_leaves(monkeypatch):
    """No limit given: the least that machine, process limit and container leave."""
    free = memory.free_on_the_host()
    assert 2**26 < free < 2**50
    monkeypatch.setattr(memory, "_below_limit", lambda: 2**27)
    assert memory.free_on_the_host() == 2**27
    with pytest.raises(ValueError, match="got 128 MiB that is free"):
        ewsg.sample(KEY, KERNEL, jnp.zeros(1), DATA, 1, num_chains=10**8)


def test_accelerators_say_what_they_have_free():
    class Device:
        platform = "cuda"

        def __init__(self, stats):
            self.memory_stats = lambda: stats

    assert memory.free_on(Device({"bytes_limit": 100, "bytes_in_use": 30})) == 70
    assert memory.free_on(Device(None)) is None


def test_a_run_that_fails_keeps_what_it_has_sampled(monkeypatch):
    """The third call ends in an error, after it has taken the memory of its state."""
    advance, calls = compiled_loop.advance_small, []
    monkeypatch.setattr(
        health, "BYTES_PER_SECOND", 10**15
    )  # a copy of the state is kept before every call
    monkeypatch.setattr(health, "COPYING_SHARE", 10**6)

    def failing(*arguments, **options):
        calls.append(int(arguments[4].num_steps))
        made = advance(*arguments, **options)
        # The first makes no step: it compiles.
        if len(calls) == 4:
            raise MemoryError("out of it")
        return made

    def run(**options):
        return ewsg.sample(
            KEY, KERNEL, jnp.zeros(1), DATA, 300, num_chains=2, randomness_memory=1, **options
        )

    whole = run(moments=ewsg.moments())
    monkeypatch.setattr(compiled_loop, "advance_small", failing)
    with pytest.warns(
        RuntimeWarning, match=r"ended after \d+ steps .* MemoryError: out of it; .* after step \d+"
    ):
        part = run()
    made = sum(calls[:3])
    assert part.interrupted
    assert 0 < made < 300
    assert part.num_steps == part.num_draws == made
    np.testing.assert_array_equal(part.position, whole.position[:, :made])
    # The state is the last one that was kept, here that of the last call.
    at = int(part.state.step[0])
    assert at == made
    np.testing.assert_array_equal(part.state.position, whole.position[:, at - 1])

    calls[:] = [0, 0, 0]
    with pytest.raises(MemoryError):  # nothing is sampled yet
        run()


def test_a_state_that_cannot_be_copied_loses_no_draws(monkeypatch):
    """A copy of the state to replay from may not fit, of which the run ends with what it has."""
    keep, calls = health.DivergenceMonitor.keep, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise MemoryError("no room for a copy")
        keep(*arguments)

    monkeypatch.setattr(health.DivergenceMonitor, "keep", failing)
    with pytest.warns(RuntimeWarning, match=r"ended after \d+ steps .* no room for a copy"):
        part = ewsg.sample(KEY, KERNEL, jnp.zeros(1), DATA, 300, randomness_memory=1)
    assert part.interrupted
    assert 0 < part.num_draws < 300
    assert int(part.state.step[0]) == part.num_steps


def test_data_are_looked_at_once(monkeypatch):
    looks = []
    find = checks._finite
    monkeypatch.setattr(
        checks, "_finite", lambda where, *rest: looks.append(where) or find(where, *rest)
    )

    def looked(data):
        looks.clear()
        for _ in range(3):
            ewsg.sample(KEY, KERNEL, jnp.zeros(1), data, 2)
        return looks.count("data")

    assert looked(jnp.array(DATA)) == 1
    assert looked(np.array(DATA)) == 3, "what an array of NumPy holds may have changed"


def test_another_array_in_the_same_place_is_looked_at(monkeypatch):
    monkeypatch.setattr(checked_arrays, "id", lambda leaf: 7, raising=False)
    array = jnp.ones(3)
    checks.finite("data", array)
    del array
    gc.collect()
    with pytest.raises(ValueError, match="3 NaN"):
        checks.finite("data", jnp.full(3, np.nan))


def test_labels_are_looked_at_once_for_all_positions_of_a_shape():
    looks = []
    model = ewsg.Posterior(
        lambda position, x: -jnp.sum((x - position) ** 2),
        lambda position: 0.0,
        check_values=lambda position, data: looks.append(position.shape),
    )
    data = jnp.array(DATA)
    for position in (jnp.zeros(1), jnp.ones(1), jnp.ones((1, 1))):
        model.check(position, data)
    assert looks == [(1,), (1, 1)]
    model.check(jnp.zeros(1), np.array(DATA))
    model.check(jnp.zeros(1), jnp.array(DATA))
    assert len(looks) == 4
