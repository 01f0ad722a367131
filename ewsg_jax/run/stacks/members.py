"""The members of a stack, joined to one kernel and taken apart again."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.modules import is_same
from ewsg_jax.base.typing import PyTree
from ewsg_jax.kernels.protocol import Kernel

TAKES = "kernels must be some that differ by their numbers alone, or one made under vmap"


def joined(kernels: Sequence[Kernel]) -> tuple[Kernel, tuple[str, ...]]:
    """Return one kernel of some, members in front of what differs, and how each leaf does.

    Raises:
        ValueError: arrays differ in shape.
    """
    structure = jax.tree.structure(kernels[0])
    leaves, differs = [], []
    for (path, first), *others in zip(
        jax.tree_util.tree_leaves_with_path(kernels[0]),
        *map(jax.tree.leaves, kernels[1:]),
        strict=True,
    ):
        if all(is_same(first, other) for other in others):
            leaves.append(first)
            differs.append("")
            continue
        values = [first, *others]
        shapes = {jnp.shape(value) for value in values}
        if len(shapes) > 1:
            raise ValueError(f"{TAKES}; got {name_of(path)} of shapes {sorted(shapes)}")
        are_numbers = all(isinstance(value, int | float) for value in values)
        leaves.append(np.array(values, np.float64) if are_numbers else jnp.stack(values))
        differs.append("number" if are_numbers else "array")
    return structure.unflatten(leaves), tuple(differs)


def apart(kernel: Kernel, differs: tuple[str, ...], member: int) -> Kernel:
    """Return one of those that were joined."""
    leaves, structure = jax.tree.flatten(kernel)
    pairs = zip(leaves, differs, strict=True)
    return structure.unflatten([_one(leaf[member], kind) if kind else leaf for leaf, kind in pairs])


def first_of(tree: PyTree) -> PyTree:
    """Return the first member's of arrays, or of shapes, with a leading axis of members."""
    return _made(lambda x: x[0], tree)


def of_member(tree: PyTree, member: int, axis: int) -> PyTree:
    """Return a member's of arrays whose axis of members is this one."""
    return jax.tree.map(lambda x: x[(slice(None),) * axis + (member,)], tree)


def merged(data: PyTree) -> PyTree:
    """Return the rows of all data sets in turn, of arrays or shapes (row, data set, …)."""
    return _made(lambda x: x.reshape(-1, *x.shape[2:]), data)


def name_of(path: Any) -> str:
    """Return the name of a leaf of a kernel."""
    return jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")


def _one(value: object, kind: str) -> Any:
    return float(value) if kind == "number" and isinstance(value, np.generic) else value


def _made(of: Callable[[Any], Any], tree: PyTree) -> PyTree:
    """Return what a function makes of arrays, or its shapes of theirs."""
    return jax.tree.map(
        lambda x: jax.eval_shape(of, x) if isinstance(x, jax.ShapeDtypeStruct) else of(x), tree
    )
