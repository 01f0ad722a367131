"""One experiment by several processes: begun here, or by a cluster that has begun them itself."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from ewsg_jax.experiments.tables import ConfigError

PLACE = "EWSG_JAX_PROCESS"
"""The variable that tells a process which it is, of how many, and the port of the first one: "1/2/29511"."""
PATIENCE, LOST = 20.0, 3
"""Seconds that the others have to end after one has, and the exit status where one was lost."""
CONNECTING, SILENT = 120, 30
"""Seconds to wait for the others at the start, and to believe a process that says nothing to be alive."""


def began_elsewhere() -> bool:
    """Return whether this is one of several processes already: of ours, of SLURM, of Open MPI or of a TPU pod."""
    counts = (os.environ.get(name, "1") for name in ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"))
    on_pod = "," in os.environ.get("TPU_WORKER_HOSTNAMES", "")
    return PLACE in os.environ or on_pod or any(count.isdigit() and int(count) > 1 for count in counts)


def join(count: int) -> None:
    """Meet the other processes, before anything is computed.

    Raises:
        ConfigError: there are not so many.
    """
    if PLACE in os.environ:
        number, count, port = map(int, os.environ[PLACE].split("/"))
        jax.distributed.initialize(
            f"127.0.0.1:{port}",
            num_processes=count,
            process_id=number,
            # Of a machine's GPUs each has one; a CPU is not looked up by it.
            local_device_ids=[number],
            initialization_timeout=CONNECTING,
            heartbeat_timeout_seconds=SILENT,
        )
    else:
        jax.distributed.initialize(initialization_timeout=CONNECTING, heartbeat_timeout_seconds=SILENT)
    if jax.process_count() != count:
        raise ConfigError(f"--processes must be {jax.process_count()}, as many as were begun here; got {count}")


def mesh() -> Mesh | None:
    """Return all devices of all processes, to share the chains; None where this is the only one."""
    return Mesh(np.array(jax.devices()), ("chains",)) if jax.process_count() > 1 else None


def is_first() -> bool:
    """Return whether this process prints and writes."""
    return jax.process_index() == 0


def as_the_first(answer: bool) -> bool:
    """Return what the first process answers; none goes on before all have asked."""
    return bool(multihost_utils.broadcast_one_to_all(np.bool_(answer))) if jax.process_count() > 1 else answer


def launch(count: int, words: Sequence[str], folder: Path) -> int:
    """Begin so many processes of this command on this machine, wait for them, and return the exit status.

    The first one prints. Where one is lost the others are ended, and what was said is the reason.

    Args:
        count: how many.
        words: the command line.
        folder: where checkpoints are, for what is said.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The processes are interrupted too, and end by themselves.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    command = [sys.executable, "-m", "ewsg_jax", *words]
    begun: list[subprocess.Popen] = []
    with contextlib.ExitStack() as files:
        files.callback(signal.signal, signal.SIGINT, before)
        files.callback(_ended, begun)
        said = [files.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        for number in range(count):
            out, errors = (None, None) if number == 0 else (subprocess.DEVNULL, said[number])
            environment = os.environ | {PLACE: f"{number}/{count}/{port}"}
            begun.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdout=out,
                    stderr=errors,
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
                )
            )
        return _watched(begun, said, folder)


def _ended(begun: list[subprocess.Popen]) -> None:
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.wait()


def _watched(processes: list[subprocess.Popen], said: list[Any], folder: Path) -> int:
    """Return the status of the first one, once all have ended; or that one was lost."""
    ended: dict[int, int] = {}
    limit = float("inf")
    while len(ended) < len(processes) and time.monotonic() < limit:
        for number, process in enumerate(processes):
            status = process.poll()
            if status is not None and number not in ended:
                ended[number] = status
                # Others that ask for it would wait in vain.
                limit = min(limit, time.monotonic() + (PATIENCE if status >= 0 else 0))
        time.sleep(0.05)
    if len(ended) == len(processes) and len(set(ended.values())) == 1 and min(ended.values()) >= 0:
        return ended[0]
    number, status = next(iter(ended.items()))
    how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    said[number].seek(0)
    last = said[number].read().decode(errors="replace").strip().split("\n")[-1]
    print(
        f"ewsg_jax: error: process {number} of {len(processes)} ended {how}, and the others were ended with it"
        f"{f' ({last})' if last else ''}; what {folder}/ holds is whole, and the same command goes on with it, by "
        "as many processes or others",
        file=sys.stderr,
    )
    return LOST
