"""The starts of chains, and the keys that distinguish them."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checked_arrays, checks, limits, pytrees, tracing
from ewsg_jax.base.compiling import QUICK, UNOPTIMISED
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients._protocol import sharing_of
from ewsg_jax.kernels.protocol import Kernel, KernelState, check_origin, check_rows
from ewsg_jax.run import devices as on
from ewsg_jax.run.compiled_loop import start
from ewsg_jax.run.devices import Devices, Placed
from ewsg_jax.run.host import on_host
from ewsg_jax.run.request import Request
from ewsg_jax.run.stacks.kernels import Stack, StackState

STATE_TAKES = "samples.state of a run of this kernel on such data"


class Keys(NamedTuple):
    """The keys of a run.

    Attributes:
        begin: the key from which positions and first states have theirs.
        shared: the key of batches that all chains share.
        positions: the key of each chain's position, shape (chains,).
        states: the key of each chain's first state, shape (chains,).
        steps: the key of each chain's steps, shape (chains,).
    """

    begin: Key
    shared: Key
    positions: Array
    states: Array
    steps: Array


class FirstStates(NamedTuple):
    """The chains' first states, before they are made.

    Attributes:
        shapes: their shapes, leading axis chain.
        shared_memory: whether the chains share the estimator's memory, which then has no chain
            axis.
        make: makes them from a run's keys.
    """

    shapes: KernelState
    shared_memory: bool
    make: Callable[[Keys], KernelState]


@functools.partial(jax.jit, static_argnums=1, compiler_options=UNOPTIMISED)
def keys_of(key: Key, num_chains: int, first: int | Array = 0) -> Keys:
    """Return the keys of these chains from the first on, chain c's functions of (key, c) alone."""
    # Three uses, three keys: none of them is a function of how many chains there are.
    begin, run, shared = jax.random.split(key, 3)
    # Position and state of a chain are drawn from keys of their own.
    uses = jnp.concatenate([_folded(begin, jnp.arange(2)), run[None]])
    # All chains' keys at once: a fold for each use would compile three times.
    by_use = jax.vmap(_folded, in_axes=(0, None))(uses, first + jnp.arange(num_chains))
    return Keys(begin, shared, *by_use)


def _folded(key: Key, numbers: Array) -> Array:
    """Return a key for each number."""
    return jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers)


def first_states(request: Request, is_restored: bool = False) -> FirstStates:
    """Return the shapes of the chains' first states, and what makes them.

    Args:
        request: what is requested.
        is_restored: whether its state is that of a checkpoint.

    Raises:
        TypeError, ValueError: a position and a state are given, or neither; the position is no
            pytree of floating-point arrays; the state is not one of this kernel on such data; or
            memory of the estimator does not fit.
    """
    kernel, data, position, state = request.kernel, request.data, request.position, request.state
    num_chains, stacked = request.num_chains, bool(request.stacked)
    if (position is None) == (state is None):
        raise ValueError(
            f"give either position or state; got {'neither' if state is None else 'both'}"
        )
    if state is not None:
        if stacked:
            raise ValueError("stacked must be False with state; got True")
        return _earlier_state(request, state, is_restored)
    # Shapes first: what is wrong with a start is said before anything is computed.
    shapes = check_starts(request.key, position, num_chains, stacked)
    num_chains = jax.tree.leaves(shapes)[0].shape[0]
    # A memory that depends on the start is shared where all chains have one start.
    common = not stacked and not is_function(position)
    sharing = sharing_of(kernel)
    shared_memory = sharing.of == "data" or (sharing.of == "start" and common)
    dtype = request.key.dtype
    try:
        states = state_shapes(kernel, data, shapes, shared_memory, request.placed, dtype)
    except ValueError as error:
        # A list of starts is a pytree too, which has a leading axis if each start is as long as it.
        if not stacked or not (hint := checks.to_stack("position", position)):
            raise
        raise ValueError(f"{error}. If position lists starts{hint}") from error
    # Tables of n rows for each chain are the one memory that may not fit.
    if sharing.limit is not None:
        needed = pytrees.num_bytes(states.memory)
        checks.fits(
            "memory_limit", sharing.limit, needed, f"the estimator's memory for {num_chains} chains"
        )

    def make(keys: Keys) -> KernelState:
        positions = make_starts(keys, position, num_chains, stacked)
        checks.finite("position", positions)
        if request.placed is None:
            return start(kernel, data, keys.states, positions, shared_memory)
        devices, rows = request.placed
        return on.start(devices, kernel, rows, keys.states, on_host(positions), shared_memory)

    return FirstStates(states, shared_memory, make)


