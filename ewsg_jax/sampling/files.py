"""Samples in a file: a NumPy archive of all arrays, and a description of the trees that they make up.

Nothing is pickled. Trees of dictionaries, lists and tuples come back by themselves; a position of another kind (the
parameters of a network, a named tuple of yours) is asked for, as a tree of the same structure.
"""

import dataclasses
import importlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check
from ewsg_jax._files import write_whole
from ewsg_jax._types import PyTree
from ewsg_jax.sampling.samples import Samples

FORMAT = "ewsg_jax samples 1"
DESCRIPTION = "description"
PLAIN = (bool, int, float, str, type(None))


def save(samples: Samples, path: str | os.PathLike[str]) -> None:
    """Write samples to one file; see `Samples.save`."""
    writer = _Writer(jax.tree.structure(samples.state.position))
    description = json.dumps({"format": FORMAT, "samples": writer.describe(samples, "samples")})
    arrays = writer.arrays | {DESCRIPTION: np.frombuffer(description.encode(), np.uint8)}
    write_whole(_path(path), lambda file: np.savez(file, allow_pickle=False, **arrays))


def load(path: str | os.PathLike[str], position: PyTree = None) -> Samples:
    """Read what `samples.save` wrote.

    Args:
        path: of the file.
        position: a tree of the structure of the run's position, such as its starting point; needed only where it
            is none of dictionaries, lists, tuples and arrays.

    Raises:
        TypeError, ValueError: the path is none, the file is not one of samples, or `position` is missing or does
            not fit.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile, pathlib, jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
        >>> samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), jnp.ones((5, 1)), 10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     samples.save(pathlib.Path(folder) / "run.npz")
        ...     again = ewsg.load(pathlib.Path(folder) / "run.npz")
        >>> bool((again.position == samples.position).all()), int(again.state.step[0])
        (True, 10)
    """
    takes = "path must be a file that samples.save wrote"
    try:
        with np.load(_path(path), allow_pickle=False) as archive:
            arrays = dict(archive)
        description = json.loads(arrays[DESCRIPTION].tobytes())
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{takes}; got {os.fspath(path)!r}, which is none: {_check.reason(error)}") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ValueError(f"{takes} in the format {FORMAT!r}; got another format in {os.fspath(path)!r}")
    return _Reader(arrays, position).rebuild(description["samples"])


def _path(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the path of a file; got {_check.describe(path)}")
    return Path(path)


class _Writer:
    """Collects the arrays of a tree while it describes the tree."""

    def __init__(self, position: Any) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._position = position

    def describe(self, value: Any, name: str) -> Any:
        """Return what JSON can hold of a value, called `name` in messages and in the archive."""
        if isinstance(value, jax.Array | np.ndarray | np.generic):
            return self._array(value, name)
        if isinstance(value, PLAIN):
            return {"plain": value}
        if type(value) is dict and all(isinstance(key, PLAIN) for key in value):
            return {"dict": [[key, self.describe(item, f"{name}.{key}")] for key, item in value.items()]}
        if type(value) in (list, tuple):
            items = [self.describe(item, f"{name}.{place}") for place, item in enumerate(value)]
            return {type(value).__name__: items}
        if type(value).__module__.startswith("ewsg_jax."):
            fields = {field: self.describe(getattr(value, field), f"{name}.{field}") for field in _fields(value)}
            return {"class": [type(value).__module__, type(value).__qualname__], "fields": fields}
        if jax.tree.structure(value) == self._position:
            leaves = [self.describe(leaf, f"{name}.{place}") for place, leaf in enumerate(jax.tree.leaves(value))]
            return {"position": leaves}
        raise TypeError(
            "samples must be of dictionaries, lists, tuples, arrays and trees like the position to be saved; got "
            f"{_check.describe(value)} as {name}"
        )

    def _array(self, value: Any, name: str) -> Any:
        array = np.asarray(value)
        described = {"array": name, "jax": isinstance(value, jax.Array)}
        if array.dtype.kind == "V":  # bfloat16 and its like, which NumPy's format does not know
            described["dtype"] = array.dtype.name
            array = array.view(f"u{array.dtype.itemsize}")
        self.arrays[name] = array
        return described


class _Reader:
    """Makes a tree from its description."""

    def __init__(self, arrays: dict[str, np.ndarray], position: PyTree) -> None:
        self._arrays = arrays
        self._position = position

    def rebuild(self, described: dict[str, Any]) -> Any:
        """Return the value that was described."""
        if "array" in described:
            array = self._arrays[described["array"]]
            if "dtype" in described:
                array = array.view(jnp.dtype(described["dtype"]))
            return jnp.asarray(array) if described["jax"] else array
        if "plain" in described:
            return described["plain"]
        if "dict" in described:
            return {key: self.rebuild(item) for key, item in described["dict"]}
        if "class" in described:
            kind = _class(*described["class"])
            return kind(**{field: self.rebuild(item) for field, item in described["fields"].items()})
        if "position" in described:
            return self._like_position([self.rebuild(item) for item in described["position"]])
        kind = tuple if "tuple" in described else list
        return kind(self.rebuild(item) for item in described[kind.__name__])

    def _like_position(self, leaves: list[Any]) -> PyTree:
        structure = jax.tree.structure(self._position)
        if self._position is None or structure.num_leaves != len(leaves):
            raise ValueError(
                f"position must be a tree like the run's position, of {len(leaves)} arrays: its kind is not kept "
                f"in the file; got {_check.describe(self._position)}"
            )
        return jax.tree.unflatten(structure, leaves)


def _fields(value: Any) -> tuple[str, ...]:
    return value._fields if hasattr(value, "_fields") else tuple(field.name for field in dataclasses.fields(value))


def _class(module: str, name: str) -> type:
    """Return a class of this package by its name: a tree of arrays, nothing that does anything when made."""
    found = getattr(importlib.import_module(module), name, None) if module.startswith("ewsg_jax.") else None
    if not isinstance(found, type) or not (hasattr(found, "_fields") or dataclasses.is_dataclass(found)):
        raise ValueError(
            f"path must be a file that samples.save wrote; got one with the unknown class {module}.{name}"
        )
    return found
