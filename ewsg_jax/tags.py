"""The tags under which classes stand in saved files: they stay when a class is moved or called otherwise."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from ewsg_jax import _check

Class = TypeVar("Class", bound=type)

_CLASSES: dict[str, type] = {}
_TAGS: dict[type, str] = {}


def saved_as(tag: str) -> Callable[[Class], Class]:
    """Let a class stand in the files of `samples.save`, such as the state of a dynamics of yours.

    The file names the class by its tag: the class may then be moved and called otherwise, while the tag stays. What
    reads the file needs a class of that tag with the same fields, so its module must have been imported.

    Args:
        tag: a name that no other class has, such as `"my_package.state"`; tags without a dot are the library's own.

    Returns:
        A decorator of a named tuple or a dataclass (above `@dataclass`), which it returns as it is.

    Raises:
        TypeError, ValueError: the tag is not a string or is taken, or the class is neither of the two.

    Example:
        >>> from typing import NamedTuple
        >>> import jax
        >>> from ewsg_jax.sampling import saved_as
        >>> @saved_as("my_package.spinning_state")
        ... class SpinningState(NamedTuple):
        ...     position: jax.Array
        ...     step: jax.Array
        ...     spin: jax.Array
    """
    if not isinstance(tag, str):
        raise TypeError(f"tag must be a text that no other class has; got {_check.describe(tag)}")

    def decorate(kind: Class) -> Class:
        if not _has_fields(kind):
            raise TypeError(f"saved_as must decorate a named tuple or a dataclass; got {_check.describe(kind)}")
        taken = _CLASSES.get(tag, kind)
        # A class that is made anew, as by a cell of a notebook that is run again, takes the place of the old one.
        if (taken.__module__, taken.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(f"tag must be one that no other class has; got {tag!r}, the tag of {taken!r}")
        _CLASSES[tag] = kind
        _TAGS[kind] = tag
        return kind

    return decorate


def tag_of(value: Any) -> str | None:
    """Return the tag of a value's class, None where it has none."""
    return _TAGS.get(type(value))


def class_of(tag: str) -> type | None:
    """Return the class of a tag, None where it is unknown."""
    return _CLASSES.get(tag)


def fields(value: Any) -> dict[str, Any]:
    """Return the fields of a named tuple or a dataclass by name."""
    names = value._fields if hasattr(value, "_fields") else [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names}


def _has_fields(kind: Any) -> bool:
    return isinstance(kind, type) and (hasattr(kind, "_fields") or dataclasses.is_dataclass(kind))
