"""The states of chains in files: arrays by key paths, in the structure of what a kernel's `init`
returns.

A file names no classes. To read the states takes the kernel again, which is an argument of `resume`
and of `load`.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.typing import Data, PyTree
from ewsg_jax.kernels.protocol import Checked, Kernel, KernelState, Origin, check_origin, check_rows
from ewsg_jax.run import archive
from ewsg_jax.run.archive import Contents
from ewsg_jax.run.devices import Placed
from ewsg_jax.run.starts import state_shapes
from ewsg_jax.run.streams.loader import Loader
from ewsg_jax.run.streams.stream import Stream

STATE, ORIGIN = "state", "origin"
"""What the names of a state's arrays begin with; the text that says of what it is."""


class SavedState(NamedTuple):
    """The states of chains as a file holds them.

    Attributes:
        positions: the shapes of the positions, leading axis chain.
        arrays: the arrays by name.
        rows: how many rows of data `init` saw, and digests; None if that is not known.
        on_device: whether they were arrays of JAX.
    """

    positions: PyTree
    arrays: dict[str, Any]
    rows: Checked | None
    on_device: bool


class StateNotLoaded:
    """Stands for `samples.state` in samples that were loaded without their kernel.

    Attributes:
        step: the number of the last step.
        rows: how many rows the run had, and digests; None if that is not known.
    """

    def __init__(self, step: int, rows: Checked | None) -> None:
        self.step, self.rows = step, rows

    def __repr__(self) -> str:
        return "samples.state, which ewsg_jax.load(path, kernel=kernel, data=data) gives"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"samples were loaded without their kernel, so samples.state has no {name}: give "
            "ewsg_jax.load(path, kernel=kernel, data=data) those of the run"
        )


def describe(state: KernelState) -> dict[str, Any]:
    """Return the text of a file about states."""
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
        ValueError: the position is missing and its structure is not in the file, or does not fit.
    """
    positions = archive.position_shapes(contents.entry("position"), position)
    return SavedState(
        positions, contents.under(STATE), saved_rows(contents), contents.entry("on_device", bool)
    )


def saved_rows(contents: Contents) -> Checked | None:
    """Return how many rows the run in a file had, with a digest if the file has one.

    Raises:
        UnreadableError: the file does not say how many.
    """
    num_rows = contents.entry("rows")
    # Files of earlier versions, and checkpoints, have nothing of it beside the states.
    origin = Origin(*contents.about.get(ORIGIN, ()))
    return None if num_rows is None else Checked(num_rows, origin=origin)


def restored(
    state: SavedState,
    kernel: Kernel,
    data: Data,
    placed: Placed | None = None,
    origin: Origin | None = None,
) -> KernelState:
    """Return states in the structure of those of a kernel.

    Args:
        state: the states as the file holds them.
        kernel: a kernel, or a stack.
        data: as a pytree of arrays, their shapes, or a stream.
        placed: the data on the devices of a run, None for one.
        origin: what stands for the data and the likelihood; None if they are not compared.

    Raises:
        TypeError, ValueError: the kernel and the data are not those of such a run.
    """
    data = data.shapes() if isinstance(data, Stream | Loader) else kernel.viewed(data)
    if state.rows is not None:
        check_rows(KernelState((), (), state.rows), data)
    shapes = state_shapes(kernel, data, state.positions, False, placed)
    like = archive.entries(STATE, shapes)
    wants, has = ({name: x.dtype for name, x in leaves.items()} for leaves in (like, state.arrays))
    for name in has | wants:
        if has.get(name) != wants.get(name):
            raise ValueError(
                f"kernel must be that of the run, and jax_enable_x64 as in it; got {kernel!r}: "
                f"{name} is {has.get(name, 'not')} in the file, {wants.get(name, 'not')} in its "
                "states"
            )
    leaves = [state.arrays[name] for name in like]
    restored_state = jax.tree.unflatten(
        jax.tree.structure(shapes), [jnp.asarray(x) for x in leaves] if state.on_device else leaves
    )
    restored_state = with_origin(
        restored_state, Origin() if state.rows is None else state.rows.origin
    )
    check_origin(kernel, restored_state, origin or Origin())
    return restored_state


def with_origin(state: KernelState, origin: Origin) -> KernelState:
    """Return the last states of a run of this origin."""
    if state.rows is None:
        return state
    return state._replace(rows=dataclasses.replace(state.rows, origin=origin))
