"""Runs on disk: whatever ends one, it goes on from its last checkpoint as if never stopped."""

import errno
import os
import random
import shutil
import sys
import zipfile
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import archive, checkpoint, consistency, health, loop
from tests.run import killed_run, stops
from tests.run.alike import same_leaves, same_runs

KEY, N, D = jax.random.key(0), 40, 3
ROWS = jax.random.normal(jax.random.key(9), (N, D)) + 1
MODEL = ewsg.models.gaussian_location()
KERNEL = ewsg.svrg_ld(MODEL, 0.01, batch_size=5)
OPTIONS = {"num_chains": 4, "burn_in": 5, "thin": 3}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Write as often as is asked for, whatever share of the time it takes."""
    monkeypatch.setattr(checkpoint, "WRITING_SHARE", 1e9)


def stopped(monkeypatch, path, kernel=KERNEL, after=3, num_steps=300, **changes):
    """Sample in short calls, and stop just after a checkpoint."""
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 1e-9)
    options = OPTIONS | {"randomness_memory": 500, "checkpoint_every": 1e-9} | changes

    def call():
        ewsg.sample(KEY, kernel, jnp.zeros(D), ROWS, num_steps, checkpoint=path, **options)

    stops.stopped(monkeypatch, call, after)


def is_odd(step):
    """Whether a step's number is odd."""
    return step % 2 == 1


KINDS = {
    "svrg": (KERNEL, {}),
    "saga": (ewsg.saga_ld(MODEL, 0.01, batch_size=5), {"keep": jnp.sum}),
    "epochs": (ewsg.sghmc(MODEL, 0.01, friction=1.0, batch_size=7, rows="epochs"), {"keep": None}),
    "shared": (ewsg.sgld(MODEL, 0.01, batch_size=5), {"shared_minibatch": True}),
    "centered": (ewsg.cv_ld(MODEL, 0.01, batch_size=5), {}),
    "weighted": (ewsg.ewsg(MODEL, 0.01, friction=1.0, batch_size=5), {}),
    "some steps": (ewsg.sgld(MODEL, 0.01, batch_size=5), {"keep_when": is_odd}),
    "keys of another kind": (ewsg.sgld(MODEL, 0.01, batch_size=5), {}),
    "a stack": (ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5) for h in (0.01, 0.02)]), {}),
}


@pytest.mark.usual_parameters("saga-3", "epochs-30")
@pytest.mark.parametrize("after", [1, 3, 30])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_bit_for_bit(monkeypatch, tmp_path, kind, after):
    """After the first checkpoint, of no steps, in the burn-in, and later."""
    kernel, changes = KINDS[kind]
    changes = {"burn_in": 20, "moments": ewsg.moments()} | changes
    key = jax.random.key(3, impl="rbg") if kind == "keys of another kind" else KEY
    monkeypatch.setattr(sys.modules[__name__], "KEY", key)
    stopped(monkeypatch, tmp_path / "run", kernel, after=after, **changes)
    assert (
        after < 30
        or kind == "epochs"
        or checkpoint.read(tmp_path / "run", None).counts["pieces"] > 1
    )
    whole = ewsg.sample(
        key, kernel, jnp.zeros(D), ROWS, 300, randomness_memory=500, **(OPTIONS | changes)
    )
    given = {name: changes[name] for name in ("keep", "keep_when", "moments") if name in changes}
    again = ewsg.resume(tmp_path / "run", ROWS, kernel=kernel, **given)
    # It has ended: it is read, and not run.
    monkeypatch.setattr(loop, "run", None)
    ended = ewsg.resume(tmp_path / "run", ROWS, kernel=kernel, **given)
    assert isinstance(again, ewsg.StackedSamples) == (kind == "a stack")
    for found in (again, ended):
        if kind == "a stack":
            same_runs(found[1], whole[1])
        else:
            same_runs(found, whole)


class Kept(NamedTuple):
    """What is kept, of a class that the library knows nothing of."""

    position: jax.Array
    total: jax.Array


def in_a_class(position):
    """The position and its sum."""
    return Kept(position, jnp.sum(position))


@ewsg.module
class Keyed(ewsg.gradients.GradientEstimator):
    """An estimator that keeps a typed key in its memory."""

    def init(self, key, position, data):
        return {"key": key, "more": [None, jnp.zeros((0, 2))]}

    def draw(self, key, data, order=None):
        return jax.random.randint(key, (5,), 0, N)

    def propose(self, randomness, memory, point, data, weight):
        return ewsg.gradients.Estimate(
            self.posterior.gradient(point, data[randomness]), randomness
        ), ()

    def gradient_at(self, estimate, position, data):
        return self.posterior.gradient(position, data[estimate.batch])

    def evaluations(self, data):
        return ewsg.gradients.Evaluations(5, 5)


@pytest.mark.full
def test_draws_moments_and_memories_of_classes_of_ones_own(monkeypatch, tmp_path):
    """Nothing of them is in the file: `resume` is given what makes them."""
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.01), Keyed(posterior=MODEL))
    given = {"keep": in_a_class, "moments": ewsg.moments(in_a_class)}
    stopped(monkeypatch, tmp_path / "run", kernel, after=6, num_steps=40, **given)
    whole = ewsg.sample(
        KEY, kernel, jnp.zeros(D), ROWS, 40, randomness_memory=500, **(OPTIONS | given)
    )
    again = ewsg.resume(tmp_path / "run", ROWS, kernel=kernel, **given)
    assert type(again.draws) is type(again.moments.mean) is Kept
    same_leaves((again.draws, again.state.dynamics), (whole.draws, whole.state.dynamics))
    keys = (run.state.memory["key"] for run in (again, whole))
    np.testing.assert_array_equal(*map(jax.random.key_data, keys))
    assert again.state.memory["more"][0] is None
    assert again.state.memory["more"][1].shape == (4, 0, 2)


@pytest.mark.full
@pytest.mark.parametrize("change", [lambda p: p, lambda p: {"a": p[:1]}, lambda p: jnp.int32(0)])
@pytest.mark.parametrize("what", ["keep", "moments"])
def test_a_function_that_has_changed_is_told(monkeypatch, tmp_path, change, what):
    """Functions go by their names: one that returns something else would be broadcast, or fail."""

    def kept(position):
        return position[:1]

    def given(function):
        return {what: function if what == "keep" else ewsg.moments(function)}

    stopped(monkeypatch, tmp_path / "run", after=6, **given(kept))
    change.__name__, change.__qualname__ = kept.__name__, kept.__qualname__
    # Moments of whole numbers are refused whatever they were before.
    match = (
        rf"{what} must return what it did when the run began|moments must return "
        r"floating-point arrays"
    )
    with pytest.raises(ValueError, match=r"must have the functions .*; got another .*kept"):
        ewsg.resume(tmp_path / "run", ROWS, kernel=KERNEL, **given(change))
    # A checkpoint of an earlier version has no digests of functions.
    monkeypatch.setattr(consistency, "_check_functions", lambda *_: None)
    with pytest.raises((TypeError, ValueError), match=match):
        ewsg.resume(tmp_path / "run", ROWS, kernel=KERNEL, **given(change))


@pytest.mark.full
def test_lost_chains_stay_lost(monkeypatch, tmp_path):
    """A jumping schedule loses chains before and after the checkpoint, at the same steps."""
    starts = jnp.array([[1e20] * D, [1.0] * D, [1e19] * D, [0.0] * D], jnp.float32)
    model = ewsg.Posterior(
        log_prior=lambda p: -jnp.sum(p**4) / 4, log_likelihood=lambda p, row: jnp.float32(0)
    )
    kernel = ewsg.ld(model, lambda step: jnp.where(step < 150, 1e-3, 0.26))

    def run(**changes):
        with pytest.warns(RuntimeWarning, match="chains diverged"):
            return ewsg.sample(
                KEY,
                kernel,
                starts,
                ROWS,
                300,
                stacked=True,
                randomness_memory=500,
                **(OPTIONS | changes),
            )

    whole = run()
    assert 0 < np.sum(whole.diverged_at < 150) < 4
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 1e-9)
    write, taken = checkpoint.CheckpointWriter.write, []

    def copied(saver, outcome):
        write(saver, outcome)
        if not taken and outcome.done > 50:
            taken.append(shutil.copytree(tmp_path / "run", tmp_path / "then"))

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.CheckpointWriter, "write", copied)
        run(checkpoint=tmp_path / "run", checkpoint_every=1e-9)
    # A chain that is lost now is looked for from the checkpoint on.
    monkeypatch.setattr(health.DivergenceMonitor, "keep", lambda *_: None)
    with pytest.warns(RuntimeWarning, match="chains diverged"):
        again = ewsg.resume(tmp_path / "then", ROWS, kernel=kernel)
    same_runs(again, whole)


