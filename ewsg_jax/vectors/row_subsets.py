"""Evenly spaced row numbers, and the rows of some numbers."""

import functools

import jax
import numpy as np

from ewsg_jax.base.typing import Array, Data


@functools.lru_cache(maxsize=256)
def evenly(length: int, most: int) -> np.ndarray:
    """Return at most `most` of 0, …, length − 1, evenly spaced, the first and the last included."""
    numbers = np.unique(np.linspace(0, length - 1, min(most, length)).astype(int))
    # Read-only, because all callers get the same array.
    numbers.flags.writeable = False
    return numbers


def take_rows(data: Data, places: int | np.ndarray | tuple[np.ndarray, int]) -> Data:
    """Return rows by their numbers; arrays in the host's memory need no compiled program."""

    def taken(x: Array | np.ndarray) -> Array | np.ndarray:
        # On the host, where indexing by other numbers compiles nothing.
        here = isinstance(x, np.ndarray) or (
            x.is_fully_addressable and all(device.platform == "cpu" for device in x.devices())
        )
        return np.asarray(x)[places] if here else x[places]

    return jax.tree.map(taken, data)
