"""One bijector for each part of a position."""

import functools
import operator
from collections.abc import Iterable
from typing import Any

import jax

from ewsg_jax.base import checks
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Position, PyTree
from ewsg_jax.bijectors._protocol import Bijector, is_transform, transform


@module
class Tree(Bijector):
    """The bijector of `tree`."""

    bijectors: PyTree

    def forward(self, position: Position, /) -> Position:
        return self._unflatten(
            part.forward(x) for part, x in zip(self._parts(), self._split(position), strict=True)
        )

    def inverse(self, position: Position, /) -> Position:
        backward = [
            checks.function(f"bijectors{place}.inverse", getattr(part, "inverse", None), "(θ) -> u")
            for place, part in _places(self.bijectors)
        ]
        return self._unflatten(
            function(x) for function, x in zip(backward, self._split(position), strict=True)
        )

    def log_det(self, position: Position, /) -> Array:
        dets = [
            part.log_det(x) for part, x in zip(self._parts(), self._split(position), strict=True)
        ]
        return functools.reduce(operator.add, dets)

    def _parts(self) -> list[Any]:
        return jax.tree.leaves(self.bijectors, is_leaf=is_transform)

    def _structure(self) -> Any:
        return jax.tree.structure(self.bijectors, is_leaf=is_transform)

    def _split(self, position: Position) -> list[PyTree]:
        structure = self._structure()
        try:
            return structure.flatten_up_to(position)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"position must have the structure of the bijectors, {structure}; {error}"
            ) from error

    def _unflatten(self, parts: Iterable[PyTree]) -> Position:
        return jax.tree.unflatten(self._structure(), parts)


def tree(bijectors: PyTree) -> Bijector:
    """Return the map that applies one bijector to each part of a position.

    Args:
        bijectors: a pytree like the position (dictionaries, lists, tuples, NamedTuples, …), with a
            bijector in place of each leaf or of a whole subtree. Any object with `forward` and
            `log_det` serves; `inverse` needs an `inverse` of each.

    Raises:
        TypeError: a leaf is not a bijector, or, from `inverse`, has no inverse.
        ValueError: when used, that the position has another structure.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> both = ewsg.bijectors.tree(
        ...     {"mean": ewsg.bijectors.identity(), "scale": ewsg.bijectors.positive()}
        ... )
        >>> u = both.inverse({"mean": jnp.array([3.0]), "scale": jnp.array(1.0)})
        >>> both.forward(u)
        {'mean': Array([3.], dtype=float32), 'scale': Array(1., dtype=float32)}
    """
    places = _places(bijectors)
    if not places:
        raise TypeError(
            f"bijectors must be a pytree with bijectors as leaves; got {checks.describe(bijectors)}"
        )
    for place, part in places:
        transform(f"bijectors{place}", part)
    return Tree(bijectors=bijectors)


def _places(bijectors: PyTree) -> list[tuple[str, Any]]:
    """Return the bijectors with their paths in the pytree."""
    leaves = jax.tree_util.tree_leaves_with_path(bijectors, is_leaf=is_transform)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]
