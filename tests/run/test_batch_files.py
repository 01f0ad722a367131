"""Batches of chains on disk: whatever ends a run, in any batch, it goes on as if never."""

import dataclasses
import errno
import functools
import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import archive, batches, checkpoint, loop
from tests.run import stops
from tests.run.alike import same_runs
from tests.run.test_checkpoint import is_odd

pytestmark = pytest.mark.full

KEY, D, C, FIRSTS = jax.random.key(0), 3, 7, (0, 3, 5)
ROWS = jax.random.normal(jax.random.key(9), (40, D)) + 1
MODEL = ewsg.models.gaussian_location()
SGLD = ewsg.sgld(MODEL, 0.01, batch_size=5)
STARTS = jax.random.normal(jax.random.key(2), (C, D))


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Write as often as is asked for, in short calls."""
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 1e-9)


def normal(key):
    return jax.random.normal(key, (D,))


def run(kernel=SGLD, position=normal, **changes):
    options = {"num_steps": 60, "num_chains": C, "burn_in": 5, "thin": 3, "chain_batch_size": 3}
    options |= {"randomness_memory": 500} | changes
    return ewsg.sample(KEY, kernel, position, ROWS, **options)


def resume(path, kernel=SGLD, **changes):
    return ewsg.resume(path, ROWS, kernel=kernel, checkpoint_every=1e-9, **changes)


def stopped(monkeypatch, path, first=3, after=3, **changes):
    call = functools.partial(run, checkpoint=path, checkpoint_every=1e-9, **changes)
    stops.stopped(monkeypatch, call, after, first)
    return path


def told(monkeypatch, call):
    """Return what a call gives, and the batches that it makes steps of, by their lengths."""
    made, true = [], loop.run
    with monkeypatch.context() as patch:
        patch.setattr(
            loop,
            "run",
            lambda planned, outcome, *rest: [
                made.append(outcome.done),
                true(planned, outcome, *rest),
            ],
        )
        found = call()
    return found, made


KINDS = {
    "starts by keys": {},
    "starts of chains": {"position": STARTS, "stacked": True, "num_chains": 1},
    "one start": {
        "kernel": ewsg.cv_uld(MODEL, 0.05, friction=1.0, batch_size=5),
        "position": STARTS[0],
    },
    "anchors": {"kernel": ewsg.svrg_ld(MODEL, 0.01, batch_size=5), "moments": ewsg.moments()},
    "tables": {"kernel": ewsg.saga_ld(MODEL, 0.01, batch_size=5), "keep": jnp.sum},
    "epochs": {"kernel": ewsg.sgld(MODEL, 0.01, batch_size=7, rows="epochs"), "keep_when": is_odd},
    "shared": {"shared_minibatch": True},
    "passes": {"num_steps": None, "data_passes": 7.5},
    "a stack": {"kernel": ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5) for h in (0.01, 0.02)])},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_bit_for_bit(monkeypatch, tmp_path, kind):
    """In the first, the middle and the last batch; batches that are done are not made again."""
    changes = KINDS[kind]
    whole, kernel = run(**changes), changes.get("kernel", SGLD)
    given = {name: changes[name] for name in ("keep", "keep_when", "moments") if name in changes}
    for first, after in ((0, 3), (3, 2), (5, 1)):
        path = stopped(monkeypatch, tmp_path / str(first), first, after, **changes)
        again, made = told(monkeypatch, lambda path=path: resume(path, kernel, **given))
        assert len(made) == 3 - FIRSTS.index(first)
        assert (made[0] > 0) == (after > 1)
        # It has ended: it is read, and not run.
        ended, made = told(monkeypatch, lambda path=path: resume(path, kernel, **given))
        assert not made
        for found in (again, ended):
            if kind == "a stack":
                same_runs(found[1], whole[1])
            else:
                same_runs(found, whole)


def test_it_is_stopped_again_and_again(monkeypatch, tmp_path):
    """In each of the batches, and between two."""
    path = stopped(monkeypatch, tmp_path / "run", 0, 1)
    for first, after in ((0, 4), (3, 1), (3, 5), (5, 2)):
        stops.stopped(monkeypatch, lambda: resume(path), after, first)
    same_runs(resume(path), run())


def test_it_goes_on_from_an_earlier_runs_states(monkeypatch, tmp_path):
    before = run()
    options = {"position": None, "state": before.state, "num_chains": 1}
    path = stopped(monkeypatch, tmp_path / "run", **options)
    same_runs(resume(path), run(**options))


def test_positions_of_a_class_of_ones_own(monkeypatch, tmp_path):
    """Their structure is given, as to `load`."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Point:
        x: jax.Array

    model = ewsg.Posterior(lambda p, row: -0.5 * jnp.sum((row - p.x) ** 2), lambda p: 0.0)
    kernel = ewsg.sgld(model, 0.01, batch_size=5)
    changes = {"kernel": kernel, "position": lambda key: Point(normal(key))}
    path = stopped(monkeypatch, tmp_path / "run", **changes)
    with pytest.raises(ValueError, match="position must be a tree like the run's position"):
        resume(path, kernel)
    again = resume(path, kernel, position=Point(jnp.zeros(D)))
    np.testing.assert_array_equal(again.position.x, run(**changes).position.x)


