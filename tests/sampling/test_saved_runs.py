"""Files that were saved once are read by every later version.

The files of `tests/references/runs` are never written anew; `saved_runs.py` tells how they were made. Beside each
stands what NumPy said was in it.
"""

import json

import jax
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.sampling import saved_runs

LATER = (
    ".shared_minibatch",
    ".state.rows",
    ".state.memory.error",
    ".state.memory.center",
    ".state.memory.rounding",
    ".state.memory.before",
    ".state.dynamics.log_scale",
)
"""Fields that a class got after the files were written: a file that says nothing of one leaves it None, 0 or ()."""


def load(name):
    run = saved_runs.RUNS[name]
    position = run.position if name == "sghmc_named_tuple" else None
    return ewsg.load(saved_runs.FOLDER / f"{name}.npz", position)


def test_every_file_is_looked_at():
    assert {path.stem for path in saved_runs.FOLDER.iterdir()} == set(saved_runs.RUNS)


@pytest.mark.parametrize("name", saved_runs.RUNS)
def test_everything_is_read(name):
    written = json.loads((saved_runs.FOLDER / f"{name}.json").read_text())
    found = json.loads(json.dumps(saved_runs.contents(load(name))))
    told = {path for path, *_ in written}
    for line in [line for line in found if line[0] in LATER and line[0] not in told]:
        path, kind, *value = line
        nothing = {"NoneType": [None], "tuple": [0]}
        assert value == nothing[kind] if kind in nothing else set(value[-1]) <= {"0"}, line
        found.remove(line)
        of_class, _, field = path.rpartition(".")
        (names,) = [line for line in found if line[0] == of_class]
        names.remove(field)
    assert found == written


@pytest.mark.parametrize("name", saved_runs.RUNS)
def test_a_run_goes_on(name):
    """The state fits its kernel, and chains move on from where they were."""
    samples = load(name)
    on = saved_runs.make(name, num_steps=4, state=samples.state)
    assert int(on.state.step[0]) == saved_runs.STEPS + 4
    assert on.is_finite.all()
    assert on.gradient_evaluations > 0
    before, after = (np.concatenate(list(map(np.ravel, jax.tree.leaves(s.state.position)))) for s in (samples, on))
    assert not np.array_equal(before, after)
