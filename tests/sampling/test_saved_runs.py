"""What is saved comes back whole, states of every kind, and a run goes on from it."""

import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.sampling import saved_runs


@pytest.mark.usual_parameters("svrg_ld_epochs", "cv_uld", "flymc")
@pytest.mark.parametrize("name", saved_runs.RUNS)
def test_everything_comes_back_and_goes_on(name, tmp_path):
    samples = saved_runs.make(name, num_chains=2)
    samples.save(tmp_path / "run.npz")
    run = saved_runs.RUNS[name]
    position = run.position if name == "sghmc_named_tuple" else None
    again = ewsg.load(tmp_path / "run.npz", position, kernel=run.kernel, data=run.data)
    written = saved_runs.contents(samples)
    assert saved_runs.contents(again) == written
    on, never_stopped = (
        saved_runs.make(name, num_steps=4, state=which.state) for which in (again, samples)
    )
    assert saved_runs.contents(on.state) == saved_runs.contents(never_stopped.state)
    assert int(on.state.step[0]) == saved_runs.STEPS + 4
    assert np.all(on.is_finite)