@pytest.mark.full
def test_steps_of_another_function_of_the_name_are_refused(monkeypatch, tmp_path):
    """Draws in the file have the places of those that the first function kept."""

    def every(count):
        def chosen(step):
            return step % count == 0

        return chosen

    kernel = ewsg.sgld(MODEL, 0.01, batch_size=5)
    stopped(monkeypatch, tmp_path / "run", kernel, after=9, keep_when=every(2))
    with pytest.raises(ValueError, match=r"must have the functions .*; got another .*chosen"):
        ewsg.resume(tmp_path / "run", ROWS, kernel=kernel, keep_when=every(4))
    # A checkpoint of an earlier version has no digests of functions.
    monkeypatch.setattr(consistency, "_check_functions", lambda *_: None)
    for count in (1, 4):
        with pytest.raises(ValueError, match="keep_when must keep the steps that it kept when"):
            ewsg.resume(tmp_path / "run", ROWS, kernel=kernel, keep_when=every(count))
    again = ewsg.resume(tmp_path / "run", ROWS, kernel=kernel, keep_when=every(2))
    options = OPTIONS | {"randomness_memory": 500, "keep_when": every(2)}
    same_runs(again, ewsg.sample(KEY, kernel, jnp.zeros(D), ROWS, 300, **options))


def test_a_run_that_its_time_ended_is_read(monkeypatch, tmp_path):
    path, options = tmp_path / "run", OPTIONS | {"seconds": 0.01}
    whole = ewsg.sample(KEY, KERNEL, jnp.zeros(D), ROWS, 10**6, checkpoint=path, **options)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "run", None)
        same_runs(ewsg.resume(path, ROWS, kernel=KERNEL), whole)
    assert ewsg.resume(path, ROWS, kernel=KERNEL, seconds=1e-9).num_steps > whole.num_steps


@pytest.mark.full
def test_time_that_is_left_is_the_runs(monkeypatch, tmp_path):
    """A run ends when its time is up, over all its parts."""
    stopped(monkeypatch, tmp_path / "run", after=4, num_steps=100_000, seconds=1e4)
    done = checkpoint.read(tmp_path / "run", None).counts["done"]
    again = ewsg.resume(tmp_path / "run", ROWS, kernel=KERNEL, seconds=1e-9)
    assert again.num_steps > done
    whole = ewsg.sample(
        KEY, KERNEL, jnp.zeros(D), ROWS, again.num_steps, randomness_memory=500, **OPTIONS
    )
    np.testing.assert_array_equal(again.position, whole.position)