def test_an_interrupted_batch_is_gone_on_with(monkeypatch, tmp_path):
    """The batches before it are returned, and nothing of it is lost."""
    true, path = loop.run, tmp_path / "run"
    batches = []

    def interrupted(planned, outcome, bar, interrupts, limit):
        batches.append(outcome)
        interrupts.requested = len(batches) == 2
        return true(planned, outcome, bar, interrupts, limit)

    monkeypatch.setattr(loop, "run", interrupted)
    with pytest.warns(RuntimeWarning, match="an interrupt ended the run of chains 3 to 4"):
        found = run(checkpoint=path)
    monkeypatch.setattr(loop, "run", true)
    whole = run()
    assert found.interrupted
    np.testing.assert_array_equal(found.position, whole.position[:3])
    again, made = told(monkeypatch, lambda: resume(path))
    assert made == [batches[1].done, 0]
    assert made[0] > 0
    same_runs(again, whole)


def files_of(path):
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.mark.parametrize("what", ["of another run", "of another batch", "damaged", "a whole run"])
def test_a_batch_that_is_none_of_the_run_is_refused_and_left_alone(monkeypatch, tmp_path, what):
    path, other = (stopped(monkeypatch, tmp_path / name, 5) for name in ("run", "other"))
    batch, match = path / "chains-000003", "in which chains-000003 is of another run"
    shutil.rmtree(batch)
    if what == "of another run":
        shutil.copytree(other / "chains-000003", batch)
    elif what == "of another batch":
        shutil.copytree(path / "chains-000000", batch)
    elif what == "a whole run":
        shutil.copytree(other, batch)
        match = "chains-000003', no checkpoint or damaged: run.npz"
    else:
        shutil.copytree(other / "chains-000003", batch)
        (batch / "draws-000000.npz").write_bytes(b"none")
        match = "chains-000003', no checkpoint or damaged: draws-000000.npz"
    before = files_of(path)
    with pytest.raises(
        ValueError, match=f"path must be a checkpoint of ewsg_jax.sample; got .*{match}"
    ):
        resume(path)
    assert files_of(path) == before


def test_a_batch_that_is_gone_is_made_again(monkeypatch, tmp_path):
    path = stopped(monkeypatch, tmp_path / "run", 5)
    shutil.rmtree(path / "chains-000003")
    again, made = told(monkeypatch, lambda: resume(path))
    assert (made[0], len(made)) == (0, 2)
    same_runs(again, run())


def test_where_batches_are_no_other_run_begins(monkeypatch, tmp_path):
    """Of any size; nor where the file of the whole is gone."""
    path = stopped(monkeypatch, tmp_path / "run")
    before = files_of(path)
    for size in (3, 2, None):
        with pytest.raises(ValueError, match="checkpoint must be where no run is yet; got"):
            run(checkpoint=path, chain_batch_size=size)
    (path / "run.npz").unlink()
    with pytest.raises(ValueError, match="checkpoint must be where no run is yet; got"):
        run(checkpoint=path)
    assert files_of(path) == {
        name: content for name, content in before.items() if name != "run.npz"
    }


def test_a_wrong_call_begins_no_run(tmp_path):
    with pytest.raises(ValueError, match="stacked=True"):
        run(position=STARTS, stacked=True, num_chains=3, checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    same_runs(run(checkpoint=tmp_path / "run"), run())


def test_a_disk_that_fills_up_does_not_end_the_run(monkeypatch, tmp_path):
    """From the second batch on; what is there is gone on with."""
    true, path = archive.write_whole, tmp_path / "run"

    def full(file, write):
        if "chains-000000" in str(file) or file.parent == path:
            return true(file, write)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(archive, "write_whole", full)
        with pytest.warns(
            RuntimeWarning, match=r"after \d+ steps could not be written.*No space left"
        ):
            found = run(checkpoint=path)
    again, made = told(monkeypatch, lambda: resume(path))
    assert made == [0, 0]
    same_runs(found, run())
    same_runs(again, found)


def test_states_of_batches_that_are_done_are_in_the_hosts_memory(monkeypatch, tmp_path):
    """All together they may not fit on the device."""
    path = stopped(monkeypatch, tmp_path / "run", 5)
    read, seen = batches._read, []
    monkeypatch.setattr(
        batches, "_read", lambda *arguments: [seen.append(read(*arguments)), seen[-1]][1]
    )
    resume(path)
    assert len(seen) == 3
    assert all(isinstance(leaf, np.ndarray) for each in seen for leaf in each.state.arrays.values())
