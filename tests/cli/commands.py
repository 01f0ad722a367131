"""A tiny experiment, and the command in a process of its own, which may be ended early."""

import os
import subprocess
import sys
import time

TINY = """
title = "Tiny"
note = "A word about it."
[data]
name = "breast_cancer"
[run]
num_chains = 2
data_passes = {passes}
burn_in_passes = 1
num_draws = 5
[reference]
step_size = 0.02
friction = 1
num_steps = 40
num_draws = 5
num_chains = 2
[[methods]]
name = "sghmc"
step_size = {step_size}
friction = 1
batch_size = 50
[[methods]]
name = "ewsg"
step_size = 1e-3
friction = 1
batch_size = 50
"""
FILES = {"config.toml", "metrics.json", "draws.npz", "report.txt"}
"""What a run writes, beside figures."""
# Most of a tiny run is compilation.
QUICK = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def configuration(folder, passes=4, step_size=1e-3):
    """The path of the experiment's file."""
    path = folder / "tiny.toml"
    path.write_text(TINY.format(passes=passes, step_size=step_size))
    return path


def files(folder):
    """Names in a folder of results, without figures."""
    return {path.name for path in folder.iterdir() if path.suffix != ".png"}


def command(*words):
    """The words of a command, for a process."""
    return [sys.executable, "-m", "ewsg_jax", *map(str, words)]


def whole(*words):
    """What the command prints; it ends well."""
    done = subprocess.run(command(*words), env=QUICK, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(words, path, end, pause=0.0):
    """Run the command until a file is there and `pause` seconds on; return its status, what it
    printed, and its errors.

    `end` is called with the process.
    """
    process = subprocess.Popen(command(*words), env=QUICK, stdout=-1, stderr=-1, text=True)
    try:
        until = time.monotonic() + 200
        while not path.exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(pause)
        end(process)
        printed, errors = process.communicate(timeout=200)
    finally:
        process.kill()
    return process.returncode, printed, errors
