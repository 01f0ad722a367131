"""Programs of what functions read at the time of a call, not when they were traced first.

JAX keeps a compiled program by the identity of the functions that it was traced from. A public
function that compiles opens `as_of_now(…)` with the functions that it was given. If one of them, or
one that they call, reads another value than at first (`reading`), that becomes a part of the key by
which JAX finds its programs: a changed value leads to another program, and one that changes back to
the first. What tracing itself changes, such as a counter, is no change.

Limits:

- Inside a user's own `jit` no change is seen: there JAX keeps the whole program.
- What a digest does not see (`function_digests`), such as a file, is seen by a second look: from
  time to time a call traces the model again, and another program is another version.
- Each public call reads all functions that it was given (`benchmarks/cost/freshness.py` times it).
"""

import contextlib
import functools
import inspect
import itertools
import threading
import time
import types
import weakref
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, TypeVar

import jax
from jax.core import Tracer

from ewsg_jax.base import function_digests
from ewsg_jax.base.function_digests import Read, Reader

F = TypeVar("F", bound=Callable[..., Any])
_CHANGED = jax.make_user_context(default_value=None)
"""Which functions read what they did not read at first: a part of the key of every program of JAX.

Inside a call it is a set, empty if no function does: no program is shared with the user's own calls
outside.
"""


Versions = dict[bytes, bytes | None]
"""What one function has read at different times: by digest, which version such values are, None the
first one.
"""
_VERSIONS: dict[Hashable, tuple[list[weakref.ref[Any]], Versions]] = {}
_LOOKS: dict[Hashable, dict[Any, "_Look"]] = {}
"""Second looks, by the key of one of their functions."""
_HERE = threading.local()


LOOK_SHARE = 0.01
"""What a second look may take of the time to the next one, if it saw nothing new. By hand."""


class _Look:
    """A second look at a model: whether it is still the program that was traced first.

    Attributes:
        version: what stands for another program than the first one; None for the first.
    """

    def __init__(
        self, model: Any, trace: Callable[[Any], bytes], forget: Callable[[Any], object]
    ) -> None:
        self._model = weakref.ref(model, forget)
        self._trace, self._first, self.version, self._due = trace, None, None, 0.0
        # What was traced with 64 bits is another program without them.
        self._has_x64 = bool(jax.config.read("jax_enable_x64"))
        self.look()

    def look(self) -> None:
        """Trace the model, if it is time for that."""
        model, began = self._model(), time.perf_counter()
        if model is None or began < self._due:
            return
        with contextlib.suppress(Exception):  # the call itself says what is wrong
            with jax.enable_x64(self._has_x64):
                program = self._trace(model)
            is_new = program != (self.version or self._first)
            self._first = self._first or program
            self.version = None if program == self._first else program
            # What was just compiled took long enough for a look at the next call.
            if is_new:
                return
        ended = time.perf_counter()
        self._due = ended + (ended - began) / LOOK_SHARE


def look_again(model: Any, shapes: Hashable, trace: Callable[[Any], bytes]) -> None:
    """Have later calls look, from time to time, whether a model is still the same program.

    Args:
        model: what holds functions; it is forgotten with the model.
        shapes: those of the arguments of its functions.
        trace: returns what stands for the model's program, and does not hold the model.
    """
    keys = [_key_of(function) for function in functions_in(model)]
    if not keys or not all(key in _VERSIONS for key in keys):
        return
    # Models may share a function: they are found by one, and known by all of theirs.
    looks = _LOOKS.setdefault(keys[-1], {})
    name = frozenset(keys), getattr(_HERE, "seen", frozenset()), shapes
    if name not in looks:
        looks[name] = _Look(model, trace, lambda _: looks.pop(name, None))


def _looked_at(entered: Collection[Hashable], seen: Hashable) -> dict[Hashable, bytes | None]:
    """Return versions of models that have changed in a way which no digest shows."""
    looks = [
        ((keys, shapes), look)
        for key in entered
        for (keys, then, shapes), look in list(_LOOKS.get(key, {}).items())
        if then == seen and keys <= set(entered)
    ]
    for _, look in looks:
        look.look()
    return {name: look.version for name, look in looks if look.version is not None}


def now() -> Hashable:
    """Return what stands for the values that functions read now, for caches in Python."""
    return _CHANGED.value


def once_more() -> contextlib.AbstractContextManager[Any]:
    """Trace again what JAX remembers, in a `with` block: as a program of its own."""
    return _CHANGED(("once more", now()))


