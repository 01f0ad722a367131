"""What functions read in addition to their arguments, as digests: another value, another digest.

A compiled program keeps the values that a function read when it was traced. People change them: a
global of a notebook, an attribute of a model, a dictionary of settings, an array filled again. A
digest covers, at any depth,

    a function       its code, what the code names or imports, its closure, defaults, attributes
    a bound method   the function, and the object
    a partial        the function and the arguments
    a module         the attributes that the code names
    a class          its methods and attributes
    an object        its class and its attributes; of one without any, what pickling would keep
    a reference      what it refers to; of a ContextVar and a threading.local, the value here
    the environment  the variables that strings of the code name
    values           numbers, strings and containers by content; arrays by dtype, shape and content

Limits:

- Globals of packages in `CONSTANT` are taken to be constants: the list is kept by hand.
- What only running the code can show is not seen: files, clocks, and names of modules, of their
  attributes and of variables that no string of the code is (`getattr(module, name)`).
- Names are read from bytecode, whose instructions are those of Python 3.11 to 3.13.
- Objects of the packages in `OPAQUE`, those that cannot be pickled, and arrays of JAX above
  `limits.SMALL_BYTES` are known by identity: a change inside them is not seen.
"""

import dis
import functools
import hashlib
import marshal
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ewsg_jax.base import indirections, limits


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONSTANT = frozenset(sys.stdlib_module_names) | _named(
    "jax jaxlib ewsg_jax optax chex flax equinox optimistix diffrax lineax haiku distrax jaxtyping "
    "tensorflow tensorflow_probability torch numpyro pyro blackjax pymc pytensor numpy scipy "
    "pandas polars sklearn matplotlib arviz arviz_base arviz_stats tqdm IPython ipykernel pytest "
    "_pytest"
)
"""Packages whose own globals nobody changes; what their functions are given is read too."""
OPAQUE = _named("logging threading _thread io _io socket asyncio multiprocessing weakref _weakref")
"""Packages whose objects are known by identity: no numbers, and maybe half of the program."""
IMMUTABLE = (bool, int, float, complex, str, bytes, type(None))
"""Types whose values cannot change, and are written as they are."""
ARRAYS = (jax.Array, np.ndarray, np.generic)
FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
_BUILT_IN = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_UNREAD = _named(
    "__dict__ __weakref__ __doc__ __module__ __annotations__ __annotate__ __firstlineno__ "
    "__static_attributes__"
)
_NO_NAMES: frozenset[str] = frozenset()
_HAS_DOCSTRING = 0x4000000
"""The flag of a code object whose first constant is its docstring, of Python 3.13."""


class Read(NamedTuple):
    """What was read of one value: a digest of 16 bytes, and whether something in it can be set
    without making a new object.
    """

    value: Any
    digest: bytes
    can_change: bool


def package_of(value: object) -> str:
    """Return the name of the package that a function, a class or a module is of."""
    name = (
        value.__name__
        if isinstance(value, types.ModuleType)
        else getattr(value, "__module__", None)
    )
    return name.partition(".")[0] if isinstance(name, str) else ""


class _Code(NamedTuple):
    """A code object: its content, and what it and those inside it name."""

    content: tuple[Any, ...]
    globals: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[indirections.Import, ...]


@functools.lru_cache(maxsize=4096)
def _code(code: types.CodeType) -> _Code:
    names: dict[str, None] = {}
    attributes: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[instruction.argval] = None
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            attributes.add(instruction.argval)
    imports = dict.fromkeys(indirections.imports_in(code))
    if indirections.BY_STRING & (names.keys() | attributes):
        strings = dict.fromkeys(x for x in code.co_consts if isinstance(x, str))
        names.update(strings)
        attributes.update(strings)
        imports.update({(0, x): None for x in strings})
    for inner in filter(lambda x: isinstance(x, types.CodeType), code.co_consts):
        names.update(dict.fromkeys(_code(inner).globals))
        attributes.update(_code(inner).attributes)
        imports.update(dict.fromkeys(_code(inner).imports))
    return _Code(_content_of_code(code), tuple(names), frozenset(attributes), tuple(imports))


