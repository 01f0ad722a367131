"""Draws as one array (chain, draw, coordinate), and names of their coordinates."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ewsg_jax.base import checks, optional
from ewsg_jax.base.typing import PyTree
from ewsg_jax.vectors.layout import coordinate_names, names_of_leaves

Names = Sequence[str] | None


def named(tree: PyTree, single: str) -> dict[str, np.ndarray]:
    """Return leaves by their places in a pytree; a single array by the name `single`."""
    return dict(zip(names_of_leaves(tree, single), jax.tree.leaves(tree), strict=True))


def in_arviz(
    draws: dict[str, np.ndarray],
    coordinates: dict[str, Any],
    groups: dict[str, dict[str, np.ndarray]] | None = None,
    **options: Any,
) -> Any:
    """Return draws as ArviZ takes them, with more coordinates and groups (chain, draw, …).

    Names have a dot for each slash, which separates groups there.

    Raises:
        ImportError: ArviZ is not installed.
        ValueError: two names differ by slashes and dots alone.
    """
    plain = {name.replace("/", "."): leaf for name, leaf in draws.items()}
    if len(plain) < len(draws):
        raise ValueError(
            "names of draws must differ by more than slashes and dots, for to_arviz() writes a dot "
            f"for each slash; got {', '.join(map(repr, draws))}: rename arrays of the position"
        )
    if taken := {"posterior", "data"} & set(options):
        raise TypeError(
            f"to_arviz of a stack takes no {' and no '.join(sorted(taken))}: likelihoods are those "
            "of one run, runs[i].to_arviz(posterior=…, data=…)"
        )
    if dims := options.get("dims"):
        options["dims"] = {name.replace("/", "."): axes for name, axes in dims.items()}
    arviz = optional.module("arviz", "to_arviz")
    # Whose from_dict differs between 0.x and 1.x.
    if int(arviz.__version__.split(".")[0]) >= 1:
        converted = arviz.from_dict({"posterior": plain} | (groups or {}), **options)
    else:
        converted = arviz.from_dict(posterior=plain, **(groups or {}), **options)
    converted["posterior"].coords.update(coordinates)
    return converted


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
