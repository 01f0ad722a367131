"""Runs over a stream: which rows each step has; nothing else differs from memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.rows._window import Window
from ewsg_jax.run.streams import order
from ewsg_jax.run.windows import StreamWindows

pytestmark = pytest.mark.usefixtures("x64")
MODEL = ewsg.models.gaussian_location()
KEY = jax.random.key(3)
ROWS = np.random.default_rng(0).normal(size=(103, 2))
"""103 rows: a prime, so that no cut leaves none out."""


def uniform(rows="random", replace=True, batch_size=4, step_size=1e-3):
    estimator = ewsg.gradients.uniform(MODEL, batch_size=batch_size, replace=replace, rows=rows)
    return ewsg.kernel(ewsg.dynamics.langevin(step_size), estimator)


KERNELS = {
    "random": uniform(),
    "subset": uniform(replace=False),
    "blocks": uniform("blocks"),
    "epochs": uniform("epochs"),
    "block_epochs": uniform("block_epochs"),
    "full": ewsg.ld(MODEL, 1e-3),
    "svrg": ewsg.svrg_hmc(MODEL, 1e-2, friction=1.0, batch_size=4, option="I"),
    "centre": ewsg.cv_ld(MODEL, 1e-3, batch_size=4),
    "weights": ewsg.ewsg(MODEL, 1e-2, friction=5.0, batch_size=2),
    "preconditioned": ewsg.psgld(MODEL, 1e-3, batch_size=4),
}


def kernel(name):
    """Return a name as a parameter; programs that take long to compile are for the sweep."""
    slow = name in ("epochs", "block_epochs", "weights", "preconditioned")
    return pytest.param(name, marks=[pytest.mark.sweep] if slow else [])


def draws(kernel, data, num_steps=60, **options):
    options = {"num_chains": 2, "position": jnp.zeros(2)} | options
    position = options.pop("position")
    return ewsg.sample(KEY, kernel, position, data, num_steps, **options)


@pytest.mark.usual_parameters("svrg")
@pytest.mark.parametrize("name", [kernel(name) for name in KERNELS])
def test_one_window_is_the_data(name):
    kernel = KERNELS[name]
    there, here = draws(kernel, ROWS), draws(kernel, ewsg.stream(ROWS, window=500))
    np.testing.assert_array_equal(here.position, there.position)
    assert (here.gradient_evaluations, here.num_data) == (
        there.gradient_evaluations,
        there.num_data,
    )


@pytest.mark.full
def test_one_window_is_the_data_of_chains_that_share_batches():
    there, here = (
        draws(uniform(), data, shared_minibatch=True, moments=ewsg.moments())
        for data in (ROWS, ewsg.stream(ROWS))
    )
    np.testing.assert_array_equal(here.position, there.position)
    np.testing.assert_array_equal(here.moments.mean, there.moments.mean)


@pytest.mark.full
@pytest.mark.parametrize(("window", "pieces"), [(26, 1), (26, 5), (10, 3)])
def test_a_run_of_epochs_holds_every_row_equally_often(window, pieces):
    cut, words = order.cut(103, window, pieces), np.arange(4, dtype=np.uint32)
    held = np.zeros(103, int)
    for number in range(103 * cut.num_windows):  # after 103 epochs their cuts have gone round
        runs = order.runs_of(cut, words, number)
        assert sum(length for _, length in runs) == cut.size
        for start, length in runs:
            held[start : start + length] += 1
    assert set(held) == {cut.num_windows * cut.size}


@pytest.mark.full
def test_an_epoch_that_leaves_none_out_has_the_pieces_from_row_0():
    cut, words = order.cut(100, 25, 1), np.array([1, 2, 3, 4], np.uint32)
    starts = [order.runs_of(cut, words, number) for number in range(8)]
    for epoch in (starts[:4], starts[4:]):
        assert sorted(epoch) == [[(start, 25)] for start in (0, 25, 50, 75)]
    assert starts[:4] != starts[4:]


def test_other_keys_have_other_windows():
    stream = ewsg.stream(ROWS, window=26)
    words = [
        StreamWindows(stream, jax.random.key(seed), uniform(), True)._words for seed in range(3)
    ]
    assert len({tuple(those) for those in words}) == 3


@pytest.mark.full
def test_windows_are_read_into_the_memory_of_those_that_are_gone(monkeypatch):
    """Two rooms serve twenty windows, and who held on to one is not given the rows of another."""
    stream, made = ewsg.stream(ROWS, window=26), []
    room = ewsg.Stream.room
    monkeypatch.setattr(
        ewsg.Stream, "room", lambda stream, length: made.append(length) or room(stream, length)
    )
    windows = StreamWindows(stream, KEY, uniform(batch_size=1), True)
    steps = windows.left(0) or 1
    first = windows.at(0)
    for number in range(1, 20):
        here = windows.at(number * steps)
        expected = stream.read_runs(
            order.runs_of(stream.cut, windows._words, number), room(stream, stream.window)
        )
        np.testing.assert_array_equal(here.rows, expected)
    windows.close()
    assert made == [stream.window] * 2
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(first.rows)


def windows_from(first, stream):
    """The windows of a first epoch that begins at some row."""
    cut = stream.cut
    word = -(-(first << 64) // cut.num_rows)
    words = np.array([5, 6, word >> 32, word & 0xFFFFFFFF], np.uint32)
    for number in range(cut.num_windows):
        yield Window(rows=stream.read_runs(order.runs_of(cut, words, number)), source=stream)


@pytest.mark.parametrize("pieces", [1, 2])
def test_estimates_are_unbiased_over_windows_and_batches(pieces):
    """Over all first rows and all batches of one row: seven rows in windows of three or two."""
    rows = jnp.asarray(ROWS[:7])
    stream = ewsg.stream(ROWS[:7], window=3, pieces=pieces)
    assert stream.window * stream.num_windows < 7
    point, estimator = jnp.array([0.3, -0.2]), ewsg.gradients.uniform(MODEL, batch_size=1)
    found = [
        estimator.posterior.gradient_on(point, window, ewsg.rows.Batch(jnp.array([row])))
        for first in range(7)
        for window in windows_from(first, stream)
        for row in range(stream.window)
    ]
    np.testing.assert_allclose(np.mean(found, axis=0), MODEL.gradient(point, rows), rtol=1e-12)


def test_steps_have_the_windows_that_the_key_tells():
    """Batches of whole windows and next to no noise: a recursion over the windows' means."""
    h, stream = 2e-3, ewsg.stream(ROWS, window=26, passes=3.0)
    m = stream.window
    estimator = ewsg.gradients.uniform(MODEL, batch_size=m, replace=False)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(h, temperature=1e-30), estimator)
    found = draws(kernel, stream, 40).position[0]
    point, expected = np.zeros(2), []
    windows = StreamWindows(stream, KEY, kernel, True)
    numbers = []
    for step in range(40):
        number, runs = step // 3, order.runs_of(stream.cut, windows._words, step // 3)
        numbers.append(number)
        mean = stream.read_runs(runs).mean(axis=0)
        point = point - h * (103 * (point - mean) + point * 0)
        expected.append(point)
    windows.close()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.usual_parameters("random")
