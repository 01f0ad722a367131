"""Where chains start, and the keys that tell them apart."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax import _check
from ewsg_jax._types import Array, Key, Position


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
        one = jax.eval_shape(position, key)
        _check.position(jax.tree.map(lambda x: jnp.zeros((), x.dtype), one), "position(key)")
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


def chain_keys(key: Key, num_chains: int) -> Array:
    """Return one key per chain, that of chain c a function of (key, c) alone."""
    return jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(num_chains))
