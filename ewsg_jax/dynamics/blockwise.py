"""An L-BFGS matrix for each block of a position, none of which knows of the others: H is block diagonal.

The blocks are the leaves of the tree. Each has pairs, a curvature test and a matrix of its own, so that blocks may
be worked out and moved in parallel.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax._types import Array, PyTree
from ewsg_jax.dynamics import lbfgs

Factors = tuple[lbfgs.Factor, ...]


def is_usable(s: PyTree, y: PyTree, threshold: Any) -> Array:
    """Return for each block whether its parts of s and y make a pair, shape (blocks,)."""
    parts = zip(jax.tree.leaves(s), jax.tree.leaves(y), strict=True)
    return jnp.stack([lbfgs.is_usable(of_s, of_y, threshold) for of_s, of_y in parts])


def factors(pairs: PyTree, usable: Array, oldest: Array, initial_scale: Any) -> Factors:
    """Return the factor of each block; `usable` has shape (pairs, blocks), else as `lbfgs.factor`."""
    leaves = jax.tree.leaves(pairs)
    return tuple(lbfgs.factor(leaf, usable[:, k], oldest, initial_scale) for k, leaf in enumerate(leaves))


def times(s: lbfgs.Factor | Factors, vector: PyTree) -> PyTree:
    """Return S v."""
    if isinstance(s, lbfgs.Factor):
        return lbfgs.times(s, vector)
    leaves, structure = jax.tree.flatten(vector)
    return structure.unflatten([lbfgs.times(one, leaf) for one, leaf in zip(s, leaves, strict=True)])


def transposed_times(s: lbfgs.Factor | Factors, vector: PyTree) -> PyTree:
    """Return Sᵀ v."""
    if isinstance(s, lbfgs.Factor):
        return lbfgs.transposed_times(s, vector)
    leaves, structure = jax.tree.flatten(vector)
    return structure.unflatten([lbfgs.transposed_times(one, leaf) for one, leaf in zip(s, leaves, strict=True)])
