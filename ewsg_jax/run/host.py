"""What the host's loop reads: time, and arrays held by several processes."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from ewsg_jax.base.typing import PyTree


class SharedClock:
    """The time by which a run decides how to continue: that of the first process, for all.

    Each of them must read it as often as the others, so that all make the same calls.

    Attributes:
        has_many: whether there are several processes.
    """

    def __init__(self, has_many_processes: bool = False) -> None:
        self.has_many = has_many_processes

    def now(self) -> float:
        """Return the time in seconds."""
        mine = time.perf_counter()
        if not self.has_many:
            return mine
        # As words: JAX would round a float64.
        words = multihost_utils.broadcast_one_to_all(np.array([mine]).view(np.uint32))
        return float(np.asarray(words).view(np.float64)[0])

    def any_process(self, mine: bool) -> bool:
        """Return whether the value is true in this process or in any other."""
        if not self.has_many:
            return mine
        return bool(np.any(multihost_utils.process_allgather(np.bool_(mine))))


def is_key(x: Any) -> bool:
    """Return whether an array is of typed PRNG keys, which NumPy does not have."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def on_host(tree: PyTree) -> Any:
    """Return a pytree in NumPy arrays but for PRNG keys; all processes get parts held by others."""

    def fetched(x: Any) -> Any:
        if is_key(x):
            return x
        if isinstance(x, jax.Array) and not (x.is_fully_addressable or x.is_fully_replicated):
            return np.asarray(multihost_utils.process_allgather(x, tiled=True))
        return np.asarray(x)

    return jax.tree.map(fetched, tree)
