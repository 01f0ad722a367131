"""Wrong calls of checkpoints, and of runs that resume from one."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from pathlib import Path
from typing import Any

import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.stacks import GRID
from tests.wrong_calls.table import DATA, KERNEL, MODEL, POSITIVE, WRONG, sampled

A_CHECKPOINT = "a checkpoint of ewsg_jax.sample"


def on_disk(path: Path, **changes: Any) -> Path:
    """Return where a run of ten steps is written down."""
    sampled(checkpoint=path / "run", **changes)
    return path / "run"


def in_batches(path: Path) -> Path:
    """Return where a run of four chains, two at a time, is written down."""
    sampled(checkpoint=path / "run", num_chains=4, chain_batch_size=2)
    return path / "run"


def without_draws(path: Path) -> Path:
    """Return where a batch has lost its draws."""
    there = in_batches(path) / "chains-000002"
    (there / "draws-000000.npz").unlink()
    return there


def resumed(path: Path, kernel: Any = GRID[0], data: Any = DATA, **changes: Any) -> Any:
    """Go on with a run of `GRID[0]`, with something wrong."""
    return ewsg.resume(on_disk(path, kernel=GRID[0]), data, kernel=kernel, **changes)


WRONG["sample: a checkpoint"] |= {
    "T checkpoint | 3 (int) | the path of a file": lambda: sampled(checkpoint=3),
    "V checkpoint | run' | must be a folder without a run": (
        lambda path: sampled(checkpoint=on_disk(path)),
        lambda path: sampled(checkpoint=in_batches(path), num_chains=4, chain_batch_size=4),
    ),
}

WRONG["resume"] |= {
    "T path | 3 (int) | the path of a file": lambda: ewsg.resume(3, DATA, kernel=GRID[0]),
    "T kernel | gaussian_location( | a Kernel (": lambda path: resumed(path, MODEL),
    f"V path | it has no run.npz | {A_CHECKPOINT}": lambda path: ewsg.resume(
        path, DATA, kernel=GRID[0]
    ),
    "V kernel | got kernel( | must be that of the run in": lambda path: resumed(path, GRID[1]),
    "V kernel | got stack of 2 | must be that of": lambda path: resumed(path, ewsg.stack(GRID)),
    "V data | got other numbers | must be that of the run in": (
        lambda path: resumed(path, data=DATA + 1),
        lambda path: ewsg.resume(in_batches(path) / "chains-000002", DATA + 1, kernel=KERNEL),
    ),
    "V data | got ((5, 2) | must be that of": lambda path: resumed(path, data=DATA[:-1]),
    "V keep | got sum | must be that of": lambda path: resumed(path, keep=jnp.sum),
    "V moments | got positions | must be that of": lambda path: resumed(
        path, moments=ewsg.moments()
    ),
    f"V seconds | got 0 | {POSITIVE}": lambda path: resumed(path, seconds=0),
    "V path | one for each of 2 batches of chains | the checkpoint of one run": (
        lambda path: ewsg.resume(in_batches(path), DATA, kernel=KERNEL)
    ),
    f"V path | it has no draws-000000.npz | {A_CHECKPOINT}": lambda path: ewsg.resume(
        without_draws(path), DATA, kernel=KERNEL
    ),
}
