"""An experiment whose chains are shared by processes of this machine, and the message where one is
lost.
"""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from ewsg_jax.cli import processes
from tests.cli.commands import configuration, ended, whole

METHOD = """
[[methods]]
name = "sghmc"
step_size = 1e-3
friction = 1
batch_size = 50
"""


def child(parent, number):
    """The process of ours that is this number of those that another one began."""
    for folder in Path("/proc").iterdir():
        try:
            of = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if of == parent and f"{processes.PLACE}={number}/" in (folder / "environ").read_text():
                return int(folder.name)
        except (OSError, ValueError, IndexError):
            continue
    return None


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="looks for the processes in /proc"
)
def test_a_lost_process_is_reported_and_the_run_resumes_without_it(tmp_path):
    # Enough passes that it is under way when its process is killed.
    config, output = configuration(tmp_path, passes=3_000), tmp_path / "shared"
    # One run, in coordinates for which each process finds the mode.
    methods = config.read_text().split("[reference]")[0] + '[model]\ncoordinates = "curvature"\n'
    config.write_text(methods + METHOD)
    status, _, told = ended(
        ["run", config, "--output", output, "--processes", 2],
        output / "checkpoints" / "sghmc" / "run.npz",
        lambda process: os.kill(child(process.pid, 1), signal.SIGKILL),
    )
    assert status == processes.Exit.LOST, told
    last = told.strip().splitlines()[-1]
    assert "process 1 of 2 ended by signal SIGKILL, and the others were ended with it" in last
    resumes = f"the checkpoints in {output}/checkpoints/ are complete, and the same command resumes"
    assert resumes in last
    assert "resumes from" in whole("run", config, "--output", output)
    whole("run", config, "--output", tmp_path / "alone")
    draws = [np.load(folder / "draws.npz")["sghmc"] for folder in (output, tmp_path / "alone")]
    np.testing.assert_array_equal(*draws)
