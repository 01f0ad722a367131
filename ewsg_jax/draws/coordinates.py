"""Draws as one array (chain, draw, coordinate), and names of their coordinates."""

import math
from collections.abc import Sequence

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.typing import PyTree
from ewsg_jax.vectors.layout import coordinate_names, name_of_leaf

Names = Sequence[str] | None


def named(tree: PyTree, single: str) -> dict[str, np.ndarray]:
    """Return leaves by their places in a pytree; a single array by the name `single`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {name_of_leaf(path, single): x for path, x in leaves}


def flattened(
    leaves: dict[str, np.ndarray], names: Names = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return named arrays (chain, draw, …) as one, and names of its coordinates, the last axis.

    Raises:
        ValueError: there is another number of names than of coordinates.
    """
    parts, coordinates = [], []
    for leaf_name, leaf in leaves.items():
        shape = leaf.shape[2:]
        parts.append(np.asarray(leaf, np.float64).reshape(*leaf.shape[:2], math.prod(shape)))
        coordinates += coordinate_names(leaf_name, shape)
    return np.concatenate(parts, axis=2), chosen_names(names, coordinates)


def chosen_names(names: Names, coordinates: Sequence[str]) -> tuple[str, ...]:
    """Return the names that were given, or else those of the coordinates.

    Raises:
        TypeError, ValueError: they are no strings, or not one for each coordinate.
    """
    if names is None:
        return tuple(coordinates)
    checks.texts("names", names)
    if len(names) != len(coordinates):
        raise ValueError(
            f"names must be {len(coordinates)}, one for each coordinate; got {len(names)}"
        )
    return tuple(names)


def with_digits(value: float | np.ndarray, sd: float | np.ndarray) -> str:
    """Return a number in four digits, or enough to see a tenth of its standard deviation."""
    with np.errstate(all="ignore"):
        wanted = np.ceil(np.log10(np.abs(np.float64(value)) / np.float64(sd))) + 2
    return f"{value:.{int(np.clip(wanted, 4, 12)) if np.isfinite(wanted) else 4}g}"