@pytest.mark.parametrize("name", [kernel(name) for name in ("random", "epochs", "svrg")])
def test_a_run_goes_on_bit_for_bit(name, tmp_path):
    """From a state within a window, and from the checkpoint that an unreadable row left."""
    kernel, stream = KERNELS[name], ewsg.stream(ROWS, window=26, passes=2.0)
    whole = draws(kernel, stream)
    first = draws(kernel, stream, 31)
    rest = draws(kernel, stream, 29, state=first.state, position=None, num_chains=1)
    parts = np.concatenate([first.position, rest.position], axis=1)
    np.testing.assert_array_equal(parts, whole.position)

    broken = ewsg.stream(Broken(ROWS, (9 if name == "svrg" else 4) + 18), window=26, passes=2.0)
    with pytest.warns(RuntimeWarning, match="could not be read"):
        stopped = draws(kernel, broken, checkpoint=tmp_path / "run")
    assert 0 < stopped.num_steps < 60
    np.testing.assert_array_equal(stopped.position, whole.position[:, : stopped.num_steps])
    mended = ewsg.stream(Broken(ROWS, None), window=26, passes=2.0)
    again = ewsg.resume(tmp_path / "run", mended, kernel=kernel)
    np.testing.assert_array_equal(again.position, whole.position)
    assert again.gradient_evaluations == whole.gradient_evaluations


class Broken:
    """An array of which so many slices are read before one fails."""

    def __init__(self, rows, reads):
        self.rows, self.reads = rows, reads
        self.shape, self.dtype, self.ndim = rows.shape, rows.dtype, rows.ndim

    def __getitem__(self, place):
        if isinstance(place, slice) and self.reads is not None:
            self.reads -= 1
            if self.reads < 0:
                raise OSError(5, "Input/output error")
        return self.rows[place]


@pytest.mark.full
def test_other_data_are_refused_where_a_run_is_taken_up(tmp_path):
    kernel = uniform()
    draws(kernel, ewsg.stream(ROWS, window=26), checkpoint=tmp_path / "run")
    for other in (
        ewsg.stream(ROWS, window=20),
        ewsg.stream(ROWS, window=26, passes=2.0),
        ROWS,
        -ROWS,
    ):
        data = (
            ewsg.stream(other, window=26)
            if other is not ROWS and isinstance(other, np.ndarray)
            else other
        )
        with pytest.raises(ValueError, match="data must be that of the run"):
            ewsg.resume(tmp_path / "run", data, kernel=kernel)


