"""One experiment by several processes: started here, or by a cluster that has started
them itself.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from ewsg_jax.cli.config import ConfigError
from ewsg_jax.cli.console import Exit

PLACE = "EWSG_JAX_PROCESS"
"""The variable that says to a process which it is, of how many, and the port of the first one:
"1/2/29511".
"""


def is_one_of_several() -> bool:
    """Return whether this is one of several processes already: started by `launch`, SLURM or Open
    MPI, or on a TPU pod.
    """
    counts = (
        os.environ.get(name, "1") for name in ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
    )
    on_pod = "," in os.environ.get("TPU_WORKER_HOSTNAMES", "")
    return (
        PLACE in os.environ or on_pod or any(count.isdigit() and int(count) > 1 for count in counts)
    )


def join(count: int) -> None:
    """Connect to the other processes, before anything is computed.

    Raises:
        ConfigError: there are more or fewer than `count`.
    """
    # Seconds to wait for the others at the start, and to believe a silent one to be alive.
    options: dict[str, Any] = {
        "initialization_timeout": 120,
        "heartbeat_timeout_seconds": 30,
    }
    address = None
    if PLACE in os.environ:
        number, count, port = map(int, os.environ[PLACE].split("/"))
        # Of a machine's GPUs each process has one; CPUs are not chosen by these ids.
        options |= {"num_processes": count, "process_id": number, "local_device_ids": [number]}
        address = f"127.0.0.1:{port}"
    try:
        jax.distributed.initialize(address, **options)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(str(error)) from error
    if jax.process_count() != count:
        raise ConfigError(
            f"--processes must be {jax.process_count()}, as many as were started; got {count}"
        )


def mesh() -> Mesh | None:
    """Return all devices of all processes, to share the chains; None if this is the only one."""
    return Mesh(np.array(jax.devices()), ("chains",)) if jax.process_count() > 1 else None


def is_first() -> bool:
    """Return whether this process prints and writes."""
    return jax.process_index() == 0


def as_the_first(answer: bool) -> bool:
    """Return what the first process answers; each waits until all have asked."""
    return (
        bool(multihost_utils.broadcast_one_to_all(np.bool_(answer)))
        if jax.process_count() > 1
        else answer
    )


def launch(count: int, words: Sequence[str], folder: Path) -> int:
    """Start `count` processes of this command on this machine, wait for them, and return the exit
    status.

    The first one prints. If one is lost the others are ended; `folder` is the folder of the
    checkpoints, for the message.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started: list[subprocess.Popen] = []
    # The processes are interrupted too, and end by themselves.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for number in range(count):
            process = subprocess.Popen(
                [sys.executable, "-m", "ewsg_jax", *words],
                env=os.environ | {PLACE: f"{number}/{count}/{port}"},
                stdout=subprocess.DEVNULL if number else None,
                stderr=subprocess.DEVNULL if number else None,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
            started.append(process)
        ended = _wait(started)
    finally:
        for process in started:
            process.kill()
            process.wait()
        signal.signal(signal.SIGINT, before)
    number, status = next(iter(ended.items()))
    if list(ended.values()) == [status] * count and status >= 0:
        return status
    how = (
        f"by signal {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    )
    print(
        f"ewsg_jax: error: process {number} of {count} ended {how}, and the others were ended with "
        f"it; the checkpoints in {folder}/ are complete, and the same command resumes from them, "
        "on any number of them",
        file=sys.stderr,
    )
    return Exit.LOST


def _wait(processes: list[subprocess.Popen]) -> dict[int, int]:
    """Return the exit status of each process by its number, in the order in which they ended; of
    those that end soon after the first one, or before one is lost.
    """
    ended: dict[int, int] = {}
    limit = float("inf")
    while len(ended) < len(processes) and time.monotonic() < limit:
        for number, process in enumerate(processes):
            status = process.poll()
            if status is not None and number not in ended:
                ended[number] = status
                # The others have 20 seconds to end after the first one has. If it was lost, by a
                # signal, they have none: they would wait for it until JAX notices.
                limit = min(limit, time.monotonic() + (20.0 if status >= 0 else 0))
        time.sleep(0.05)
    return ended
