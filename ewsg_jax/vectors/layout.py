"""A position as a vector of d numbers, in `ravel_pytree` order, and back."""

import collections
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base.typing import Array, Position
from ewsg_jax.posterior.posterior import Posterior


class Layout(NamedTuple):
    """How a position is a vector of d numbers in `ravel_pytree` order; hashable.

    Attributes:
        structure: the structure of the pytree.
        shapes: the shapes of its leaves.
        dtypes: the dtypes of its leaves.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]

    @classmethod
    def of(cls, position: Position) -> "Layout":
        """Return the layout of a position."""
        leaves, structure = jax.tree.flatten(position)
        return cls(structure, tuple(x.shape for x in leaves), tuple(x.dtype for x in leaves))

    @property
    def size(self) -> int:
        """The number of coordinates d."""
        return sum(map(math.prod, self.shapes))

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each coordinate, its place in the pytree: `w[2]`, or `position[2]` of a
        position that is one array.
        """
        leaves = names_of_leaves(self.tree(np.zeros(self.size)), "position")
        return tuple(
            name
            for leaf, shape in zip(leaves, self.shapes, strict=True)
            for name in coordinate_names(leaf, shape)
        )

    def mapped(self, function: Callable[[Position], Position], values: Array) -> Array:
        """Return the values, as vectors, of a function of positions at vectors (count, d)."""
        return jax.vmap(lambda flat: ravel_pytree(function(self.tree(flat)))[0])(values)

    def tree(self, flat: Any, dtype: Any = None) -> Position:
        """Return the position of a vector, of one dtype or its own; axes before d stay."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        ends = np.cumsum(sizes)
        leaves = [
            flat[..., end - size : end].reshape((*flat.shape[:-1], *shape)).astype(dtype or of_leaf)
            for end, size, shape, of_leaf in zip(ends, sizes, self.shapes, self.dtypes, strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)

    def rounded(self, flat: np.ndarray) -> np.ndarray:
        """Return the vector nearest to this one that the position's dtypes hold."""
        with np.errstate(over="ignore"):
            return vector(self.tree(flat))


def names_of_leaves(tree: Any, single: str) -> list[str]:
    """Return a name for each leaf, its path in the pytree: `layer.w`; `single` if it is all of it.

    Names that two leaves would have, or a leaf and a number of another one (`w[0]`), are written as
    Python writes the path: `['layer.w']` and `['layer']['w']`.
    """
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    keystr = jax.tree_util.keystr
    names = [keystr(path, simple=True, separator=".") or single for path in paths]
    count = collections.Counter(names)
    return [
        keystr(path) if count[name] > 1 or name.rpartition("[")[0] in count else name
        for path, name in zip(paths, names, strict=True)
    ]


def coordinate_names(leaf: str, shape: tuple[int, ...]) -> list[str]:
    """Return a name for each number of a leaf: `w[0,2]`, or the leaf's own name for a scalar."""
    places = itertools.product(*map(range, shape))
    return [f"{leaf}[{','.join(map(str, place))}]" if shape else leaf for place in places]


def vector(tree: Position) -> np.ndarray:
    """Return the numbers of a pytree in `ravel_pytree` order, float64, on the host."""
    return np.concatenate([np.asarray(x).astype(np.float64).ravel() for x in jax.tree.leaves(tree)])


def log_prior(posterior: Posterior, layout: Layout, flat: Array) -> Array:
    """Return the log prior of a position that is given by its numbers, an array."""
    return jnp.asarray(posterior.log_prior(layout.tree(flat)), flat.dtype)
