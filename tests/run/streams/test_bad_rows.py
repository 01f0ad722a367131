"""Disks that die, files short or changed, rows unlike others: told by file and row."""

import builtins
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

pytestmark = pytest.mark.full

MODEL, KEY = ewsg.models.gaussian_location(), jax.random.key(0)
KERNEL = ewsg.sgld(MODEL, 1e-3, batch_size=5)
ROWS = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)


def sample(data, kernel=KERNEL, num_steps=200):
    """Windows of 20 rows, four steps each."""
    return ewsg.sample(KEY, kernel, jnp.zeros(2), data, num_steps)


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    return tmp_path / "rows.npy"


class Later:
    """Something that goes wrong when so many windows have been read."""

    def __init__(self, monkeypatch, windows, act):
        self.left, self.act = windows, act
        read = ewsg.Stream.read_runs

        def counted(stream, *asked):
            self.left -= 1
            if self.left == 0:
                act()
            return read(stream, *asked)

        monkeypatch.setattr(ewsg.Stream, "read_runs", counted)


def ends_early(data, told, kernel=KERNEL):
    """Sample, and return what was, once the run was ended by a row that is told."""
    with pytest.warns(RuntimeWarning, match=told) as found:
        samples = sample(data, kernel)
    assert "what was sampled is returned" in str(found[0].message)
    assert samples.interrupted
    assert 0 < samples.num_steps < 200
    assert np.isfinite(samples.position).all()
    assert samples.position.shape == (1, samples.num_steps, 2)
    assert int(samples.state.step[0]) <= samples.num_steps
    return samples


def test_a_dead_disk(path, monkeypatch):
    stream = ewsg.stream(path, window=20)
    whole = sample(stream)

    class Dead:
        def __init__(self, *_, **__): ...

        def __enter__(self):
            return self

        def __exit__(self, *_): ...

        def seek(self, place): ...

        def readinto(self, view):
            raise OSError(5, os.strerror(5))

    Later(monkeypatch, 4, lambda: monkeypatch.setattr(builtins, "open", Dead))
    samples = ends_early(stream, r"row \d+ of '.*rows.npy' could not be read: Input/output error")
    np.testing.assert_array_equal(samples.position, whole.position[:, : samples.num_steps])


def test_a_file_that_becomes_shorter(path, monkeypatch):
    stream = ewsg.stream(np.load(path, mmap_mode="r"), window=20)
    Later(monkeypatch, 3, lambda: os.truncate(path, 500))
    ends_early(stream, r"rows.npy' has 500 bytes, and had 928")


def test_a_file_that_is_shorter_than_it_says(path, monkeypatch):
    """Though its size and its time have not changed, as far as the system says."""
    stream = ewsg.stream(path, window=20)
    monkeypatch.setattr("ewsg_jax.run.streams.source.UnchangedFile.check", lambda _: None)
    os.truncate(path, 128 + 8 * 37)
    with pytest.raises(ValueError, match=r"rows.npy' ends in row 37 of 100"):
        stream.read(30, 40)
    with pytest.raises(ValueError, match=r"rows.npy' is not one: it is cut short, at 424 bytes"):
        ewsg.stream(path)


def test_a_file_that_changes(path, monkeypatch):
    stream = ewsg.stream(path, window=20)
    Later(monkeypatch, 3, lambda: os.utime(path, ns=(1, 1)))
    ends_early(stream, r"rows.npy' has 1 as time of its last change")


def test_nan_in_a_later_window(path):
    wrong = ROWS.copy()
    wrong[63, 1] = np.nan
    np.save(path, wrong)
    stream = ewsg.stream(path, window=20)
    samples = ends_early(stream, r"row 63 of '.*rows.npy' holds nan in data")
    assert samples.num_steps % 4 == 0
    with pytest.warns(RuntimeWarning, match="1 of 1 chains diverged"):
        ewsg.sample(KEY, KERNEL, jnp.zeros(2), stream, 20, check_data=False)


@pytest.mark.usual_parameters("cv_ld")
@pytest.mark.parametrize("name", ["ld", "cv_ld"])
def test_nan_in_a_sum_over_all_rows(name, path):
    """Found before the first step: an error."""
    wrong = ROWS.copy()
    wrong[99, 0] = np.inf
    np.save(path, wrong)
    kernel = {"ld": ewsg.ld(MODEL, 1e-3), "cv_ld": ewsg.cv_ld(MODEL, 1e-3, batch_size=5)}[name]
    with pytest.raises(ValueError, match=r"row 99 of '.*rows.npy' holds inf"):
        sample(ewsg.stream(path, window=20), kernel)
    with pytest.raises(ValueError, match=r"row 99 of '.*rows.npy' holds inf"):
        ewsg.find_mode(KEY, MODEL, jnp.zeros(2), ewsg.stream(path, window=20))


@pytest.mark.full
def test_a_disk_that_fails_at_a_later_anchor(path, monkeypatch):
    """Once, within a compiled step, whose result is not used."""
    kernel = ewsg.svrg_ld(MODEL, 1e-3, batch_size=5, refresh_every=20)
    stream = ewsg.stream(path, window=20)
    whole = sample(stream, kernel)
    piece, asked = ewsg.Stream.piece, []

    def fails_once(stream, number, *others):
        asked.append(number)
        if len(asked) == 8:  # of the five windows of the second anchor the third
            stream.error = OSError(5, "data must be readable; row 47 could not be read")
        return piece(stream, number, *others)

    monkeypatch.setattr(ewsg.Stream, "piece", fails_once)
    samples = ends_early(stream, "row 47 could not be read", kernel)
    assert samples.num_steps <= 20
    np.testing.assert_array_equal(samples.position, whole.position[:, : samples.num_steps])


class Items(list):
    """Rows that are asked for one by one."""

    def __getitem__(self, row):
        if isinstance(row, slice):
            raise TypeError
        return super().__getitem__(row)


@pytest.mark.usual_parameters("float64", "longer")
@pytest.mark.parametrize(
    ("row", "told"),
    [
        (np.zeros(2), r"row 63: float64 of shape \(2,\)"),
        (np.zeros(3, np.float32), r"row 63: float32 of shape \(3,\)"),
        ((np.zeros(2, np.float32), 1), "row 63: another structure"),
        ("a text", "row 63 holds 'a text'"),
    ],
    ids=["float64", "longer", "a tuple", "a text"],
)
def test_rows_of_another_kind(row, told):
    rows = Items(ROWS)
    rows[63] = row
    ends_early(ewsg.stream(rows, window=20), told)


def test_a_label_that_the_model_does_not_know(tmp_path):
    labels = np.zeros(100, int)
    labels[63] = 2
    np.save(tmp_path / "y.npy", labels)
    stream = ewsg.stream({"x": ROWS, "y": tmp_path / "y.npy"}, window=20)
    kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-3, batch_size=5)
    ends_early(stream, r"row 63 of '.*y.npy': .* must hold 0 and 1 only", kernel)


def test_a_bad_first_window_is_an_error(path):
    np.save(path, np.full((100, 2), np.nan, np.float32))
    with pytest.raises(ValueError, match=r"rows\.npy' holds nan"):
        sample(ewsg.stream(path, window=20))
