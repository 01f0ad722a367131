"""A bound on the time of sampling: where it ends a run, and what it returns."""

import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import health, layout
from ewsg_jax.run import host as clock_of_run
from tests.run.alike import same_runs

KEY = jax.random.key(9)
DATA = jnp.arange(12.0).reshape(6, 2)
KERNEL = ewsg.sgld(ewsg.models.gaussian_location(), 0.01, batch_size=2)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that goes on by 1/4 s whenever it is read, and blocks of four steps."""
    ticks = itertools.count()
    monkeypatch.setattr(
        clock_of_run, "time", SimpleNamespace(perf_counter=lambda: 0.25 * next(ticks))
    )
    # States are kept by the same clock; here the first one alone.
    monkeypatch.setattr(health.DivergenceMonitor, "keep", lambda *_: None)
    monkeypatch.setattr(layout, "MOST_STEPS_PER_BLOCK", 4)


def run(*arguments, **options):
    return ewsg.sample(KEY, KERNEL, jnp.zeros(2), DATA, *arguments, num_chains=2, **options)


@pytest.mark.full
@pytest.mark.parametrize(
    ("seconds", "blocks"),
    [
        (0.01, 1),  # the first call is made whatever it takes
        (1.5, 1 + 2 + 4),  # calls of half a second are aimed at
        (1.25, 1 + 2 + 2),  # but the last one at what is left
    ],
)
def test_the_run_ends_with_the_call_in_which_time_is_up(seconds, blocks):
    some = run(10_000, seconds=seconds, burn_in=2, thin=2)
    assert some.num_steps == 4 * blocks
    assert some.step.tolist() == list(range(4, 4 * blocks + 1, 2))
    assert not some.interrupted
    same_runs(some, run(some.num_steps, burn_in=2, thin=2))


def test_beside_a_number_of_steps_whichever_ends_first_ends():
    assert run(10, seconds=100.0).num_steps == 10
    assert run(data_passes=3, seconds=100.0).num_steps == 9
    early = run(10_000, seconds=1.5, moments=ewsg.moments())
    assert early.num_steps == early.num_draws == 28
    np.testing.assert_array_equal(early.moments.weight, [28, 28])
    more = ewsg.sample(KEY, KERNEL, None, DATA, 10_000, state=early.state, seconds=0.01)
    assert more.step.tolist() == [29, 30, 31, 32]


def test_time_that_is_up_before_a_draw_is_an_error():
    with pytest.raises(
        ValueError,
        match=r"seconds must be enough for burn_in \+ thin = 101 steps .* in which 28 were",
    ):
        run(10_000, seconds=1.5, burn_in=100)
