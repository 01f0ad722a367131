"""What a run needs of memory, known from shapes before anything is made, and what there is."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ewsg_jax.base import limits

try:
    import resource
except ImportError:  # on Windows
    resource = None

COPIES_OF_THE_STATE = 3
"""The one to replay from, the one that moves, and what a step makes of it."""


class Needs(NamedTuple):
    """Bytes of a run: all but the draws are on the device.

    Attributes:
        states: the chains' first states, with the memories of the estimators.
        randomness: the random numbers and rows of one block of steps.
        buffer: the draws that one compiled call holds.
        draws: all kept draws, in the host's memory.
    """

    states: int
    randomness: int
    buffer: int
    draws: int

    @property
    def on_the_device(self) -> int:
        """Bytes that the device holds at once."""
        return COPIES_OF_THE_STATE * self.states + self.randomness + self.buffer


def check(needs: Needs, num_chains: int, limit: int | None) -> None:
    """Check that a run fits in what there is of memory, or in the caller's limit.

    Raises:
        ValueError: it does not; the message has the sizes of its parts, and what would make them
            smaller.
    """
    device = jax.devices()[0]
    # On a CPU the device's memory is the host's, so both needs are one.
    if device.platform == "cpu":
        rooms = [("", needs.on_the_device + needs.draws, free_on_the_host)]
    else:
        rooms = [
            (f" of the {device.platform}", needs.on_the_device, lambda: free_on(device)),
            (" of the host", needs.draws, free_on_the_host),
        ]
    for where, needed, free in rooms:
        # The system is asked only if it may matter.
        room = limit if limit is not None else free() if needed > limits.SMALL_BYTES else None
        if room is not None and needed > room:
            got = f"{_size(room)}{' that is free' if limit is None else ''}"
            raise ValueError(
                f"memory_limit must be at least {_size(needed)}{where} for this run; got {got}: "
                f"the states of {num_chains:,} chains take {COPIES_OF_THE_STATE} times "
                f"{_size(needs.states)}, randomness {_size(needs.randomness)}, the kept draws "
                f"{_size(needs.draws)} and a buffer of {_size(needs.buffer)} for them. Smaller are "
                "runs of fewer chains, with a larger thin or burn_in, with a keep that returns "
                "less, with keep=None and moments=ewsg_jax.moments(), with a smaller "
                "randomness_memory, or, but for the draws, with a chain_batch_size"
            )


def free_on(device: Any) -> int | None:
    """Return the bytes that are free on an accelerator, None if it does not say."""
    known = device.memory_stats() or {}
    return known["bytes_limit"] - known.get("bytes_in_use", 0) if "bytes_limit" in known else None


def free_on_the_host() -> int | None:
    """Return the bytes that this process may still take, None if the system does not say."""
    limits = [_available(), _below_limit(), _in_container()]
    return min((size for size in limits if size is not None), default=None)


def _available() -> int | None:
    """What the machine has free, as Linux says; on other systems all that it has."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _below_limit() -> int | None:
    """What the limit of the process's address space (`ulimit -v`) leaves."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        taken = 0
    return max(0, limit - taken)


def _in_container() -> int | None:
    """What the limit of a container (cgroup, version 2 or 1) leaves."""
    for most, taken in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            return max(0, int(Path(most).read_text()) - int(Path(taken).read_text()))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return None


def _size(count: int) -> str:
    return f"{count / 2**30:.3g} GiB" if count >= 2**28 else f"{count / 2**20:.3g} MiB"
