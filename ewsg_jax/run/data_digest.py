"""What stands for the rows and the likelihood of a run, in checkpoints and in the states of its
chains: their memory may hold sums of one over the others.
"""

import functools
import zlib

import jax
import numpy as np

from ewsg_jax.base import checked_arrays, pytrees
from ewsg_jax.base.function_digests import Reader
from ewsg_jax.base.typing import Data
from ewsg_jax.kernels.protocol import Kernel, Origin, posterior_of
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._given import Given
from ewsg_jax.rows._window import Window
from ewsg_jax.run.streams.loader import Loader
from ewsg_jax.run.streams.stream import Stream


def data_fingerprint(data: Data) -> dict[str, str]:
    """Return what stands for data."""
    # A window or a stream has a fingerprint of the whole, without reading it again.
    if isinstance(data, Window | Stream):
        return (data.source if isinstance(data, Window) else data).fingerprint()
    if isinstance(data, Loader | Given):
        # Batches come in any order: their kind alone stands for them.
        batches = data.shapes() if isinstance(data, Loader) else data
        row = jax.tree.map(lambda x: (x.shape[1:], x.dtype.name), batches.tree)
        return {"shapes": f"batches of {row} of {batches.total} rows", "numbers": ""}
    return {
        "shapes": str(jax.tree.map(lambda x: (x.shape, x.dtype.name), data)),
        "numbers": pytrees.digest(data),
    }


def origin_of(kernel: Kernel, data: Data) -> Origin:
    """Return what stands for the rows and the likelihood of a run."""
    posterior = posterior_of(kernel)
    return Origin(data_digest(data)) if posterior is None else model_origin(posterior, data)


def model_origin(posterior: Posterior, data: Data) -> Origin:
    """Return what stands for the rows and the likelihood of a posterior."""
    # What sums over rows are made of.
    likelihood = posterior.batched_log_likelihood or posterior.log_likelihood

    # Once for a function and what it reads now (`freshness.now`).
    def look() -> str:
        return f"code {Reader(for_files=True).read(likelihood).digest.hex()}"

    known = checked_arrays.remembered("likelihood", look, (), likelihood)
    return Origin(data_digest(data), known)


def data_digest(data: Data) -> str | None:
    """Return a digest of the rows in their order, of arrays in the dtypes that JAX gives them.

    That of a stream is one of its first row and its last, and does not compare with that of arrays:
    they begin with different words. None: these rows of a stream cannot be read.
    """
    if isinstance(data, Loader):
        return None  # they come in any order, and are read once
    if isinstance(data, Stream):
        # More rows may lie in as many files. The run says what cannot be read when it is due.
        try:
            return f"stream {pytrees.digest(data.read_runs([(0, 1), (data.num_rows - 1, 1)]))}"
        except Exception:
            return None

    # Once for arrays of JAX, which cannot change: a warm run takes no pass over its data.
    return checked_arrays.remembered("data digest", functools.partial(_of_arrays, data), data)


def _of_arrays(data: Data) -> str:
    # 32 bits, for nobody makes rows that collide: six times as fast as a cryptographic digest.
    checksum = 0
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        array = np.asarray(leaf)
        kind = jax.dtypes.canonicalize_dtype(array.dtype.newbyteorder("="))
        array = array.astype(kind, copy=False)
        head = f"{jax.tree_util.keystr(path)} {array.dtype.name} {array.shape}"
        checksum = zlib.crc32(head.encode(), checksum)
        values = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        checksum = zlib.crc32(values.data, checksum)
    return f"arrays {checksum:08x}"
