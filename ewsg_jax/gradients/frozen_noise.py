"""The x of exponential weights (EWSG, eq. 4): a name, or a tree shaped like the position."""

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import Position, PyTree

FROZEN_NOISE = ("momentum", "zero", "one", "rest")


def check_tree(frozen_noise: PyTree) -> None:
    """Check a frozen noise given as a tree; whether it is shaped like the position shows at `init`."""
    takes = "frozen_noise must be a name or a tree of floating-point arrays shaped like the position"
    for leaf in jax.tree.leaves(frozen_noise):
        if not isinstance(leaf, int | float | np.ndarray | np.generic | jax.Array):
            raise TypeError(f"{takes}; got {_check.describe(leaf)} in it")
        if isinstance(leaf, jax.Array | np.ndarray):
            _check.finite("frozen_noise", leaf)
        _check.held("frozen_noise", leaf)


def check_shapes(frozen_noise: PyTree, position: Position) -> None:
    """Check that a frozen noise is shaped like the position."""
    given, needed = ([jnp.shape(x) for x in jax.tree.leaves(t)] for t in (frozen_noise, position))
    same_tree = jax.tree.structure(frozen_noise) == jax.tree.structure(position)
    is_float = all(jnp.issubdtype(jnp.result_type(x), jnp.floating) for x in jax.tree.leaves(frozen_noise))
    if not same_tree or given != needed or not is_float:
        x, like = _check.shapes(frozen_noise), _check.shapes(position)
        raise ValueError(
            "frozen_noise must be a name or a tree of floating-point arrays shaped like the position "
            f"({_check.listed('position', like)}); got {_check.listed('frozen_noise', x)}"
        )