def _content_of_code(code: types.CodeType) -> tuple[Any, ...]:
    """Return what code does, without its place in a file, its docstring and names of variables."""
    # By values, for the places of constants and names in their tables depend on the rest.
    instructions = [
        (
            instruction.opname,
            _constant(instruction.argval)
            if instruction.opcode in dis.hasconst
            else instruction.argval
            if instruction.opcode in (*dis.hasname, *dis.hasfree)
            else instruction.arg,
        )
        for instruction in dis.get_instructions(code)
        if instruction.opname != "EXTENDED_ARG"
    ]
    return (
        (instructions, code.co_exceptiontable, code.co_flags & ~_HAS_DOCSTRING),
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        (code.co_freevars, code.co_cellvars),
    )


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _code(value).content
    # The order of a set is not its own.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


class _Page:
    """What is written of one value: plain parts, and the digests of others."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=16)
        self.can_change = False

    def write(self, *parts: Any) -> None:
        self.hash.update(marshal.dumps(parts, 2))


class Reader:
    """One reading of some values, each once.

    Attributes:
        functions: by identity, what was read of each function, method, partial and user-defined
            object: everything by which JAX may know a program that it has traced.
        for_files: whether digests are compared with those of another process: what is known by
            identity is left out, large arrays of JAX are read, and what was worked out once and
            kept (`functools.cached_property`) does not count.
        is_traced: whether a number that was read is traced.
    """

    def __init__(self, for_files: bool = False) -> None:
        self.functions: dict[int, Read] = {}
        self.for_files = for_files
        self.is_traced = False
        self._read: dict[tuple[int, frozenset[str]], Read] = {}
        self._under_way: list[int] = []

    def read(self, value: object, attributes: frozenset[str] = _NO_NAMES) -> Read:
        """Return the reading of a value; of a module, only the attributes that the code names which
        uses it.
        """
        # Other code names other attributes of the same module.
        key = id(value), attributes if isinstance(value, types.ModuleType) else _NO_NAMES
        if key in self._read:
            return self._read[key]
        if id(value) in self._under_way:
            # It leads back to itself, as a function does that calls itself.
            return Read(value, b"up %d" % self._under_way[::-1].index(id(value)), False)
        self._under_way.append(id(value))
        page = _Page()
        self._write(page, value, attributes)
        self._under_way.pop()
        # It holds the value, so that no identity is given twice.
        read = self._read[key] = Read(value, page.hash.digest(), page.can_change)
        if isinstance(value, FUNCTIONS) or is_of_user(type(value)):
            self.functions[id(value)] = read
        return read

    def _add(self, page: _Page, values: Iterable[Any], attributes: frozenset[str]) -> None:
        for value in values:
            if type(value) in IMMUTABLE:
                page.write(type(value).__name__, value)
            else:
                read = self.read(value, attributes)
                page.hash.update(read.digest)
                page.can_change |= read.can_change

    def _write(self, page: _Page, value: object, attributes: frozenset[str]) -> None:
        kind = type(value)
        page.write(self._module_of(kind), kind.__qualname__)
        behind = indirections.stands_for(value, attributes, not self.for_files)
        if behind is not None:
            page.can_change = True
            self._add(page, behind, attributes)
        elif isinstance(value, ARRAYS):
            self._array(page, value, attributes)
        elif kind in (list, tuple, set, frozenset, dict):
            self._container(page, value, attributes)
        elif isinstance(value, types.FunctionType):
            self._function(page, value)
        elif isinstance(value, types.MethodType):
            self._add(page, (value.__func__, value.__self__), attributes)
        elif isinstance(value, types.ModuleType):
            self._module(page, value, attributes)
        elif isinstance(value, type):
            self._class(page, value)
        elif isinstance(value, functools.partial):
            self._add(
                page, (value.func, value.args, value.keywords, *vars(value).items()), attributes
            )
        elif isinstance(value, property):
            self._add(page, (value.fget,), attributes)
        elif isinstance(value, staticmethod | classmethod):
            self._add(page, (value.__func__,), attributes)
        elif isinstance(value, types.MappingProxyType):
            self._container(page, dict(value), attributes)
        elif isinstance(value, _BUILT_IN):
            page.write(value.__qualname__)
            owner = getattr(value, "__self__", None)
            # As of `table.get`.
            if isinstance(owner, list | tuple | set | frozenset | dict | np.ndarray | ContextVar):
                self._add(page, (owner,), attributes)
        elif kind in IMMUTABLE:
            page.write(value)
        elif isinstance(value, Tracer) or package_of(kind) in OPAQUE:
            page.write(self._identity(value))
        else:
            self._object(page, value, attributes)

    def _identity(self, value: object) -> bytes:
        return b"" if self.for_files else _identity(value)

    def _module_of(self, kind: type) -> str:
        # A script has another name if it is imported; a class of C may have no string.
        return "" if self.for_files and is_of_user(kind) else str(kind.__module__)

    def _array(self, page: _Page, value: Any, attributes: frozenset[str]) -> None:
        self.is_traced |= isinstance(value, Tracer)
        if isinstance(value, jax.Array):
            page.write(_content_of(value, self.for_files))
        elif value.dtype.hasobject:
            page.write(value.shape)
            page.can_change = True
            self._add(page, value.ravel().tolist(), attributes)
        else:
            page.write(value.dtype.str, value.shape)
            page.can_change = isinstance(value, np.ndarray)
            page.hash.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)

    def _container(self, page: _Page, value: Any, attributes: frozenset[str]) -> None:
        page.write(len(value))
        items = [*value, *value.values()] if isinstance(value, dict) else list(value)
        page.can_change = not isinstance(value, tuple | frozenset)
        is_plain = {type(item) for item in items} <= set(IMMUTABLE)
        if isinstance(value, set | frozenset):
            # Whose order is not its own.
            reads = [self.read(item, attributes) for item in items]
            page.hash.update(b"".join(sorted(read.digest for read in reads)))
            page.can_change |= any(read.can_change for read in reads)
        elif not is_plain:
            self._add(page, items, attributes)
        else:
            # Many numbers at once.
            page.write([type(item).__name__ for item in items] if len(items) < 64 else "", items)

    def _function(self, page: _Page, value: types.FunctionType) -> None:
        content, names, attributes, imports = _code(value.__code__)
        is_constant = package_of(value) in CONSTANT
        # Another version of a package has other code for the same.
        is_named = is_constant and self.for_files
        page.write((value.__module__, value.__qualname__) if is_named else content)
        self._add(page, (value.__defaults__, value.__kwdefaults__), attributes)
        for name, inside in list(vars(value).items()):
            if name == "__wrapped__" or not is_constant:
                page.write(name)
                page.can_change |= name != "__wrapped__"
                self._add(page, (inside,), attributes)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                inside = cell.cell_contents
            except ValueError:  # it is not filled yet
                continue
            page.write(name)
            self._add(page, (inside,), attributes)
        if is_constant:
            return
        for name in names:
            if name in value.__globals__:
                inside = value.__globals__[name]
                page.write(name)
                page.can_change |= not isinstance(inside, types.ModuleType)
                self._add(page, (inside,), attributes)
        for level, name in imports:
            package = value.__globals__.get("__package__")
            self._add(page, indirections.modules_of(level, name, package), attributes)

    def _module(self, page: _Page, value: types.ModuleType, attributes: frozenset[str]) -> None:
        page.write(value.__name__)
        if package_of(value) in CONSTANT:
            return
        # A module may make its attributes by a function of that name.
        for name in sorted((attributes | {"__getattr__"}) & vars(value).keys()):
            page.write(name)
            page.can_change = True
            self._add(page, (vars(value)[name],), attributes)

    def _class(self, page: _Page, value: type) -> None:
        page.write(self._module_of(value), value.__qualname__)
        if is_of_user(type(value)):
            self._add(page, (type(value),), _NO_NAMES)
        for base in filter(is_of_user, value.__mro__):
            for name, inside in list(vars(base).items()):
                if name not in _UNREAD and not isinstance(inside, _DESCRIPTORS):
                    page.write(name)
                    self._add(page, (inside,), _NO_NAMES)

    def _object(self, page: _Page, value: object, attributes: frozenset[str]) -> None:
        kind = type(value)
        # Such as numbers of ctypes.
        if (raw := _bytes_of(value)) is not None:
            page.can_change = True
            page.hash.update(raw)
            return
        if is_of_user(kind):
            self._add(page, (kind,), attributes)
        # Such as what `jax.jit` and `functools.cache` return.
        wrapped = _attribute(value, "__wrapped__")
        if wrapped is not None:
            self._add(page, (wrapped,), attributes)
            return
        if package_of(kind) == "pandas":
            # Its numbers are in objects of C; its attributes hold what was worked out from them.
            self._pickled(page, value, attributes)
            return
        attributes_of_value = _attribute(value, "__dict__")
        slots = [name for base in kind.__mro__ for name in _slots_of(base)]
        plain: Any = next((base for base in kind.__mro__ if base in IMMUTABLE), None)
        if plain is not None:
            page.write(plain.__repr__(value))
        elif isinstance(value, dict | list | tuple | set | frozenset):
            self._container(page, value, attributes)
        elif attributes_of_value is None and not slots:
            self._pickled(page, value, attributes)
        frozen = getattr(_attribute(kind, "__dataclass_params__"), "frozen", False)
        in_slots = ((name, _attribute(value, name)) for name in slots)
        for name, inside in [*(attributes_of_value or {}).items(), *in_slots]:
            if self.for_files and isinstance(_in_class(kind, name), functools.cached_property):
                continue
            page.write(str(name))
            page.can_change |= not frozen
            self._add(page, (inside,), attributes)

    def _pickled(self, page: _Page, value: object, attributes: frozenset[str]) -> None:
        """Write what pickling keeps of an object of C, such as a generator of random numbers."""
        page.can_change = True
        try:
            kept = value.__reduce_ex__(4)
        except Exception:  # it cannot be pickled
            kept = self._identity(value)
        if isinstance(kept, str | bytes):
            page.write(kept)
            return
        function, *rest = kept
        page.write(getattr(function, "__qualname__", ""))
        parts = [list(part) if hasattr(part, "__next__") else part for part in rest]
        self._add(page, parts, attributes)


def is_of_user(kind: type) -> bool:
    """Return whether a class is of none of the packages in `CONSTANT`."""
    package = package_of(kind)
    return package != "" and package not in CONSTANT


def _in_class(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _bytes_of(value: Any) -> bytes | None:
    """Return the bytes of an object that lends its memory, None of all others."""
    try:
        return memoryview(value).tobytes()
    except Exception:
        return None


def _attribute(value: object, name: str) -> Any:
    """Return an attribute without running code of the object; None if it does not have one."""
    try:
        return object.__getattribute__(value, name)
    except Exception:
        return None


@functools.lru_cache(maxsize=4096)
def _slots_of(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    private = f"_{kind.__name__.lstrip('_')}"
    return tuple(
        private + name if name.startswith("__") and not name.endswith("__") else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    )


_KNOWN: dict[int, tuple[weakref.ref[Any], bytes]] = {}
"""What is written of arrays of JAX, and of objects known by identity: forgotten with them."""
_NUMBERS = iter(range(2**62))


def _remembered(value: object, make: Callable[[], bytes]) -> bytes:
    key = id(value)
    known = _KNOWN.get(key)
    if known is not None and known[0]() is value:
        return known[1]
    content = make()
    _KNOWN[key] = weakref.ref(value, lambda _: _KNOWN.pop(key, None)), content
    return content


def _number() -> bytes:
    return b"number %d" % next(_NUMBERS)


def _identity(value: object) -> bytes:
    """Return a number that no other object has."""
    try:
        return _remembered(value, _number)
    except TypeError:  # it cannot be referred to weakly
        return b"at %d" % id(value)


def _content_of(value: jax.Array, for_files: bool) -> bytes:
    """Return what an array of JAX holds, read once: it cannot change. If it is large, and not for
    files, it is known by its identity.
    """

    def content() -> bytes:
        if isinstance(value, Tracer) or value.is_deleted() or not value.is_fully_addressable:
            return b"" if for_files else _number()
        plain = (
            jax.random.key_data(value)
            if jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
            else value
        )
        if plain.nbytes > limits.SMALL_BYTES and not for_files:
            return _number()
        raw = np.ascontiguousarray(np.asarray(plain)).reshape(-1).view(np.uint8)
        head = f"{value.dtype} {plain.weak_type} {value.shape}".encode()
        return head + hashlib.blake2b(raw.data, digest_size=16).digest()

    return content() if for_files else _remembered(value, content)