@contextlib.contextmanager
def as_of_now(*holders: object) -> Iterator[None]:
    """Compile what functions read now, in a `with` block.

    It is given functions, and kernels, posteriors and others that hold some; None and arrays are
    passed over.
    """
    # Once, before anything is traced: finding them walks through all that was given.
    functions = list(functions_in(holders))
    outer: dict[Hashable, bytes | None] = getattr(_HERE, "versions", {})
    entered: dict[Hashable, tuple[Versions, bytes | None]] = {}
    # A call inside another one has its values.
    reads, _HERE.is_traced = _read(functions)
    for key, read in reads.items():
        if key not in outer:
            versions = _versions_of(key, read)
            entered[key] = versions, versions.setdefault(read.digest, read.digest)
    _HERE.versions = outer | {key: version for key, (_, version) in entered.items()}
    # The first values seen are version None, so that a function that never changes has no key.
    changed = frozenset(item for item in _HERE.versions.items() if item[1] is not None)
    before, _HERE.seen = getattr(_HERE, "seen", frozenset()), changed
    try:
        with _CHANGED(changed):
            unseen = _looked_at(entered, changed)
        _HERE.versions |= unseen
        with _CHANGED(changed | frozenset(unseen.items())):
            yield
    finally:
        _HERE.versions, _HERE.seen = outer, before
        # Tracing may have changed them.
        for key, read in _read(functions)[0].items():
            if key in entered:
                versions, version = entered[key]
                versions.setdefault(read.digest, version)


def _read(functions: list[Any]) -> tuple[dict[Hashable, Read], bool]:
    """Return what functions, and all that they call, read now, and whether some of it is traced."""
    reader = Reader()
    outermost = [reader.read(function) for function in functions]
    reads = {_key_of(read.value): read for read in [*reader.functions.values(), *outermost]}
    return reads, reader.is_traced


def holds_traced() -> bool:
    """Return whether functions of the innermost `as_of_now` hold a number that is traced, or was:
    they were made under `jit`, `vmap` or `grad`.
    """
    return getattr(_HERE, "is_traced", False)


def reads_now(*names: str) -> Callable[[F], F]:
    """Make a public function compile what functions in these arguments read when it is called."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def called(*arguments: object, **named: object) -> Any:
            try:
                by_name = signature.bind(*arguments, **named).arguments
            except TypeError:
                by_name = {}  # the call itself says what is wrong
            with as_of_now(*(by_name.get(name) for name in names)):
                return function(*arguments, **named)

        return called  # type: ignore[return-value]  # it takes what the function takes

    return decorate


def functions_in(value: object, seen: set[int] | None = None) -> Iterator[Any]:
    """Yield the functions, and objects that act as some, that a value holds, each once."""
    seen = set() if seen is None else seen
    if isinstance(value, Tracer):
        # For `holds_traced`: a built-in model has its numbers in it.
        yield value
        return
    if value is None or isinstance(
        value, (*function_digests.IMMUTABLE, *function_digests.ARRAYS, jax.ShapeDtypeStruct)
    ):
        return
    if id(value) in seen:  # what leads back to itself ends here
        return
    seen.add(id(value))
    kind, inside = type(value), ()
    if isinstance(value, function_digests.FUNCTIONS):
        yield value
    elif isinstance(value, list | tuple | set | frozenset | dict):
        inside = value.values() if isinstance(value, dict) else value
    elif any(function_digests.package_of(base) == "ewsg_jax" for base in kind.__mro__):
        # A part of a kernel, or what holds some: its numbers are arguments of programs, its class
        # is none.
        if function_digests.is_of_user(kind):
            yield kind
        inside = [
            item for name, item in list(getattr(value, "__dict__", {}).items()) if name[0] != "_"
        ]
    elif callable(value) or function_digests.is_of_user(kind):
        yield value
    # Of a long container the first items are searched.
    for item in itertools.islice(inside, 4096):
        yield from functions_in(item, seen)


def _key_of(function: object) -> Hashable:
    """Return how a program knows a function: equal for methods of one object, else itself."""
    if isinstance(function, types.MethodType):
        return id(function.__self__), id(function.__func__)
    return id(function)


def _versions_of(key: Hashable, read: Read) -> Versions:
    if key in _VERSIONS:
        return _VERSIONS[key][1]
    function = read.value
    is_method = isinstance(function, types.MethodType)
    # Another object may equal this one, and find its programs: then every value is a version of its
    # own.
    equals_others = not is_method and type(function).__eq__ is not object.__eq__ and read.can_change
    things = (function.__self__, function.__func__) if is_method else (function,)
    try:
        # An identity may be given to another object once one of these is gone: it is forgotten just
        # then.
        held = [weakref.ref(thing, lambda _: _VERSIONS.pop(key, None)) for thing in things]
    except TypeError:  # it cannot be referred to weakly
        return {}
    versions: Versions = {} if equals_others else {read.digest: None}
    _VERSIONS[key] = held, versions
    return versions
