"""One bijector for each part of a position."""

import functools
import operator
from typing import Any

import jax

from ewsg_jax import _check
from ewsg_jax._types import Array, Position, PyTree
from ewsg_jax.bijectors._protocol import Bijector, is_transform, transform


def tree(bijectors: PyTree) -> Bijector:
    """Return the map that sends each part of a position through a bijector of its own.

    Args:
        bijectors: a tree like the position (dictionaries, lists, tuples, NamedTuples, …), with a bijector in place
            of each leaf, or of a whole subtree. Any object with `forward` and `log_det` serves; `inverse` then
            needs theirs too.

    Raises:
        TypeError: a leaf is no bijector, or, from `inverse`, one without an inverse.
        ValueError: when used, that the position has another tree.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> both = ewsg.bijectors.tree({"mean": ewsg.bijectors.identity(), "scale": ewsg.bijectors.positive()})
        >>> u = both.inverse({"mean": jnp.array([3.0]), "scale": jnp.array(1.0)})
        >>> both.forward(u)
        {'mean': Array([3.], dtype=float32), 'scale': Array(1., dtype=float32)}
    """
    leaves = jax.tree_util.tree_leaves_with_path(bijectors, is_leaf=is_transform)
    if not leaves:
        raise TypeError(f"bijectors must be a tree with bijectors as leaves; got {_check.describe(bijectors)}")
    parts = [transform(f"bijectors{jax.tree_util.keystr(path)}", leaf) for path, leaf in leaves]
    structure = jax.tree.structure(bijectors, is_leaf=is_transform)

    def split(position: Position) -> list[Any]:
        try:
            return structure.flatten_up_to(position)
        except (ValueError, TypeError) as error:
            raise ValueError(f"position must have the tree of the bijectors, {structure}; {error}") from error

    def forward(position: Position) -> Position:
        moved = [part.forward(x) for part, x in zip(parts, split(position), strict=True)]
        return jax.tree.unflatten(structure, moved)

    def inverse(position: Position) -> Position:
        backward = [
            _check.function(
                f"bijectors{jax.tree_util.keystr(path)}.inverse", getattr(leaf, "inverse", None), "(θ) -> u"
            )
            for path, leaf in leaves
        ]
        moved = [function(x) for function, x in zip(backward, split(position), strict=True)]
        return jax.tree.unflatten(structure, moved)

    def log_det(position: Position) -> Array:
        dets = [part.log_det(x) for part, x in zip(parts, split(position), strict=True)]
        return functools.reduce(operator.add, dets)

    return Bijector(forward, inverse, log_det)
