"""Batches of chains on disk: each has a checkpoint of its own, as if it were the only run."""

import dataclasses
import errno
import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import archive, checkpoint, loop
from tests.run import stops
from tests.run.alike import same_leaves, same_runs
from tests.run.test_checkpoint import is_odd

pytestmark = pytest.mark.full

KEY, D, C = jax.random.key(0), 3, 7
BATCHES = {0: 3, 3: 2, 5: 2}
"""How many chains there are from each first one on."""
ROWS = jax.random.normal(jax.random.key(9), (40, D)) + 1
MODEL = ewsg.models.gaussian_location()
SGLD = ewsg.sgld(MODEL, 0.01, batch_size=5)
STARTS = jax.random.normal(jax.random.key(2), (C, D))


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Write as often as is asked for, in short calls."""
    monkeypatch.setattr(checkpoint, "WRITING_SHARE", 1e9)
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 1e-9)


def normal(key):
    return jax.random.normal(key, (D,))


def run(kernel=SGLD, position=normal, **changes):
    options = {"num_steps": 60, "num_chains": C, "burn_in": 5, "thin": 3, "chain_batch_size": 3}
    options |= {"randomness_memory": 500} | changes
    return ewsg.sample(KEY, kernel, position, ROWS, **options)


def folder_of(path, first):
    return path / f"chains-{first:06d}"


def resume(path, first, kernel=SGLD, **changes):
    """Resume the batch of chains from `first` on."""
    folder = folder_of(path, first)
    return ewsg.resume(folder, ROWS, kernel=kernel, checkpoint_every=1e-9, **changes)


def same_batch(found, whole, first):
    """Assert that a run is that of the chains of a batch in a whole run."""
    chains = slice(first, first + BATCHES[first])
    for name in ("draws", "acceptance", "diverged_at"):
        same_leaves(getattr(found, name), jax.tree.map(lambda x: x[chains], getattr(whole, name)))
    same_leaves(found.step, whole.step)
    same_leaves(found.state.dynamics, jax.tree.map(lambda x: x[chains], whole.state.dynamics))


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
def test_a_stopped_run_continues_batch_by_batch_bit_for_bit(monkeypatch, tmp_path, kind):
    """In the first, the middle and the last batch; batches that are done are not made again."""
    changes = KINDS[kind]
    whole, kernel = run(**changes), changes.get("kernel", SGLD)
    given = {name: changes[name] for name in ("keep", "keep_when", "moments") if name in changes}
    for first, after in ((0, 3), (3, 2), (5, 1)):
        path = stopped(monkeypatch, tmp_path / str(first), first, after, **changes)
        for batch in BATCHES:
            if batch > first:
                assert not folder_of(path, batch).exists()
                continue
            resumed = lambda path=path, batch=batch: resume(path, batch, kernel, **given)
            again, made = told(monkeypatch, resumed)
            assert len(made) == (batch == first)
            # It has ended: it is read, and not run.
            ended, made = told(monkeypatch, resumed)
            assert not made
            for found in (again, ended):
                if kind == "a stack":
                    same_batch(found.whole, whole.whole, batch)
                else:
                    same_batch(found, whole, batch)


def test_it_is_stopped_again_and_again(monkeypatch, tmp_path):
    path = stopped(monkeypatch, tmp_path / "run", 0, 1)
    for after in (4, 2, 3):
        stops.stopped(monkeypatch, lambda: resume(path, 0), after, 0)
    same_batch(resume(path, 0), run(), 0)


def test_it_goes_on_from_an_earlier_runs_states(monkeypatch, tmp_path):
    before = run()
    options = {"position": None, "state": before.state, "num_chains": 1}
    path = stopped(monkeypatch, tmp_path / "run", **options)
    for first in (0, 3):
        same_batch(resume(path, first), run(**options), first)


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
    with pytest.raises(ValueError, match="position must be a pytree like the run's position"):
        resume(path, 3, kernel)
    again = resume(path, 3, kernel, position=Point(jnp.zeros(D)))
    np.testing.assert_array_equal(again.position.x, run(**changes).position.x[3:5])


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
    again, made = told(monkeypatch, lambda: resume(path, 3))
    assert made == [batches[1].done]
    assert made[0] > 0
    same_batch(again, whole, 3)


def files_of(path):
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def test_the_folder_of_all_names_those_of_the_batches(monkeypatch, tmp_path):
    path = stopped(monkeypatch, tmp_path / "run", 5)
    with pytest.raises(ValueError, match=r"each of 3 batches of chains: resume each .*00000'"):
        ewsg.resume(path, ROWS, kernel=SGLD)


def test_a_loop_over_first_chains_continues_what_was_stopped(monkeypatch, tmp_path):
    """As on the page about runs: batches that were started are resumed, the others sampled."""
    whole = run(chain_batch_size=None)

    def batch(first):
        folder = tmp_path / str(first)
        if folder.exists():
            return ewsg.resume(folder, ROWS, kernel=SGLD)
        chains = {"first_chain": first, "num_chains": BATCHES[first], "chain_batch_size": None}
        return run(checkpoint=folder, checkpoint_every=1e-9, **chains)

    stops.stopped(monkeypatch, lambda: [batch(first) for first in BATCHES], 2, 3)
    runs = [batch(first) for first in BATCHES]
    same_leaves(np.concatenate([one.draws for one in runs]), whole.draws)
    for first, one in zip(BATCHES, runs, strict=True):
        same_batch(one, whole, first)


def test_where_batches_are_no_other_run_begins(monkeypatch, tmp_path):
    """Of any size."""
    path = stopped(monkeypatch, tmp_path / "run")
    before = files_of(path)
    for size in (3, 2, None):
        with pytest.raises(ValueError, match="checkpoint must be a folder without a run; got"):
            run(checkpoint=path, chain_batch_size=size)
    assert files_of(path) == before


def test_a_wrong_call_begins_no_run(tmp_path):
    with pytest.raises(ValueError, match="stacked=True"):
        run(position=STARTS, stacked=True, num_chains=3, checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    same_runs(run(checkpoint=tmp_path / "run"), run())


def test_a_disk_that_fills_up_does_not_end_the_run(monkeypatch, tmp_path):
    """From the second batch on; what is there is gone on with."""
    true, path = archive.write_whole, tmp_path / "run"

    def full(file, write):
        if "chains-000000" in str(file):
            return true(file, write)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(archive, "write_whole", full)
        with pytest.warns(
            RuntimeWarning, match=r"after \d+ steps could not be written.*No space left"
        ):
            found = run(checkpoint=path)
    whole = run()
    same_runs(found, whole)
    same_batch(resume(path, 0), whole, 0)
