"""A position as a vector of d numbers, in `ravel_pytree` order, and back."""

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
        structure: of the tree.
        shapes: of its leaves.
        dtypes: of its leaves.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]

    @classmethod
    def of(cls, position: Position) -> "Layout":
        """Return that of a position."""
        leaves, structure = jax.tree.flatten(position)
        return cls(structure, tuple(x.shape for x in leaves), tuple(x.dtype for x in leaves))

    def mapped(self, function: Callable[[Position], Position], values: Array) -> Array:
        """Return a function of positions of each row of numbers, shape (rows, d)."""
        return jax.vmap(lambda flat: ravel_pytree(function(self.tree(flat)))[0])(values)

    def tree(self, flat: Any, dtype: Any = None) -> Position:
        """Return the position of a vector, of one dtype or its own; axes before d stay."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        ends = np.cumsum(sizes)
        leaves = [
            flat[..., end - size : end].reshape((*flat.shape[:-1], *shape)).astype(dtype or own)
            for end, size, shape, own in zip(ends, sizes, self.shapes, self.dtypes, strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)

    def rounded(self, flat: np.ndarray) -> np.ndarray:
        """Return the vector nearest to this one that the position's dtypes hold."""
        with np.errstate(over="ignore"):
            return vector(self.tree(flat))


def vector(tree: Position) -> np.ndarray:
    """Return the numbers of a tree in `ravel_pytree` order, float64, on the host."""
    return np.concatenate([np.asarray(x).astype(np.float64).ravel() for x in jax.tree.leaves(tree)])


def log_prior(posterior: Posterior, layout: Layout, flat: Array) -> Array:
    """Return the log prior of a position that is given by its numbers, an array."""
    return jnp.asarray(posterior.log_prior(layout.tree(flat)), flat.dtype)
