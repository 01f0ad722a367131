"""Trees of arrays in a file: a NumPy archive of all arrays, and a description of the tree that they make up.

Nothing is pickled. Trees of dictionaries, lists, tuples and classes with a tag (`saved_as`) come back by
themselves; a position of another kind (the parameters of a network, a named tuple of yours) is asked for, as a tree
of the same structure.
"""

import errno
import json
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, tags
from ewsg_jax._types import PyTree
from ewsg_jax.files import path_of, write_whole

FORMAT = "ewsg_jax samples"
DESCRIPTION = "description"
PLAIN = (bool, int, float, str, type(None))


class UnreadableError(ValueError):
    """A file is not what `write` wrote; the text says why."""


class _PositionError(Exception):
    """The position that was given does not fit."""


def write(path: Any, value: Any, name: str, position: PyTree) -> None:
    """Write a tree to one file.

    Args:
        path: of the file; one that exists is replaced at the end.
        value: the tree.
        name: what it is called in messages.
        position: trees of its structure may stand in the value, whatever they are made of.

    Raises:
        TypeError, ValueError: the path is none, or the tree holds what cannot be saved.
        OSError: the file cannot be written.
    """
    writer = _Writer(jax.tree.structure(position))
    description = json.dumps({"format": FORMAT, name: writer.describe(value, name)})
    arrays = writer.arrays | {DESCRIPTION: np.frombuffer(description.encode(), np.uint8)}
    write_whole(path_of(path), lambda file: np.savez(file, allow_pickle=False, **arrays))


def read(path: Path, name: str, position: PyTree) -> Any:
    """Read the tree that was written under a name.

    Raises:
        UnreadableError: the file is none that was so written, or is damaged.
        ValueError: the position is missing or does not fit.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            return _read(file, name, position)
        except _PositionError as error:
            raise ValueError(str(error)) from None
        except (UnreadableError, MemoryError):
            raise
        except Exception as error:
            # A damaged table of contents may send the reader to a place before the file's beginning: EINVAL.
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise
            raise UnreadableError(_check.reason(error)) from error


def _read(file: BinaryIO, name: str, position: PyTree) -> Any:
    with zipfile.ZipFile(file) as archive:
        # The archive has a checksum of all bytes of an array, its header among them; but NumPy's reader stops where
        # the header says, which when damaged may be too early for the checksum to be looked at.
        damaged = archive.testzip()
        if damaged is not None:
            raise UnreadableError(f"it is damaged: the checksum of {damaged} is another")
        arrays = {stored.removesuffix(".npy"): _array(archive, stored) for stored in archive.namelist()}
    description = json.loads(arrays[DESCRIPTION].tobytes())
    known = description["format"]
    if known != FORMAT:
        raise UnreadableError(f"it is not in the format {FORMAT!r} but in {known!r}")
    return _Reader(arrays, position).rebuild(description[name])


def _array(archive: zipfile.ZipFile, stored: str) -> np.ndarray:
    with archive.open(stored) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


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
        tag = tags.tag_of(value)
        if tag is not None:
            fields = {field: self.describe(item, f"{name}.{field}") for field, item in tags.fields(value).items()}
            return {"class": tag, "fields": fields}
        if jax.tree.structure(value) == self._position:
            leaves = [self.describe(leaf, f"{name}.{place}") for place, leaf in enumerate(jax.tree.leaves(value))]
            return {"position": leaves}
        raise TypeError(
            "samples must be of dictionaries, lists, tuples, arrays and trees like the position to be saved, or of "
            "named tuples and dataclasses that ewsg_jax.sampling.saved_as decorates; got "
            f"{_check.describe(value)} as {name}"
        )

    def _array(self, value: Any, name: str) -> Any:
        array = np.asarray(value)
        described = {"array": name, "jax": isinstance(value, jax.Array)}
        if array.dtype.kind == "V":  # bfloat16 and its like, which NumPy's format does not know
            described["dtype"] = array.dtype.name
            array = array.view(f"u{array.dtype.itemsize}")
        # {"a.b": x} and {"a": {"b": x}} have one name.
        while described["array"] in self.arrays:
            described["array"] += "'"
        self.arrays[described["array"]] = array
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
            kind = self._class(described["class"])
            return kind(**{field: self.rebuild(item) for field, item in described["fields"].items()})
        if "position" in described:
            return self._like_position([self.rebuild(item) for item in described["position"]])
        kind = tuple if "tuple" in described else list
        return kind(self.rebuild(item) for item in described[kind.__name__])

    def _class(self, named: Any) -> type:
        """Return the class of a tag; only classes with a tag are made from a file."""
        found = tags.class_of(named) if isinstance(named, str) else None
        if found is None:
            raise UnreadableError(
                f"it holds the unknown class {named!r}; a class of yours must be decorated with "
                "ewsg_jax.sampling.saved_as, under that name, in a module that has been imported"
            )
        return found

    def _like_position(self, leaves: list[Any]) -> PyTree:
        structure = jax.tree.structure(self._position)
        if self._position is None or structure.num_leaves != len(leaves):
            raise _PositionError(
                f"position must be a tree like the run's position, of {len(leaves)} arrays, for its class is not "
                "kept in the file: give load(path, position=…) where the run started, or a tree of that structure, "
                "such as a new network's parameters (of equinox, eqx.filter(network, eqx.is_inexact_array)); got "
                f"{_check.describe(self._position)}"
            )
        return jax.tree.unflatten(structure, leaves)
