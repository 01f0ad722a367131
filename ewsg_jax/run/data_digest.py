"""What stands for the rows of a run, in checkpoints and in the states of its chains: their memory
may hold sums over these rows.
"""

import jax
import numpy as np

from ewsg_jax.base import checked_arrays, pytrees
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.rows._window import Window
from ewsg_jax.run.streams.stream import Stream


def data_fingerprint(data: Data) -> dict[str, str]:
    """Return what stands for data."""
    # A window or a stream has a fingerprint of the whole, without reading it again.
    if isinstance(data, Window | Stream):
        return (data if isinstance(data, Stream) else data.source).fingerprint()
    return {
        "shapes": str(jax.tree.map(lambda x: (x.shape, x.dtype.name), data)),
        "numbers": pytrees.digest(data),
    }


def data_digest(data: Data) -> str | None:
    """Return a digest of the rows in their order, of arrays in the dtypes that JAX gives them.

    That of a stream is one of its first row and its last, and does not compare with that of arrays:
    they begin with different words. None: these rows of a stream cannot be read.
    """
    if isinstance(data, Stream):
        # More rows may lie in as many files. The run says what cannot be read when it is due.
        try:
            return f"stream {pytrees.digest(data.read_runs([(0, 1), (data.num_rows - 1, 1)]))}"
        except Exception:
            return None

    # Once for arrays of JAX, which cannot change: a warm run takes no pass over its data.
    def look() -> str:
        return f"arrays {pytrees.digest(jax.tree.map(_as_in_jax, data))}"

    return checked_arrays.remembered("data digest", look, data)


def _as_in_jax(leaf: Array) -> Array:
    if isinstance(leaf, jax.Array):
        return leaf
    return np.asarray(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype).newbyteorder("="))