@pytest.mark.full
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), MemoryError("No space left")]
)
def test_a_full_disk_is_told_and_the_last_checkpoint_stands(monkeypatch, tmp_path, error):
    path = tmp_path / "run"
    stopped(monkeypatch, path, after=3)
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    def full(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(archive, "write_whole", full)
        with pytest.warns(
            RuntimeWarning, match=r"checkpoint after \d+ steps could not be written.*No space left"
        ):
            done = ewsg.resume(path, ROWS, kernel=KERNEL)
        with pytest.raises(type(error), match="No space left"):
            ewsg.sample(
                KEY, KERNEL, jnp.zeros(D), ROWS, 300, checkpoint=tmp_path / "new", **OPTIONS
            )
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    same_runs(ewsg.resume(path, ROWS, kernel=KERNEL), done)


@pytest.mark.usual_parameters("missing-run.npz", "cut off-run.npz", "another file-draws-000000.npz")
@pytest.mark.parametrize("name", ["run.npz", "draws-000000.npz"])
@pytest.mark.parametrize("damage", ["missing", "cut off", "another file", "a flipped bit"])
def test_a_damaged_checkpoint_is_refused_and_left_alone(monkeypatch, tmp_path, name, damage):
    path = tmp_path / "run"
    stopped(monkeypatch, path, after=6)
    file = path / name
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "cut off":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "another file":
        file.write_bytes(b"no archive")
    else:
        # Of an array: what is padding between them does not count.
        with zipfile.ZipFile(file) as whole:
            starts = sorted(entry.header_offset for entry in whole.infolist())
        content[starts[1] - 2] ^= 4
        file.write_bytes(content)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    said = f"path must be a checkpoint.*no checkpoint or damaged: .*{name.split('.')[0]}"
    with pytest.raises(ValueError, match=said):
        ewsg.resume(path, ROWS, kernel=KERNEL)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.full
def test_another_version_is_told(monkeypatch, tmp_path):
    stopped(monkeypatch, tmp_path / "run")
    now = consistency.versions()
    monkeypatch.setattr(consistency, "versions", lambda: now | {"jax": "0.99.0"})
    with pytest.warns(
        RuntimeWarning, match=r"started by other programs \(jax .* is now 0\.99\.0\)"
    ):
        ewsg.resume(tmp_path / "run", ROWS, kernel=KERNEL)


@pytest.mark.full
def test_a_run_is_not_lost_with_the_file_of_its_starts(monkeypatch, tmp_path):
    path = tmp_path / "run"
    stopped(monkeypatch, path)
    (path / "starts.npz").write_bytes(b"PK")
    with pytest.warns(RuntimeWarning, match=r"are not known \(BadZipFile: "):
        again = ewsg.resume(path, ROWS, kernel=KERNEL)
    whole = ewsg.sample(KEY, KERNEL, jnp.zeros(D), ROWS, 300, randomness_memory=500, **OPTIONS)
    same_runs(again, whole)


@pytest.mark.full
def test_what_a_kill_left_is_tidied(monkeypatch, tmp_path):
    stopped(monkeypatch, tmp_path / "run")
    (tmp_path / "run" / ".run.npz.99999").write_bytes(b"half")
    (tmp_path / "run" / ".starts.npz.99999").write_bytes(b"half")
    (tmp_path / "run" / ".draws-000002.npz.99999").write_bytes(b"half")
    (tmp_path / "run" / "mine.txt").write_bytes(b"kept")
    ewsg.resume(tmp_path / "run", ROWS, kernel=KERNEL)
    left = sorted(
        file.name for file in (tmp_path / "run").iterdir() if not file.name.startswith("draws-")
    )
    assert left == ["mine.txt", "run.npz", "starts.npz"]


@pytest.mark.parametrize(
    "count",
    [
        1,
        pytest.param(5, marks=pytest.mark.full),
        pytest.param(50, marks=pytest.mark.sweep),
    ],
)
def test_a_run_that_is_killed_again_and_again_ends_as_it_would(tmp_path, count):
    """Each time soon after its first checkpoint, so that it never comes to its end by itself."""
    rng, path, num_steps = random.Random(1), tmp_path / "run", 20_000 * count
    done = [0]
    for _ in range(count):
        assert stops.killed(stops.started("killed_run", path, num_steps), rng, 0.1)
        done.append(checkpoint.read(path, None).counts["done"])
    assert np.all(np.diff(done) > 0)
    assert done[-1] < num_steps
    kernel, data = killed_run.parts()
    again = ewsg.resume(path, data, kernel=kernel)
    options = killed_run.OPTIONS
    whole = ewsg.sample(killed_run.KEY, kernel, jnp.zeros(3), data, num_steps, **options)
    # The programs of this process are optimised less.
    np.testing.assert_allclose(again.position, whole.position, atol=1e-4)
    assert again.gradient_evaluations == whole.gradient_evaluations
    np.testing.assert_array_equal(again.step, whole.step)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [None, 2])
def test_a_chain_whose_memory_is_not_finite_is_one_lost_chain(tmp_path, size):
    """In a run with checkpoints as in one without, in batches and not, resumed or not."""
    rooted = ewsg.Posterior(lambda p, x: jnp.sum(jnp.sqrt(p) - x * p), lambda p: 0.0)
    kernel, rows = ewsg.saga_ld(rooted, 1e-5, batch_size=5), jnp.ones((20, 1))
    starts = jnp.array([[1.0], [1.2], [-1.0], [0.9]])
    how = {"stacked": True, "num_chains": 4, "chain_batch_size": size, "progress": False}
    plain = ewsg.sample(KEY, kernel, starts, rows, 20, **how)
    kept = ewsg.sample(KEY, kernel, starts, rows, 20, checkpoint=tmp_path / "run", **how)
    folder, chains = (tmp_path / "run", slice(None)) if size is None else (
        tmp_path / "run" / "chains-000002", slice(2, 4)
    )  # fmt: skip
    again = ewsg.resume(folder, rows, kernel=kernel, progress=False)
    assert plain.diverged_at.tolist() == [-1, -1, 1, -1]
    for other, those in ((kept, slice(None)), (again, chains)):
        np.testing.assert_array_equal(other.diverged_at, plain.diverged_at[those])
        np.testing.assert_array_equal(other.position, plain.position[those])
