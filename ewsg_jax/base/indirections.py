"""What a function reads by way of something else: a reference, a thread's value, a module that it
imports while it runs, the environment.
"""

import dis
import importlib.util
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

BY_STRING = {"getattr", "globals", "vars", "__dict__", "environ", "getenv"} | {
    "import_module",
    "__import__",
    "modules",
}
"""Names by which code reads a global, an attribute, a module or a variable that a string names."""
REFERENCES: dict[type, Callable[[Any], Any]] = {
    Context: lambda value: list(value.values()),
    ContextVar: lambda value: value.get(None),
    weakref.ref: lambda value: value(),
    weakref.WeakMethod: lambda value: value(),
    weakref.ProxyType: lambda value: getattr(value, "__dict__", None),
    weakref.CallableProxyType: lambda value: getattr(value, "__dict__", None),
    weakref.WeakValueDictionary: dict,
    weakref.WeakKeyDictionary: dict,
}
"""Types whose objects stand for another one, and what that is now, in this thread."""


Import = tuple[int, str]
"""The name of a module in an import statement, and how many packages up it begins."""


def stands_for(value: Any, attributes: frozenset[str], of_process: bool) -> tuple[Any, ...] | None:
    """Return what a value stands for now, in this thread; None if it is no such value.

    Args:
        value: any value.
        attributes: names that the code uses which reads it, strings that may name something
            included.
        of_process: whether all of the environment counts, and not only variables that are named.
    """
    kind = type(value)
    if kind in REFERENCES:
        return (REFERENCES[kind](value),)
    if issubclass(kind, threading.local):
        own_class = () if kind is threading.local else (kind,)
        return (*own_class, dict(value.__dict__))
    if kind.__module__ == "multiprocessing.sharedctypes":
        return (getattr(value, "_obj", None),)
    is_read = value is os and not attributes.isdisjoint(("environ", "getenv"))
    if is_read or value is os.environ or value is os.getenv:
        return (dict(os.environ) if of_process else _environment(attributes),)
    return None


def imports_in(code: types.CodeType) -> list[Import]:
    """Return the modules that code imports, and those that its strings name if it reads some so."""
    instructions = list(dis.get_instructions(code))
    # Before the name stand the level and what is taken from the module.
    return [
        (instructions[place - 2].argval or 0, instruction.argval)
        for place, instruction in enumerate(instructions)
        if instruction.opname == "IMPORT_NAME"
    ]


def modules_of(level: int, name: str, package: object) -> list[types.ModuleType]:
    """Return the modules on the way to one that is imported, as far as they have been imported."""
    try:
        full = importlib.util.resolve_name("." * level + name, str(package)) if level else name
    except ImportError:
        return []
    parts = full.split(".")
    modules = [sys.modules.get(".".join(parts[: k + 1])) for k in range(len(parts))]
    return [module for module in modules if isinstance(module, types.ModuleType)]


def _environment(names: frozenset[str]) -> dict[str, str]:
    """Return the variables of the environment that are among these names."""
    return {name: os.environ[name] for name in sorted(names & os.environ.keys())}
