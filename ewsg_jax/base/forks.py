"""Whether this process is a fork of one that has run programs, in which JAX waits for ever."""

import os

_PROCESS: list[int] = []
"""The process of the first call of a function that works on the host."""


def check_process(function: str) -> None:
    """Check that this process is not a fork of one that ran programs, in which nothing ends.

    Raises:
        RuntimeError: it is.
    """
    if not _PROCESS:
        _PROCESS.append(os.getpid())
    if _PROCESS[0] != os.getpid():
        raise RuntimeError(
            f"{function} must be called in a process that is no fork of one that has run programs: "
            "JAX's threads are not in it, and it would wait for ever; start processes by "
            "multiprocessing.get_context('spawn') or 'forkserver'"
        )
