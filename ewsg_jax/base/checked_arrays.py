"""Which arrays have been checked already: remembered by their identity, and forgotten with them.

A check of the values of all data takes a pass over them, and people call with the same arrays again
and again.

Limits:

- Arrays of NumPy are checked each time, because their values may change.
- Answers are kept in this process only, until one of their arrays is deleted.
- An answer counts for what functions read when it was given (`freshness.now`).
"""

import atexit
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import jax
from jax.core import Tracer

from ewsg_jax.base import freshness
from ewsg_jax.base.typing import PyTree

Value = TypeVar("Value")

_SEEN: dict[Hashable, tuple[Any, list[weakref.ref[Any]]]] = {}
# Before Python takes modules apart at its end: forgetting an array needs some of them.
atexit.register(_SEEN.clear)


def remembered(
    question: Hashable, look: Callable[[], Value], tree: PyTree, asker: object = None
) -> Value:
    """Return the answer of `look()` for a pytree's arrays: the remembered one, or a new one.

    Arrays of NumPy are checked each time, because their values may have changed. What `look` raises
    is not remembered.

    Args:
        question: keeps different answers about the same arrays apart.
        look: checks the arrays.
        tree: the pytree.
        asker: an object by whose identity answers are kept apart too.
    """
    leaves = jax.tree.leaves(tree)
    if not all(isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) for leaf in leaves):
        return look()
    things = leaves if asker is None else [*leaves, asker]
    asked = question, freshness.now(), tuple(map(id, things))
    if asked not in _SEEN:
        answer = look()
        # An identity may be given to another object once one of these is gone: it is forgotten just
        # then.
        _SEEN[asked] = (
            answer,
            [weakref.ref(thing, lambda _: _SEEN.pop(asked, None)) for thing in things],
        )
    return _SEEN[asked][0]


def shapes(program: Any, kernel: object, data: PyTree, *arguments: Any) -> Any:
    """Return what a jitted `program(kernel, data, *arguments)` returns, in shapes: traced once for
    these very two, and arguments of these shapes and values.
    """
    question = program, signature(arguments)
    return remembered(question, lambda: program.eval_shape(kernel, data, *arguments), data, kernel)


def signature(arguments: PyTree) -> Hashable:
    """Return what a program is compiled for: structure, shapes, dtypes, and values of leaves that
    are not arrays.
    """
    leaves, structure = jax.tree.flatten(arguments)
    shapes = tuple(
        jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, jax.Array) else x for x in leaves
    )
    return structure, shapes, bool(jax.config.read("jax_enable_x64"))
