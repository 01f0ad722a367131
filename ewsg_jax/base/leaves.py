"""Leaves of a pytree by name, and filters that choose some of them."""

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ewsg_jax.base import checks, limits
from ewsg_jax.base.typing import PyTree

Filter = str | Sequence[str] | Callable[[str, Any], bool]
"""Leaves by name, pattern or subtree, or by a function (name, leaf) -> bool."""
TAKES_FILTER = "a name or a pattern of leaves, a list of these, or a function (name, leaf) -> bool"


def named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    """Return the leaves of a pytree with their names, the keys to each joined by "/"."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), x) for path, x in leaves]


def shown(names: Sequence[str]) -> str:
    """Return names for a message, not more than a few lines of them."""
    more = f", … ({len(names)} in all)" if len(names) > limits.LINES_SHOWN else ""
    return ", ".join(map(repr, names[: limits.LINES_SHOWN])) + more


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern means a leaf: its name, a subtree that it is in, or either with `*`
    and `?`. A dot separates keys as "/" does, and Flax's "params" may be left out.
    """
    pattern, name = (text.replace(".", "/").strip("/") for text in (pattern, name))
    return any(
        fnmatch.fnmatchcase(text, pattern) or fnmatch.fnmatchcase(text, f"{pattern}/*")
        for text in (name, name.removeprefix("params/"))
    )


def chosen(
    argument: str, leaves_of: Filter | None, named: list[tuple[str, Any]], tree: str = "params"
) -> list[bool]:
    """Return which leaves a filter chooses.

    Args:
        argument: what the filter is called in a message.
        leaves_of: the filter; None chooses no leaf.
        named: the leaves by name.
        tree: what the pytree of the leaves is called in a message.

    Raises:
        TypeError, ValueError: it is no filter, or a pattern in it matches no leaf.
    """
    if leaves_of is None:
        return [False] * len(named)
    names = [name for name, _ in named]
    if callable(leaves_of):
        is_chosen = [leaves_of(name, leaf) for name, leaf in named]
        for name, value in zip(names, is_chosen, strict=True):
            if not isinstance(value, bool | np.bool_):
                raise TypeError(
                    f"{argument} must return True or False for a name and a leaf; it returned "
                    f"{checks.describe(value)} for {name!r}"
                )
        return [bool(value) for value in is_chosen]
    patterns = [leaves_of] if isinstance(leaves_of, str) else leaves_of
    if not isinstance(patterns, list | tuple) or not all(isinstance(x, str) for x in patterns):
        raise TypeError(f"{argument} must be {TAKES_FILTER}; got {checks.describe(leaves_of)}")
    for pattern in patterns:
        if not any(matches(pattern, name) for name in names):
            raise ValueError(
                f"{argument} must match leaves of {tree}, which are {shown(names)}; got "
                f"{pattern!r}, which matches none{checks.nearest(pattern, names)}"
            )
    return [any(matches(pattern, name) for pattern in patterns) for name in names]
