"""One of several processes of a run, for `test_processes`.

`python in_processes.py NUMBER COUNT PORT FOLDER WHAT`, as many times as COUNT says, at once.
"""

import os
import signal
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import ewsg_jax as ewsg
from ewsg_jax.run import loop
from tests.run import stops

N, STEPS, KEY = 31, 20, jax.random.key
X = np.random.default_rng(0).standard_normal((N, 3))
ROWS = {"x": X, "y": (X[:, 0] > 0).astype(float)}


def sampled(mesh, axis, step_size=1e-3, key=3, rows=ROWS, **options):
    """Five chains of SAGA: no number of processes divides them, and each has a memory."""
    kernel = ewsg.saga_ld(ewsg.models.logistic_regression(prior_scale=1.0), step_size, batch_size=4)
    return ewsg.sample(
        KEY(key), kernel, jnp.full(3, 0.1), rows, STEPS, num_chains=5, mesh=mesh, **options
    )


def over(axis, devices=None):
    return Mesh(np.array(jax.devices() if devices is None else devices), (axis,))


def results(number, folder):
    """Whole runs, of which the first process writes the draws, and runs that stop after 8 steps."""
    for axis in ("chains", "data"):
        samples = sampled(over(axis), axis)
        assert isinstance(samples.state.position, np.ndarray)
        if number == 0:
            np.save(folder / f"{axis}.npy", samples.position)
    written = {"checkpoint": folder / "checkpoint", "checkpoint_every": 1e-6}
    stops.after(8, lambda: sampled(over("chains"), "chains", **written))


def refusals(number):
    """What one process alone is given otherwise, and what all of them say."""
    last = number == jax.process_count() - 1
    other = dict(ROWS, x=X + 1.0 * last)
    for options in (
        {"rows": other},
        {"step_size": 2e-3 if last else 1e-3},
        {"key": 4 if last else 3},
    ):
        try:
            sampled(over("chains"), "chains", **options)
        except ValueError as error:
            print(f"refused: {error}", flush=True)


def lost(number, folder):
    """A long run, of which the last process ends itself once a checkpoint is written."""
    looked = []

    def run(planned, *rest):
        def kept(*arguments, **options):
            looked.append(arguments)
            if len(looked) > 20 and number == jax.process_count() - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return planned.advance(*arguments, **options)

        return before(planned._replace(advance=kept), *rest)

    before, loop.run, loop.SECONDS_PER_CALL = loop.run, run, 0.001
    kernel = ewsg.sgld(ewsg.models.logistic_regression(prior_scale=1.0), 1e-3, batch_size=4)
    ewsg.sample(
        KEY(3),
        kernel,
        jnp.full(3, 0.1),
        ROWS,
        10**6,
        num_chains=4,
        thin=1000,
        mesh=over("data"),
        checkpoint=folder / "lost",
        checkpoint_every=1e-6,
    )


if __name__ == "__main__":
    number, count, port, folder, what = *map(int, sys.argv[1:4]), Path(sys.argv[4]), sys.argv[5]
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_num_cpu_devices", 1)
    address = f"127.0.0.1:{port}"
    jax.distributed.initialize(
        address,
        num_processes=count,
        process_id=number,
        initialization_timeout=60,
        heartbeat_timeout_seconds=10,
    )
    if what == "lost":
        lost(number, folder)
    else:
        results(number, folder)
        refusals(number)