def state_shapes(
    kernel: Kernel,
    data: Data,
    positions: Position,
    shared_memory: bool,
    placed: Placed | None = None,
    key_dtype: Any = None,
) -> KernelState:
    """Return the shapes of first states at such positions; keys are of the default kind."""
    chains = jax.tree.leaves(positions)[0].shape[0]
    keys = jax.ShapeDtypeStruct((chains,), key_dtype or jax.random.key(0).dtype)
    if placed is None:
        return checked_arrays.shapes(start, kernel, data, keys, positions, shared_memory)
    return on.start.eval_shape(placed.devices, kernel, placed.data, keys, positions, shared_memory)


def _earlier_state(request: Request, state: KernelState, is_restored: bool) -> FirstStates:
    """Check an earlier run's states, whose keys are those of a run that has started."""
    kernel, data = request.kernel, request.data
    _chains_of(kernel, state, request.num_chains)
    checks.held("state", state)
    _check_bits(state)
    check_rows(state, data)
    kernel.check(jax.tree.map(lambda x: np.asarray(x)[0], state.position), data)
    shared_memory = shares_memory(kernel, state, request.devices)
    # Compared with the shapes that `init` would make, so that any difference has a name.
    shapes = checks.shapes(state.position)
    like = state_shapes(kernel, data, shapes, shared_memory, request.placed)
    checks.same_tree(f"state must be {STATE_TAKES}", "state", state, like)
    # Last: rows of other dtypes have another digest too.
    check_origin(kernel, state, request.origin)
    # The memory of a member that diverged may not be finite, nor that of a diverged chain in a
    # checkpoint.
    is_partly = is_restored or isinstance(kernel, Stack)
    checks.finite("state", state.dynamics if is_partly else state)
    if len(np.unique(np.asarray(state.step))) > 1:
        raise ValueError(
            f"state must be of chains at one step; got steps {np.unique(np.asarray(state.step))}"
        )

    def make(_: Keys) -> KernelState:
        if request.devices is not None:
            return request.devices.place_states(state, shared_memory)
        return jax.tree.map(jnp.asarray, state)

    return FirstStates(checks.shapes(state), shared_memory, make)


