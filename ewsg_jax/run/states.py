"""The states of chains in files: arrays by key paths, in the structure of what a kernel's `init`
returns.

A file names no classes. The states come back where there is the kernel again: `resume` has it,
`load` takes it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.typing import Data, PyTree
from ewsg_jax.kernels.protocol import Checked, Kernel, KernelState, check_rows
from ewsg_jax.run import archive
from ewsg_jax.run.archive import Contents
from ewsg_jax.run.devices import Placed
from ewsg_jax.run.starts import state_shapes
from ewsg_jax.run.streams.stream import Stream

STATE = "state"
"""What the names of a state's arrays begin with."""


class SavedState(NamedTuple):
    """The states of chains as a file holds them.

    Attributes:
        positions: their shapes, leading axis chain.
        arrays: by name.
        rows: how many rows of data `init` saw, None where it does not say.
        on_device: whether they were arrays of JAX.
    """

    positions: PyTree
    arrays: dict[str, Any]
    rows: int | None
    on_device: bool


class StateNotLoaded:
    """In the place of `samples.state`, of samples that were loaded without their kernel.

    Attributes:
        step: the number of the last step.
    """

    def __init__(self, step: int) -> None:
        self.step = step

    def __repr__(self) -> str:
        return "samples.state, which ewsg_jax.load(path, kernel=kernel, data=data) gives"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"samples were loaded without their kernel, so samples.state has no {name}: give "
            "ewsg_jax.load(path, kernel=kernel, data=data) those of the run"
        )


def describe(state: KernelState) -> dict[str, Any]:
    """Return what the text of a file says of states."""
    return {
        "position": archive.describe_position(state.position),
        "rows": None if state.rows is None else state.rows.num_rows,
        "step": int(np.ravel(state.step)[0]),
        "on_device": any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state)),
    }


def saved(contents: Contents, position: PyTree) -> SavedState:
    """Return the states in a file.

    Raises:
        UnreadableError: it describes none.
        ValueError: the position is missing where its structure is not in the file, or does not fit.
    """
    positions = archive.position_shapes(contents.told("position"), position)
    return SavedState(
        positions, contents.under(STATE), contents.told("rows"), contents.told("on_device", bool)
    )


def restored(
    found: SavedState,
    kernel: Kernel,
    data: Data,
    placed: Placed | None = None,
) -> KernelState:
    """Return states in the structure of those of a kernel.

    Args:
        found: what is in the file.
        kernel: a kernel, or a stack.
        data: as a tree of arrays, their shapes, or a stream.
        placed: the data on the devices of a run, None for one.

    Raises:
        TypeError, ValueError: the kernel and the data are not those of such a run.
    """
    if isinstance(data, Stream):
        data = data.shapes()
    if found.rows is not None:
        check_rows(KernelState((), (), Checked(found.rows)), data)
    shapes = state_shapes(kernel, data, found.positions, False, placed)
    like = archive.entries(STATE, shapes)
    wants, has = ({name: x.dtype for name, x in leaves.items()} for leaves in (like, found.arrays))
    for name in has | wants:
        if has.get(name) != wants.get(name):
            raise ValueError(
                f"kernel must be that of the run, and jax_enable_x64 as in it; got {kernel!r}: "
                f"{name} is {has.get(name, 'not')} in the file, {wants.get(name, 'not')} in its "
                "states"
            )
    leaves = [found.arrays[name] for name in like]
    return jax.tree.unflatten(
        jax.tree.structure(shapes), [jnp.asarray(x) for x in leaves] if found.on_device else leaves
    )
