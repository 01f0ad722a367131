"""Which arrays have been looked at already: remembered by their identity, and forgotten with them.

A look at the values of all data takes a pass over them, and people call with the same arrays again and again.
"""

import weakref
from collections.abc import Callable, Hashable

import jax
from jax.core import Tracer

from ewsg_jax._types import PyTree

_SEEN: dict[Hashable, list[weakref.ref[jax.Array]]] = {}


def once(question: Hashable, look: Callable[[], None], tree: PyTree) -> None:
    """Call `look()`, which raises what is wrong with a tree, unless it has raised nothing for these arrays before.

    Arrays of NumPy are looked at each time: what they hold may have changed.

    Args:
        question: what is asked, so that other questions about the same arrays are asked too.
        look: asks it.
        tree: whose arrays are looked at.
    """
    leaves = jax.tree.leaves(tree)
    if not all(isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) for leaf in leaves):
        look()
        return
    asked = question, tuple(map(id, leaves))
    if asked not in _SEEN:
        look()
        # An identity may be given to another array once one of these is gone: it is forgotten just then.
        _SEEN[asked] = [weakref.ref(leaf, lambda _: _SEEN.pop(asked, None)) for leaf in leaves]