@pytest.mark.full
@pytest.mark.parametrize("name", ["random", "svrg"])
def test_batches_of_chains_have_the_same_windows(name):
    kernel, stream = KERNELS[name], ewsg.stream(ROWS, window=26)
    together = draws(kernel, stream, num_chains=4)
    apart = draws(kernel, stream, num_chains=4, chain_batch_size=2)
    np.testing.assert_array_equal(apart.position, together.position)


@pytest.mark.full
def test_members_of_a_stack_have_the_windows_of_their_own_runs():
    kernels, stream = [uniform(step_size=h) for h in (1e-3, 2e-3)], ewsg.stream(ROWS, window=26)
    runs = draws(ewsg.stack(kernels), stream)
    for run, kernel in zip(runs, kernels, strict=True):
        np.testing.assert_allclose(run.position, draws(kernel, stream).position, rtol=1e-12)


@pytest.mark.full
def test_a_lost_chain_is_replayed_over_the_windows_that_it_had(monkeypatch):
    """By steps one by one: whoever sees row 60 is lost. From the start, no later state is kept."""
    monkeypatch.setattr("ewsg_jax.run.health.BYTES_PER_SECOND", 1e-9)
    rows = ROWS.copy()
    rows[60] = 1.7e308
    stream = ewsg.stream(rows, window=26, passes=0.1)
    kernel = uniform(batch_size=1, step_size=1.1e-2)
    with pytest.warns(RuntimeWarning, match="chains diverged"):
        found = draws(kernel, stream, 500, num_chains=3)
    windows = StreamWindows(stream, KEY, kernel, True)
    step = jax.jit(kernel.step)
    init_key, run_key, _ = jax.random.split(KEY, 3)
    for chain in range(3):
        key = jax.random.fold_in(run_key, chain)
        state, number, last = kernel.init(init_key, jnp.zeros(2), windows.at(0)), 0, None
        while np.isfinite(state.position).all() and number < 500:
            last = state.position
            state, _ = step(jax.random.fold_in(key, number), state, windows.at(number))
            number += 1
        assert found.diverged_at[chain] == number < 500
        np.testing.assert_allclose(found.state.position[chain], last, rtol=1e-9)
    windows.close()
    assert len(set(found.diverged_at)) == 3
    assert found.diverged_at.max() > 20


@pytest.mark.full
@pytest.mark.parametrize("name", ["full", "svrg", "centre"])
def test_sums_over_all_rows_read_all_windows(name):
    """Steps whose batches do not count, the gradient being linear: those of data in memory."""
    kernel = KERNELS[name]
    there, here = (draws(kernel, data) for data in (ROWS, ewsg.stream(ROWS, window=26)))
    np.testing.assert_allclose(here.position, there.position, rtol=1e-12, atol=1e-13)
    assert here.gradient_evaluations == there.gradient_evaluations


@pytest.mark.full
def test_evaluations_are_those_of_the_steps():
    stream = ewsg.stream(ROWS, window=26)
    assert draws(uniform(), stream, None, data_passes=5.0).num_steps == 5 * 103 // 4
    assert draws(uniform(), stream, 50).data_passes == 50 * 4 / 103
    every = ewsg.svrg_ld(
        MODEL, 1e-3, batch_size=4
    )  # ⌈103/4⌉ = 26 steps from one anchor to the next
    assert draws(every, stream, 53, num_chains=1).gradient_evaluations == 53 * 8 + 3 * 103


@pytest.mark.full
def test_the_mode_over_a_stream():
    there, here = (
        ewsg.find_mode(KEY, MODEL, jnp.ones(2), data)
        for data in (jnp.asarray(ROWS), ewsg.stream(ROWS, window=26))
    )
    np.testing.assert_allclose(here.position, there.position, rtol=1e-12)
    np.testing.assert_allclose(here.potential, there.potential, rtol=1e-12)


@pytest.mark.full
def test_the_mode_over_a_stream_of_a_long_position():
    """L-BFGS before Newton's method: 40 numbers, whose mode is the mean of the rows."""
    rows = np.random.default_rng(1).normal(size=(60, 40))
    posterior = ewsg.Posterior(MODEL.log_likelihood, MODEL.log_prior)
    found = ewsg.find_mode(KEY, posterior, jnp.ones(40), ewsg.stream(rows, window=25))
    assert found.converged
    np.testing.assert_allclose(found.position, rows.mean(axis=0), rtol=0, atol=1e-3)
