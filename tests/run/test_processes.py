"""Runs over several processes on this machine, each with a limit on its time."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.run import in_processes

PROGRAM = Path(in_processes.__file__)


def begun(count, folder, what, seconds=120):
    """Run so many processes to their end, and return each one's status and what it printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, PYTHONPATH=str(Path(ewsg.__file__).parents[1]))
    made = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(number), str(count), str(port), folder, what],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(count)
    ]
    try:
        return [(each.communicate(timeout=seconds)[0], each.returncode) for each in made]
    finally:
        for each in made:
            each.kill()
            each.wait()


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.sweep)])
def test_processes_are_one(x64, tmp_path, count):
    ended = begun(count, tmp_path, "all")
    assert [status for _, status in ended] == [0] * count, ended[0][0][-3000:]
    one = in_processes.sampled(None, "chains").position
    close(np.load(tmp_path / "chains.npy"), one)
    if count == 2:
        # As many parts of the rows on the devices of one process.
        here = in_processes.sampled(in_processes.over("data", jax.devices()[:2]), "data").position
        close(np.load(tmp_path / "data.npy"), here)
    # What several processes wrote goes on in one.
    kernel = ewsg.saga_ld(ewsg.models.logistic_regression(prior_scale=1.0), 1e-3, batch_size=4)
    rest = ewsg.resume(tmp_path / "checkpoint", in_processes.ROWS, kernel=kernel)
    assert rest.num_steps == in_processes.STEPS
    close(rest.position, one)
    for said, _ in ended:
        refused = [line for line in said.splitlines() if line.startswith("refused: ")]
        where = (
            f"must be the same in all {count} processes; got what process 0 has not in "
            f"process {count - 1}"
        )
        assert refused == [f"refused: {name} {where}" for name in ("data", "kernel", "key")]


@pytest.mark.sweep
def test_the_checkpoint_of_a_run_that_lost_a_process_is_good(x64, tmp_path):
    ended = begun(2, tmp_path, "lost")
    # The last one was killed; without it the other ends, and hangs not.
    assert ended[1][1] == -9
    assert ended[0][1] != 0
    kernel = ewsg.sgld(ewsg.models.logistic_regression(prior_scale=1.0), 1e-3, batch_size=4)
    earlier = ewsg.run.checkpoint.read(tmp_path / "lost", np.zeros(3))
    assert earlier.counts["done"] > 0
    assert earlier.head["parts"] == 2
    samples = ewsg.resume(tmp_path / "lost", in_processes.ROWS, kernel=kernel, seconds=0.5)
    assert samples.num_steps > earlier.counts["done"]
    assert np.isfinite(samples.position).all()
