"""What a run was of: so that it is gone on with by the same kernel, on the same data, and by the same programs."""

import importlib.metadata
import platform
import re
from typing import Any

import jax
import numpy as np

from ewsg_jax import _tree
from ewsg_jax._kernel import Kernel
from ewsg_jax._module import text
from ewsg_jax._types import Data
from ewsg_jax.rows.window import Window
from ewsg_jax.sampling.request import Chains, Manner, Wanted
from ewsg_jax.streams import Stream


def of_run(chains: Chains, wanted: Wanted, manner: Manner) -> dict[str, Any]:
    """Return what is to be the same when a run is taken up again, beside the states."""
    return {
        "key": {"words": np.asarray(jax.random.key_data(chains.key)), "by": str(jax.random.key_impl(chains.key))},
        "burn_in": wanted.burn_in,
        "thin": wanted.thin,
        "seconds": None if wanted.seconds is None else float(wanted.seconds),
        "shared_minibatch": manner.shared_minibatch,
        "parts": 1 if chains.devices is None else chains.devices.parts,
        "randomness_memory": manner.randomness_memory,
        "x64": bool(jax.config.read("jax_enable_x64")),
        "kernel": of_kernel(chains.kernel),
        "data": of_data(chains.data),
        "kept": of_kept(wanted),
        "programs": of_programs(),
    }


def of_kernel(kernel: Kernel) -> dict[str, str]:
    """Return what stands for a kernel: its text, in which functions have names, and its numbers."""
    # Where a function has a place in memory too, it is another in each process.
    return {"text": re.sub(r" at 0x[0-9a-fA-F]+", "", repr(kernel)), "numbers": _tree.digest(kernel)}


def of_data(data: Data) -> dict[str, str]:
    """Return what stands for data."""
    if isinstance(data, Window | Stream):
        return (data if isinstance(data, Stream) else data.whole).fingerprint()
    return {"shapes": str(jax.tree.map(lambda x: (x.shape, x.dtype.name), data)), "numbers": _tree.digest(data)}


def of_kept(wanted: Wanted) -> dict[str, str]:
    """Return what stands for what is kept: functions by their names."""
    moments = wanted.moments
    told = "None" if moments is None else f"{text(moments.of)}, {moments.covariance}, {moments.weights}"
    return {"keep": text(wanted.keep), "keep_when": text(wanted.keep_when), "moments": told}


def of_programs() -> dict[str, str]:
    """Return the versions that bits depend on."""
    return {
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {jax.devices()[0].platform}",
    }
