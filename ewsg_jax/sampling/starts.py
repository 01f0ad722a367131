"""Where chains start, and the keys that tell them apart."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _tree
from ewsg_jax._kernel import Kernel, KernelState, check_rows
from ewsg_jax._types import Array, Data, Key, Position
from ewsg_jax.sampling.chunks import start


def first_state(
    key: Key,
    kernel: Kernel,
    position: Position | Callable[[Key], Position] | None,
    data: Data,
    state: KernelState | None,
    num_chains: int,
    stacked: bool,
) -> tuple[KernelState, bool]:
    """Return the chains' first states, new ones or an earlier run's, and whether they share a memory.

    Raises:
        TypeError, ValueError: there are both or neither, or one of them is not what it must be.
    """
    if (position is None) == (state is None):
        raise ValueError(f"give either position or state; got {'neither' if state is None else 'both'}")
    if state is None:
        positions, num_chains = starts(key, position, num_chains, stacked)
        _check.finite("position", positions)
        common = not stacked and not is_function(position)
        shared_memory = kernel.sharing.of == "data" or (kernel.sharing.of == "start" and common)
        keys = chain_keys(jax.random.fold_in(key, 1), num_chains)
        _check_memory(kernel, jax.eval_shape(lambda *x: start(kernel, *x, shared_memory), keys, positions, data))
        return start(kernel, keys, positions, data, shared_memory), shared_memory
    if stacked:
        raise ValueError("stacked must be False where state is given; got True")
    made_by = "samples.state of a run of this kernel on such data"
    _check.instance("state", state, KernelState, made_by)
    leaves = jax.tree.leaves(getattr(state.dynamics, "position", ()))
    chains = jnp.shape(leaves[0])[0] if leaves and jnp.ndim(leaves[0]) else 0
    if not chains or num_chains not in (1, chains):
        wanted = "" if num_chains == 1 else f" of num_chains = {num_chains} chains"
        raise ValueError(f"state must be {made_by}{wanted}; got positions {_check.listed('state', state.position)}")
    check_rows(state, data)
    kernel.check(jax.tree.map(lambda x: jnp.asarray(x)[0], state.position), data)
    keys = jax.eval_shape(lambda: chain_keys(jax.random.key(0), chains))
    shared_memory = kernel.sharing.of == "data" or (kernel.sharing.of == "start" and _shares_memory(state))
    shapes = _check.shapes(state.position), _check.shapes(data)
    like = jax.eval_shape(lambda *x: start(kernel, *x, shared_memory), keys, *shapes)
    _check.same_tree(f"state must be {made_by}", "state", state, like)
    _check.finite("state", state)
    if len(np.unique(np.asarray(state.step))) > 1:
        raise ValueError(f"state must be of chains at one step; got steps {np.unique(np.asarray(state.step))}")
    return jax.tree.map(jnp.asarray, state), shared_memory


def _shares_memory(state: KernelState) -> bool:
    """Return whether a memory that is a tree like the position has no chain axis."""
    return jnp.ndim(jax.tree.leaves(state.memory)[0]) < jnp.ndim(jax.tree.leaves(state.position)[0])


def _check_memory(kernel: Kernel, states: KernelState) -> None:
    if kernel.sharing.limit is not None:
        needed = _tree.num_bytes(states.memory)
        what = f"the estimator's memory for {states.step.shape[0]} chains"
        _check.fits("memory_limit", kernel.sharing.limit, needed, what)


def is_function(position: Any) -> bool:
    """Return whether a position is given as a function of a key (a network's weights may be a callable tree)."""
    return callable(position) and jax.tree_util.all_leaves([position])


def starts(
    key: Key, position: Position | Callable[[Key], Position], num_chains: int, stacked: bool
) -> tuple[Position, int]:
    """Return starting positions with a leading chain axis, and the number of chains.

    Args:
        key: a key, for a function of a key.
        position: one point, a function of a key, or (stacked) a tree with a leading chain axis.
        num_chains: how many; with stacked positions 1 means as many as there are.
        stacked: whether the position has a leading chain axis.

    Raises:
        TypeError, ValueError: the position is no tree of floating-point arrays, or not stacked as said.
    """
    if is_function(position):
        if stacked:
            raise ValueError("stacked must be False when position is a function of a key; got True")
        if isinstance(position, type):
            raise TypeError(
                f"position must be a tree of arrays or a function of a key; got the class {position.__name__}"
            )
        one = _check.outputs("position", position, "a key", key)
        _check.position(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), one), "position(key)")
        return jax.vmap(position)(chain_keys(jax.random.fold_in(key, 0), num_chains)), num_chains
    checked = _check.position(position)
    if not stacked:
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), checked), num_chains
    lengths = {x.shape[0] if x.ndim else 0 for x in jax.tree.leaves(checked)}
    if len(lengths) != 1 or 0 in lengths or (num_chains != 1 and {num_chains} != lengths):
        wanted = "" if num_chains == 1 else f" of length num_chains = {num_chains}"
        shapes = [x.shape for x in jax.tree.leaves(checked)]
        raise ValueError(f"position must have a leading chain axis{wanted} when stacked=True; got shapes {shapes}")
    return checked, lengths.pop()


@functools.partial(jax.jit, static_argnums=1)
def chain_keys(key: Key, num_chains: int) -> Array:
    """Return one key per chain, that of chain c a function of (key, c) alone."""
    return jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(num_chains))
