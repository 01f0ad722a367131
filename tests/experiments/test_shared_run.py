"""An experiment whose chains are shared by processes of this machine, and the message where one is
lost.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ewsg_jax.__main__ import main
from ewsg_jax.experiments import processes

TINY = """
title = "Tiny"
note = "A word about it."
[data]
name = "breast_cancer"
[model]
coordinates = "curvature"
[run]
num_chains = 3
data_passes = {passes}
num_draws = 5
[[methods]]
name = "sghmc"
step_size = 1e-3
friction = 1
batch_size = 50
"""
QUICK = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def command(config, output, count=None):
    shared = () if count is None else ("--processes", str(count))
    return [sys.executable, "-m", "ewsg_jax", "run", str(config), "--output", str(output), *shared]


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
    config, output = tmp_path / "tiny.toml", tmp_path / "shared"
    # Enough passes that it is under way when its process is killed.
    config.write_text(TINY.format(passes=3_000))
    running = subprocess.Popen(
        command(config, output, 2), env=QUICK, stderr=subprocess.PIPE, text=True
    )
    try:
        limit = time.monotonic() + 120
        while (
            not (output / "checkpoints" / "sghmc" / "run.npz").exists() and time.monotonic() < limit
        ):
            time.sleep(0.1)
        os.kill(child(running.pid, 1), signal.SIGKILL)
        told = running.communicate(timeout=60)[1]
    finally:
        running.kill()
        running.wait()
    assert running.returncode == processes.LOST, told
    last = told.strip().splitlines()[-1]
    assert "process 1 of 2 ended by signal SIGKILL, and the others were ended with it" in last
    assert (
        f"the checkpoints in {output}/checkpoints/ are complete, and the same command resumes "
        "from them" in last
    )
    done = [
        subprocess.run(
            command(config, folder),
            env=QUICK,
            capture_output=True,
            text=True,
            timeout=200,
            check=True,
        )
        for folder in (output, tmp_path / "alone")
    ]
    assert "resumes from" in done[0].stdout
    draws = [np.load(folder / "draws.npz")["sghmc"] for folder in (output, tmp_path / "alone")]
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize(
    ("count", "takes"),
    [("0", "at least 1; got 0"), ("two", "a number; got 'two'"), ("-1", "at least 1; got -1")],
)
def test_no_number_of_processes_is_refused(capsys, count, takes):
    with pytest.raises(SystemExit):
        main(["run", "some.toml", "--processes", count])
    assert f"--processes: must be {takes}" in capsys.readouterr().err