def _check_bits(state: KernelState) -> None:
    """Check that a state was not made with 64 bits if these are off now."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        # Keys have no dtype of NumPy.
        dtype = getattr(leaf, "dtype", None)
        narrow = jax.dtypes.canonicalize_dtype(dtype) if isinstance(dtype, np.dtype) else dtype
        if narrow != dtype:
            raise ValueError(
                f"state must be {STATE_TAKES}, state{jax.tree_util.keystr(path)} of {narrow}; got "
                f"{dtype}: jax_enable_x64 was on, and is off"
            )


def _chains_of(kernel: Kernel, state: KernelState, num_chains: int) -> int:
    """Return the number of chains of an earlier run's states.

    Raises:
        TypeError, ValueError: they are not states of such a kernel, or of another number of chains.
    """
    checks.instance("state", state, KernelState, STATE_TAKES)
    if isinstance(kernel, Stack) != isinstance(state.dynamics, StackState):
        what = "a stack" if isinstance(state.dynamics, StackState) else "one kernel"
        raise ValueError(f"state must be {STATE_TAKES}; got that of {what}")
    leaves = jax.tree.leaves(getattr(state.dynamics, "position", ()))
    chains = jnp.shape(leaves[0])[0] if leaves and jnp.ndim(leaves[0]) else 0
    # One chain by default means as many as the state has.
    if not chains or num_chains not in (1, chains):
        wanted = "" if num_chains == 1 else f" of num_chains = {num_chains} chains"
        raise ValueError(
            f"state must be {STATE_TAKES}{wanted}; got positions "
            f"{checks.listed('state', state.position)}"
        )
    return chains


def shares_memory(kernel: Kernel, state: KernelState, devices: Devices | None = None) -> bool:
    """Return whether chains of a state share the memory, which then has no chain axis.

    A memory that chains share because they have one start is a pytree like the position.
    """
    sharing = sharing_of(kernel)
    if sharing.of != "start":
        return sharing.of == "data"
    # The state itself tells: a memory that chains share lacks their axis, and one of rows in parts
    # has an axis of these.
    memory, position = (jnp.ndim(jax.tree.leaves(x)[0]) for x in (state.memory, state.position))
    return memory - (devices is not None and devices.cuts_data) < position


def is_function(position: PyTree) -> bool:
    """Return whether a position is a function of a key (a network may be a callable pytree)."""
    return callable(position) and jax.tree_util.all_leaves([position])


def check_starts(
    key: Key, position: Position | Callable[[Key], Position], num_chains: int, stacked: bool
) -> Position:
    """Return the shapes of starting positions with a leading chain axis.

    Args:
        key: a key, for a function of a key.
        position: one point, a function of a key, or (stacked) a pytree with a leading chain axis.
        num_chains: the number of chains; with stacked positions 1 means as many as there are.
        stacked: whether the position has a leading chain axis.

    Raises:
        TypeError, ValueError: the position is no pytree of floating-point arrays, or not stacked as
            said.
    """
    if is_function(position):
        if stacked:
            raise ValueError("stacked must be False when position is a function of a key; got True")
        if isinstance(position, type):
            raise TypeError(
                "position must be a pytree of arrays or a function of a key; got the class "
                f"{position.__name__}"
            )
        # A function is asked with a key of the run, for shapes only.
        way = "take the argument"
        one = tracing.outputs("position", position, "a key", key, key=way)
        zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), one)
        checks.not_empty("position(key)", checks.position(zeros, "position(key)"))
        # A single start is not the function of a key that many chains need.
        if num_chains > 1 and not tracing.check_same("position", position, key, key=way):
            raise ValueError(
                "position must be a function of its key; got one that returns the same for each of "
                f"{num_chains} chains: draw with jax.random from the key, or give the point itself"
            )
        return _chain_shapes(one, num_chains)
    checked = checks.position(position)
    checks.not_empty("position", checked)
    if not stacked:
        return _chain_shapes(checked, num_chains)
    lengths = {x.shape[0] if x.ndim else 0 for x in jax.tree.leaves(checked)}
    if len(lengths) != 1 or 0 in lengths or (num_chains != 1 and {num_chains} != lengths):
        wanted = "" if num_chains == 1 else f" of length num_chains = {num_chains}"
        shapes = [str(x.shape) for x in jax.tree.leaves(checked)]
        shown = ", ".join(shapes[: limits.NAMES_SHOWN]) + (
            ", …" if len(shapes) > limits.NAMES_SHOWN else ""
        )
        raise ValueError(
            f"position must have a leading chain axis{wanted} when stacked=True"
            f"{checks.to_stack('position', position)}; got shapes [{shown}]"
        )
    return checks.shapes(checked)


def num_chains_of(request: Request) -> int:
    """Return the number of chains.

    Raises:
        TypeError, ValueError: as for `first_states`.
    """
    if request.state is not None:
        return _chains_of(request.kernel, request.state, request.num_chains)
    if not request.stacked or request.position is None:
        return request.num_chains
    return jax.tree.leaves(check_starts(request.key, request.position, request.num_chains, True))[
        0
    ].shape[0]


def make_starts(
    keys: Keys, position: Position | Callable[[Key], Position], num_chains: int, stacked: bool
) -> Position:
    """Return starting positions with a leading chain axis, as `check_starts` found them."""
    if is_function(position):
        # What the library makes for starts is a program of its own.
        return (getattr(position, "of_keys", None) or jax.vmap(position))(keys.positions)
    checked = checks.position(position)
    return checked if stacked else _repeated(checked, num_chains)


@functools.partial(jax.jit, static_argnums=1, compiler_options=QUICK)
def _repeated(tree: PyTree, num_chains: int) -> PyTree:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), tree)


def _chain_shapes(tree: PyTree, num_chains: int) -> PyTree:
    """Return the shapes of a pytree with a leading chain axis."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_chains, *x.shape), x.dtype), tree)
