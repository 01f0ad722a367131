"""Places that are evenly spaced, and the rows at some places."""

import functools

import jax
import numpy as np

from ewsg_jax.base.typing import Array, Data


@functools.lru_cache(maxsize=256)
def evenly(length: int, most: int) -> np.ndarray:
    """Return at most `most` of 0, …, length − 1, evenly spaced, first and last among them."""
    numbers = np.unique(np.linspace(0, length - 1, min(most, length)).astype(int))
    # Read-only, for one array is given to all that ask.
    numbers.flags.writeable = False
    return numbers


def take_rows(data: Data, places: int | np.ndarray | tuple[np.ndarray, int]) -> Data:
    """Return some rows; of arrays in the host's memory without a compiled program."""

    def taken(x: Array | np.ndarray) -> Array | np.ndarray:
        # On the host, where indexing by other numbers compiles nothing.
        here = isinstance(x, np.ndarray) or (
            x.is_fully_addressable and all(device.platform == "cpu" for device in x.devices())
        )
        return np.asarray(x)[places] if here else x[places]

    return jax.tree.map(taken, data)
