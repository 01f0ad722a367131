"""What every part of a kernel is: a frozen dataclass that is a pytree of arrays, a value.

Numbers are leaves, so one compiled program serves all of them; what shapes the program is static.
Parts are equal by value, printed as the call that makes them, and can be stacked, stored and
pickled like any other pytree.
"""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax
import numpy as np
from jax.core import Tracer
from jax.tree_util import GetAttrKey

from ewsg_jax.base import checks
from ewsg_jax.base.needs import Need

C = TypeVar("C", bound=type)
Function = TypeVar("Function")


def static(**options: Any) -> Any:
    """Declare a field of a module that shapes the program: hashable, compared by value.

    Args:
        options: as for `dataclasses.field`, such as `default`.

    Example:
        >>> from typing import Any
        >>> import jax, ewsg_jax as ewsg
        >>> @ewsg.module
        ... class Power:
        ...     scale: Any
        ...     exponent: int = ewsg.static(default=2)
        >>> jax.tree.leaves(Power(scale=0.5))
        [0.5]
    """
    return dataclasses.field(metadata={"static": True}, **options)


@dataclass_transform(
    frozen_default=True,
    eq_default=False,
    kw_only_default=True,
    field_specifiers=(static, dataclasses.field),
)
def module(cls: C) -> C:
    """Make a class a frozen dataclass, keyword only, whose fields are leaves unless `static`.

    For parts of a kernel of your own: a class that is derived from one of the library's base
    classes.

    Raises:
        TypeError: it is not a class.

    Example:
        >>> from typing import Any
        >>> import jax, ewsg_jax as ewsg
        >>> @ewsg.module
        ... class Line:
        ...     slope: Any
        ...     intercept: Any
        >>> jax.tree.map(lambda number: 2 * number, Line(slope=1.0, intercept=3.0)).intercept
        6.0
    """
    if not isinstance(cls, type):
        raise TypeError(f"module must decorate a class; got {checks.describe(cls)}")
    if vars(cls).get("__init__") is _undecorated:
        del cls.__init__
    decorated = dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)(cls)
    fields = dataclasses.fields(decorated)
    leaves = [field.name for field in fields if not field.metadata.get("static")]
    statics = [field.name for field in fields if field.metadata.get("static")]

    def flatten(part: object) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(part, name) for name in leaves), tuple(
            getattr(part, name) for name in statics
        )

    def flatten_with_keys(part: object) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        children, shape = flatten(part)
        return [
            (GetAttrKey(name), child) for name, child in zip(leaves, children, strict=True)
        ], shape

    def unflatten(shape: tuple[Any, ...], children: Iterable[Any]) -> Any:
        part = object.__new__(decorated)
        vars(part).update(zip(leaves, children, strict=True))
        vars(part).update(zip(statics, shape, strict=True))
        return part

    # Not `register_dataclass`: structures of its classes are equal where their fields are, whatever
    # their classes (jax 0.10 and 0.12), and a program of one part might be taken for another's.
    jax.tree_util.register_pytree_with_keys(decorated, flatten_with_keys, unflatten, flatten)
    return decorated


def is_own(cls: type) -> bool:
    """Return whether a class is not one of the library's."""
    return not cls.__module__.startswith("ewsg_jax.")


def _undecorated(self: object, *arguments: object, **named: object) -> None:
    """Raise that a class was not decorated with `module`: its `__init__` until it is."""
    name = type(self).__name__
    raise TypeError(f"{name} must be decorated: write @ewsg_jax.module above class {name}")


class Part:
    """Equality, hash and string of a module: by its values."""

    needs: ClassVar[frozenset[Need]] = frozenset()
    """What it needs of the data, apart from the needs of the parts that it is made of."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A user's class makes nothing until `module` gives it an `__init__`: without fields, JAX
        # would take a part for one leaf. This `__init__` replaces the one that all objects have,
        # which a type checker takes for a mistake.
        if is_own(cls) and "__init__" not in vars(cls):
            cls.__init__ = _undecorated  # type: ignore[method-assign]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        (mine, structure) = jax.tree.flatten(self)
        (others, other_structure) = jax.tree.flatten(other)
        return structure == other_structure and all(map(is_same, mine, others))

    def __hash__(self) -> int:
        return hash((type(self), jax.tree.structure(self)))

    def __repr__(self) -> str:
        return written(made_by(self), arguments(self))


def made_by(part: Part) -> str:
    """Return the name of what makes a part: its `made_by`, or its class in small letters."""
    return (
        getattr(part, "made_by", None)
        or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(part).__name__).lower()
    )


def arguments(part: Part) -> dict[str, Any]:
    """Return the arguments of the call that makes a part, without defaults of static ones."""
    shown = {}
    # A part is a dataclass by the decorator of its class, which a type checker does not see here.
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        may_be_left_out = value is None or field.metadata.get("static")
        if field.repr and not (may_be_left_out and value == field.default):
            shown[field.name] = value
    return shown


def written(name: str, arguments: dict[str, Any]) -> str:
    """Return a call as it is written."""
    return f"{name}({', '.join(f'{key}={text(value)}' for key, value in arguments.items())})"


def number(value: object) -> Any:
    """Return a Python or NumPy number as a float: equal ones share a program. Else itself."""
    return float(value) if isinstance(value, int | float | np.generic | np.ndarray) else value


@dataclasses.dataclass(frozen=True, eq=False)
class _ByIdentity:
    """A function that has no hash, such as a module that holds arrays: known by its identity."""

    function: Any

    def __call__(self, *arguments: object) -> Any:
        return self.function(*arguments)


def hashable(function: Function) -> Function:
    """Return a user's function as what may stand in a static field."""
    try:
        hash(function)
    except TypeError:
        # It is called as the function is, but not of its type.
        return _ByIdentity(function)  # type: ignore[return-value]
    return function


def text(value: Any) -> str:
    """Return a value as written in a call: functions by name, arrays by dtype and shape."""
    if isinstance(value, _ByIdentity):
        return text(value.function)
    if isinstance(value, Tracer):
        return f"<traced {value.aval.str_short()}>"
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return str(np.asarray(value)) if value.ndim == 0 else f"<{value.dtype}{list(value.shape)}>"
    arrays, kind = _arrays_in(value), type(value)
    # Such as the parameters of a network.
    # Up to eight arrays are written one by one.
    if arrays and (arrays > 8 or kind not in (dict, list, tuple)):
        return f"<{kind.__name__} of {arrays} arrays>"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {text(item)}' for key, item in value.items())}}}"
    if arrays and kind in (list, tuple):
        left, right = "[]" if kind is list else "()"
        comma = "," if right == ")" and len(value) == 1 else ""
        return f"{left}{', '.join(map(text, value))}{comma}{right}"
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    return " ".join(repr(value).split())


def _arrays_in(value: object) -> int:
    """Return how many arrays a pytree holds; 0 for a single leaf or a part, which prints itself."""
    if isinstance(value, Part):
        return 0
    leaves = jax.tree.leaves(value)
    return (
        0
        if len(leaves) == 1 and leaves[0] is value
        else sum(hasattr(leaf, "dtype") for leaf in leaves)
    )


def is_same(mine: object, other: object) -> bool:
    """Return whether two leaves are equal: of one dtype and value, and known."""
    if mine is other:
        return True
    if isinstance(mine, Tracer) or isinstance(other, Tracer):
        return False
    # As texts, for NumPy holds that its dtype of 64 bits equals None.
    dtypes = {str(getattr(value, "dtype", None)) for value in (mine, other)}
    return len(dtypes) == 1 and bool(np.array_equal(np.asarray(mine), np.asarray(other)))
