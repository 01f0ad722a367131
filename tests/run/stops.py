"""Runs that end in the middle, and what wrote them: after a checkpoint, or by a signal."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ewsg_jax.run import checkpoint, loop

ROOT = Path(__file__).parents[2]


class Killed(BaseException):
    """In the place of a kill: nothing catches it."""


def stopped(monkeypatch, call, after, first=None):
    """Make a call that samples, and stop it just after so many checkpoints.

    With `first`, only those of the batch of chains from that one on count.
    """
    count, write = [0], checkpoint.CheckpointWriter.write

    def counted(saver, outcome):
        write(saver, outcome)
        count[0] += first is None or saver._head["first_chain"] == first
        if count[0] == after:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.CheckpointWriter, "write", counted)
        with pytest.raises(Killed):
            call()


def after(steps, call):
    """Make a call that samples, and end its run after so many steps, as if it were killed."""
    run = loop.run

    def shorter(planned, *rest):
        run(planned._replace(terms=planned.terms._replace(num_steps=steps)), *rest)

    loop.run = shorter
    try:
        call()
    finally:
        loop.run = run


def started(module, *arguments):
    """Start a program, and wait until it has written something."""
    command = [sys.executable, "-m", f"tests.run.{module}", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def killed(process, rng, most):
    """Kill a program within so many seconds."""
    time.sleep(rng.uniform(0, most))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL
