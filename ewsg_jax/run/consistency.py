"""The fingerprint of a run: whether all processes were given the same, and a run that resumes."""

import hashlib
import importlib.metadata
import os
import platform
import re
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from ewsg_jax.base import pytrees
from ewsg_jax.base.freshness import functions_in
from ewsg_jax.base.function_digests import Reader
from ewsg_jax.base.modules import text
from ewsg_jax.base.warn import warn
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.checkpoint import Earlier
from ewsg_jax.run.data_digest import data_fingerprint
from ewsg_jax.run.request import Request
from ewsg_jax.run.starts import is_function

COMPARED_AS_TEXT = (
    *("num_steps", "data_passes", "seconds", "burn_in", "thin", "num_chains", "stacked"),
    "first_chain",
    *("shared_minibatch", "randomness_memory", "check_data"),
)
"""Arguments that are compared between processes as they are printed."""


def run_fingerprint(request: Request) -> dict[str, Any]:
    """Return what must be the same when a run resumes, apart from its states, as JSON holds it."""
    # JSON holds no types of NumPy, so numbers are Python's.
    return {
        "key": {
            "words": np.asarray(jax.random.key_data(request.key)).tolist(),
            "by": str(jax.random.key_impl(request.key)),
        },
        "burn_in": int(request.burn_in),
        "thin": int(request.thin),
        "seconds": None if request.seconds is None else float(request.seconds),
        "shared_minibatch": bool(request.shared_minibatch),
        "parts": 1 if request.devices is None else int(request.devices.parts),
        "first_chain": None if request.first_chain is None else int(request.first_chain),
        "total_chains": request.total_chains,
        "randomness_memory": int(request.randomness_memory),
        "x64": bool(jax.config.read("jax_enable_x64")),
        "kernel": kernel_fingerprint(request.kernel),
        "data": data_fingerprint(request.data),
        "kept": kept_fingerprint(request),
        "functions": request.functions,
        "programs": versions(),
    }


def functions_fingerprint(request: Request) -> list[tuple[str, str]]:
    """Return the functions of a kernel, and those of what is kept, as names and digests."""
    reader = Reader(for_files=True)
    functions = functions_in((request.kernel, request.keep, request.keep_when, request.moments))
    return [(text(function), reader.read(function).digest.hex()) for function in functions]


def kernel_fingerprint(kernel: Kernel) -> dict[str, str]:
    """Return what stands for a kernel: its text, in which functions have names, and its numbers."""
    # The address of a function, if its text has one, differs from process to process.
    return {
        "text": re.sub(r" at 0x[0-9a-fA-F]+", "", repr(kernel)),
        "numbers": pytrees.digest(kernel),
    }


def kept_fingerprint(request: Request) -> dict[str, str]:
    """Return what stands for what is kept: functions by their names."""
    # A file cannot hold a function; one that has changed shows in the shapes that it returns.
    return {
        "keep": text(request.keep),
        "keep_when": text(request.keep_when),
        "moments": "None" if request.moments is None else request.moments.words,
    }


def versions() -> dict[str, str]:
    """Return the versions that bits depend on."""
    return {
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {jax.devices()[0].platform}",
    }


def check_processes(request: Request, earlier: Earlier | None) -> None:
    """Check that every process was given the same as the first; all call this at one time.

    Args:
        request: the arguments of the run.
        earlier: the checkpoint from which the run resumes.

    Raises:
        ValueError: one was not; the message, the same in all of them, names the arguments and the
            processes.
    """
    # Digests of one length, since processes can only gather arrays of one shape.
    arguments = _compared(request, earlier)
    mine = np.array(
        [
            list(hashlib.blake2b(repr(x).encode(), digest_size=16).digest())
            for x in arguments.values()
        ],
        np.uint8,
    )
    digests = np.asarray(multihost_utils.process_allgather(mine))
    others = (digests != digests[0]).any(axis=2)
    if others.any():
        # The argument is named: a list of digests would not help anybody.
        what = [
            name for name, differs in zip(arguments, others.any(axis=0), strict=True) if differs
        ]
        raise ValueError(
            f"{', '.join(what)} must be the same in all {jax.process_count()} processes; got what "
            "process 0 has not in process "
            f"{', '.join(map(str, np.flatnonzero(others.any(axis=1))))}"
        )


def _compared(request: Request, earlier: Earlier | None) -> dict[str, Any]:
    """Return what must be the same, by the names of the arguments."""
    run, devices, position = run_fingerprint(request), request.devices, request.position
    saved = None if earlier is None else earlier.state
    state = request.state if saved is None else saved.arrays
    assert devices is not None
    where = (
        text(position) if position is None or is_function(position) else pytrees.digest(position)
    )
    numbers = [device.id for device in devices.mesh.devices.flat]
    return {
        **{name: run[name] for name in ("key", "kernel", "data")},
        "position": where,
        "state": None if state is None else pytrees.digest(state),
        **{name: getattr(request, name) for name in COMPARED_AS_TEXT},
        **run["kept"],
        "the versions of jax, numpy and Python": run["programs"],
        "mesh": (devices.mesh.shape_tuple, devices.parts, numbers),
        "jax_enable_x64": run["x64"],
    }


def check_resumed(request: Request, earlier: Earlier) -> None:
    """Check that a run resumes with the arguments that it began with.

    Raises:
        ValueError: the kernel, the data or what is kept is another.

    Warns:
        RuntimeWarning: the run was started by other programs.
    """
    now, then = run_fingerprint(request), earlier.head
    where = f"the run in {os.fspath(request.checkpoint)!r}"
    if now["x64"] != then["x64"]:
        raise ValueError(f"jax_enable_x64 must be {then['x64']}, as in {where}; got {now['x64']}")
    # The first difference is reported: kernel before what is kept, before the data.
    for name, argument in (
        ("kernel", "kernel"),
        ("kept", "keep, keep_when and moments"),
        ("data", "data"),
    ):
        if now[name] != then[name]:
            differ = [part for part in now[name] if now[name][part] != then[name][part]]
            got = "other numbers" if differ == ["numbers"] else f"{now[name][differ[0]]}"
            wants = "the same" if differ == ["numbers"] else f"{then[name][differ[0]]}"
            raise ValueError(f"{argument} must be that of {where}, {wants}; got {got}")
    _check_functions(os.fspath(request.checkpoint), now, then)
    # Other versions may round in another way, which changes no distribution: a warning is enough.
    others = {name: (then["programs"][name], now["programs"][name]) for name in now["programs"]}
    changed = [f"{name} {old} is now {new}" for name, (old, new) in others.items() if old != new]
    if changed:
        warn(
            f"{where} was started by other programs ({', '.join(changed)}): what follows has the "
            "same distribution, but maybe not the bits that it would have had"
        )


def _check_functions(folder: str, now: dict[str, Any], then: dict[str, Any]) -> None:
    """Check that functions are those that the run began with, and read what they read then.

    Args:
        folder: that of the checkpoint.
        now: the fingerprint of the run that resumes.
        then: that of the run that began.

    Raises:
        ValueError: one is not; the message names it.
    """
    # Checkpoints of earlier versions have none, and Python 3.12 has other code than 3.11.
    python, python_then = (x["programs"]["python"].split(".")[:2] for x in (now, then))
    if then.get("functions") is None or python != python_then:
        return
    changed = [
        name
        for (name, digest), (_, before) in zip(now["functions"], then["functions"], strict=False)
        if digest != before
    ]
    if changed:
        raise ValueError(
            f"kernel must have the functions that the run in {folder!r} began with, and they must "
            f"read the same values; got another {', '.join(dict.fromkeys(changed))}: undo the "
            "edit, or begin a new run at the last positions, "
            f"numpy.load({os.path.join(folder, 'run.npz')!r})['state.dynamics.position'], by "
            "sample(…, stacked=True)"
        )
