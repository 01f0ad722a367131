"""Whether all processes of a run were given the same: each holds a part of what only goes together."""

import hashlib
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from ewsg_jax import _tree
from ewsg_jax._module import text
from ewsg_jax.sampling import fingerprint
from ewsg_jax.sampling.request import Chains, Manner, Wanted
from ewsg_jax.sampling.starts import is_function


def check(chains: Chains, wanted: Wanted, manner: Manner) -> None:
    """Check that every process was given what the first one was; each of them calls this at the same time.

    Raises:
        ValueError: one was not; the message, the same in all of them, names what differs and where.
    """
    told = _told(chains, wanted, manner)
    mine = np.array(
        [list(hashlib.blake2b(repr(x).encode(), digest_size=16).digest()) for x in told.values()], np.uint8
    )
    every = np.asarray(multihost_utils.process_allgather(mine))
    others = (every != every[0]).any(axis=2)
    if others.any():
        what = [name for name, differs in zip(told, others.any(axis=0), strict=True) if differs]
        raise ValueError(
            f"{', '.join(what)} must be the same in all {jax.process_count()} processes; got what process "
            f"0 has not in process {', '.join(map(str, np.flatnonzero(others.any(axis=1))))}"
        )


def _told(chains: Chains, wanted: Wanted, manner: Manner) -> dict[str, Any]:
    """Return what must be the same, by the names of the arguments."""
    run, devices, position = fingerprint.of_run(chains, wanted, manner), chains.devices, chains.position
    assert devices is not None
    where = text(position) if position is None or is_function(position) else _tree.digest(position)
    return {
        "key": (run["key"]["words"].tolist(), run["key"]["by"]),
        "kernel": run["kernel"],
        "data": run["data"],
        "position": where,
        "state": None if chains.state is None else _tree.digest(chains.state),
        "num_steps, data_passes or seconds": (wanted.num_steps, wanted.data_passes, wanted.seconds),
        "burn_in or thin": (wanted.burn_in, wanted.thin),
        "num_chains or stacked": (chains.num_chains, chains.stacked),
        "keep, keep_when or moments": run["kept"],
        "shared_minibatch, randomness_memory or check_data": (
            manner.shared_minibatch,
            manner.randomness_memory,
            manner.check_data,
        ),
        "the versions of jax, numpy and Python": run["programs"],
        "mesh": (devices.mesh.shape_tuple, devices.parts, [device.id for device in devices.mesh.devices.flat]),
        "jax_enable_x64": run["x64"],
    }
