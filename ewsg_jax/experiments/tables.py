"""TOML tables into frozen dataclasses; what does not fit is refused by its full path."""

import dataclasses
import math
import sys
import tomllib
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from ewsg_jax import _check

T = TypeVar("T")
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}


class ConfigError(ValueError):
    """A configuration that cannot be run; the message names the key and what it takes."""


def from_toml(text: str) -> dict[str, Any]:
    """Return what TOML text says.

    Raises:
        ConfigError: the text is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError("not valid TOML: nested too deeply") from None


def build(kind: type[T], table: Any, path: str = "") -> T:
    """Build a dataclass from a table.

    Args:
        kind: a dataclass whose fields are bool, int, float, str, a choice (`Literal`), a tuple of one kind,
            another dataclass, or one of these or None.
        table: what tomllib made.
        path: where the table stands in the file, for messages.

    Raises:
        ConfigError: a key is unknown (the nearest right one is named) or missing, or a value is of the wrong kind.

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass(frozen=True)
        ... class Run:
        ...     num_chains: int
        ...     spread: float = 2.0
        >>> build(Run, {"num_chains": 4, "spread": 3}, "run")
        Run(num_chains=4, spread=3.0)
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path} must be a table of keys; got {_check.describe(table)}")
    assert dataclasses.is_dataclass(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    refuse_unknown(table, fields, path)
    hints = typing.get_type_hints(kind)
    values = {}
    for name, field in fields.items():
        where = f"{path}.{name}" if path else name
        if name in table:
            values[name] = convert(hints[name], table[name], where)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"missing key {where!r}")
    return typing.cast(T, kind(**values))


def refuse_unknown(table: Mapping[str, Any], known: typing.Iterable[str], path: str) -> None:
    """Refuse a key that is not known, and name the nearest that is."""
    known = list(known)
    for key in table:
        if key not in known:
            where = f"{path}.{key}" if path else key
            hint = _check.nearest(key, known) or f"; known are {', '.join(known)}"
            raise ConfigError(f"unknown key {where!r}{hint}")


def convert(hint: Any, value: Any, path: str) -> Any:
    """Return the value as the annotated kind."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return convert(next(a for a in arguments if a is not types.NoneType), value, path)
    if origin is Literal:
        try:
            _check.one_of(path, value, arguments)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{path} must be a list; got {_check.describe(value)}")
        return tuple(convert(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if dataclasses.is_dataclass(hint):
        return build(typing.cast(type, hint), value, path)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > sys.float_info.max:
            raise ConfigError(f"{path} must be a number; got a whole number too large for one")
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{path} must be {KINDS[hint]}; got {_check.describe(value)}")
    return value


def at_least(path: str, table: Any, **least: float) -> None:
    """Refuse a table with a number below its least."""
    for key, bound in least.items():
        if not getattr(table, key) >= bound:
            raise ConfigError(f"{path}.{key} must be at least {bound}; got {getattr(table, key)}")


def at_most(path: str, table: Any, **most: float) -> None:
    """Refuse a table with a number above its most."""
    for key, bound in most.items():
        if not getattr(table, key) <= bound:
            raise ConfigError(f"{path}.{key} must be at most {bound}; got {getattr(table, key)}")


def finite(path: str, table: Any, *keys: str) -> None:
    """Refuse a table with a number that is infinite or NaN."""
    for key in keys:
        if not math.isfinite(getattr(table, key)):
            raise ConfigError(f"{path}.{key} must be a finite number; got {getattr(table, key)}")


def above_zero(path: str, value: float) -> None:
    """Refuse a number that is not positive."""
    if not value > 0:
        raise ConfigError(f"{path} must be above 0; got {value}")
