"""Runs in files: a NumPy archive whose entries are arrays named by key paths, and a JSON text about
them.

The draws of a position `{"a": …}` are the entry `draws['a']`, the last momenta
`state.dynamics.momentum`: `numpy.load` reads them. Nothing is pickled, and no class is named.

The text describes pytrees of dictionaries, lists, tuples and None. The structure of others is not
in a file: a state has the structure of what the kernel's `init` returns, and the structure of a
position with classes in it, such as a named tuple or the parameters of a network, is an argument.
"""

import ast
import errno
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.files import path_of, write_whole
from ewsg_jax.base.typing import PyTree
from ewsg_jax.run.host import is_key

FORMAT, ABOUT, POSITION = "ewsg_jax 1", "about", "position"
"""The version that a file names, its entry of text, and the mark of a position in a structure."""
KEYS_OF = "keys of "
"""The dtype of PRNG keys in a file begins with it; their implementation follows."""


class UnreadableError(ValueError):
    """A file is not one that `write` wrote, or is damaged; the text says why."""


class Contents(NamedTuple):
    """What a file holds.

    Attributes:
        holds: what it is a file of.
        about: all that is not in arrays.
        arrays: the arrays by name.
    """

    holds: str
    about: dict[str, Any]
    arrays: dict[str, Any]

    def entry(self, name: str, kind: Any = object) -> Any:
        """Return what the text says under a name.

        Raises:
            UnreadableError: it says nothing, or something of another type.
        """
        if not isinstance(self.about.get(name, kind), kind) or name not in self.about:
            raise UnreadableError(f"it does not say what {name} is")
        return self.about[name]

    def tree(self, name: str, like: PyTree) -> PyTree:
        """Return the pytree that was written under a name, in the structure of another one.

        Raises:
            UnreadableError: an array is missing.
        """
        return jax.tree.unflatten(
            jax.tree.structure(like), [self.array(one) for one in entries(name, like)]
        )

    def array(self, name: str) -> Any:
        """Return one array.

        Raises:
            UnreadableError: it is missing.
        """
        if name not in self.arrays:
            raise UnreadableError(f"it has no {name}")
        return self.arrays[name]

    def under(self, name: str) -> dict[str, Any]:
        """Return the arrays of one pytree."""
        return {one: x for one, x in self.arrays.items() if one.startswith(name)}


def entries(name: str, tree: PyTree) -> dict[str, Any]:
    """Return the leaves of a pytree in order, by the names that they have in a file."""
    leaves: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        entry = name + jax.tree_util.keystr(path)
        # A class may give two children one key.
        while entry in leaves:
            entry += "'"
        leaves[entry] = leaf
    return leaves


def write(path: Any, holds: str, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write one file.

    Args:
        path: the path of the file; one that exists is replaced at the end.
        holds: what it is a file of.
        about: what JSON can hold.
        arrays: by name, such as `entries` returns; numbers of every dtype, and typed PRNG keys.

    Raises:
        TypeError, ValueError: the path is not a file path, or an array holds objects.
        OSError: the file cannot be written.
    """
    # NumPy's format knows neither keys nor bfloat16: these go as whole numbers, with their names.
    encoded = {name: _encoded(value) for name, value in arrays.items()}
    dtypes = {name: dtype for name, (_, dtype) in encoded.items() if dtype}
    text = json.dumps({"format": FORMAT, "holds": holds, "dtypes": dtypes, **about})
    stored = {name: array for name, (array, _) in encoded.items()} | {
        ABOUT: np.frombuffer(text.encode(), np.uint8)
    }
    write_whole(path_of(path), lambda file: np.savez(file, allow_pickle=False, **stored))


def read(path: Path, *holds: str, without: str | None = None) -> Contents:
    """Read a file of one of some kinds.

    Args:
        path: the path of the file.
        holds: the kinds; none: any kind.
        without: arrays whose names begin with it are left out, unread. Default: all are read.

    Raises:
        UnreadableError: it is not one of them, or is damaged.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            return _read(file, holds, without)
        except (UnreadableError, MemoryError):
            raise
        except Exception as error:
            # A damaged table of contents may send the reader to a place before the file's
            # beginning: EINVAL.
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise
            raise UnreadableError(checks.reason(error)) from error


def _read(file: BinaryIO, holds: tuple[str, ...], without: str | None) -> Contents:
    with zipfile.ZipFile(file) as archive:
        names = [stored.removesuffix(".npy") for stored in archive.namelist()]
        about = json.loads(_array(archive, ABOUT).tobytes()) if ABOUT in names else {}
        # Before any array is read: a file of another kind may be of any size.
        if about.get("format") != FORMAT:
            raise UnreadableError(f"it is not in the format {FORMAT!r}")
        if holds and about["holds"] not in holds:
            raise UnreadableError(f"it holds {about['holds']}, not {' or '.join(holds)}")
        wanted = [
            name for name in names if name != ABOUT and not (without and name.startswith(without))
        ]
        arrays = {
            name: _decoded(_array(archive, name), about["dtypes"].get(name)) for name in wanted
        }
    return Contents(about["holds"], about, arrays)


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        # NumPy's reader stops where the header says, which may be damaged; the checksum is compared
        # at the end.
        file.read()
    return array


def _encoded(value: Any) -> tuple[np.ndarray, str | None]:
    """Return an array of a dtype that NumPy's format knows, and the other dtype it stands for."""
    if is_key(value):
        return np.asarray(jax.random.key_data(value)), f"{KEYS_OF}{jax.random.key_impl(value)}"
    array = np.asarray(value)
    if array.dtype.kind == "O":
        raise TypeError(
            f"samples must hold arrays of numbers to be saved; got {checks.describe(value)}"
        )
    if array.dtype.kind != "V":
        return array, None
    # bfloat16 and its like.
    return array.view(f"u{array.dtype.itemsize}"), array.dtype.name


def _decoded(array: np.ndarray, dtype: str | None) -> Any:
    if dtype is None:
        return array
    if dtype.startswith(KEYS_OF):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=dtype.removeprefix(KEYS_OF))
    return array.view(np.dtype(dtype))


def describe(tree: PyTree, position: PyTree, name: str) -> str:
    """Return a plain pytree as a literal of Python with 0 for each array.

    Args:
        tree: the pytree.
        position: a pytree whose structure may occur in it; the text has "position" there.
        name: what the pytree is called in messages.

    Raises:
        TypeError: there is another class in it.
    """
    known, needs_it = jax.tree.structure(position), not is_plain(position)

    # A part like the position is marked, for its classes need not be ones that a literal writes.
    def is_position(part: PyTree) -> bool:
        return needs_it and jax.tree.structure(part) == known

    marked = jax.tree.map(
        lambda part: POSITION if is_position(part) else 0, tree, is_leaf=is_position
    )
    if not is_plain(marked):
        raise TypeError(
            f"{name} must be of dictionaries, lists, tuples, arrays and pytrees of the position's "
            "structure to be saved: give sample a function keep that returns such; got "
            f"{checks.describe(tree)}"
        )
    return repr(marked)


def is_plain(tree: PyTree) -> bool:
    """Return whether a literal describes a pytree: dictionaries, lists, tuples and None."""
    marked = jax.tree.map(lambda _: 0, tree)
    try:
        return jax.tree.structure(ast.literal_eval(repr(marked))) == jax.tree.structure(marked)
    except (ValueError, SyntaxError):
        return False


def structure(described: Any, position: Callable[[], PyTree]) -> PyTree:
    """Return a pytree of the structure that was described.

    Args:
        described: what `describe` returned.
        position: returns a pytree of the position's structure; called only if there is such a part.

    Raises:
        UnreadableError: it describes none.
    """
    try:
        marked = ast.literal_eval(described)
    except Exception as error:
        raise UnreadableError(f"it describes no pytree: {described!r}") from error
    return jax.tree.map(lambda part: position() if part == POSITION else part, marked)


def describe_position(position: PyTree) -> dict[str, Any]:
    """Return the structure of a position, and the names, shapes and dtypes of its arrays."""
    leaves = entries("", position)
    return {
        "structure": describe(position, position, POSITION),
        "leaves": [[name, list(np.shape(x)), np.dtype(x.dtype).name] for name, x in leaves.items()],
    }


def position_shapes(described: Any, position: PyTree) -> PyTree:
    """Return the shapes of a position that was described, in the dtypes that JAX has now.

    Args:
        described: what `describe_position` returned.
        position: a pytree of its structure, needed if that is not plain.

    Raises:
        UnreadableError: it describes none.
        ValueError: the position is missing, or has another structure.
    """
    try:
        leaves, like = described["leaves"], structure(described["structure"], lambda: position)
        arrays = {
            name: np.broadcast_to(np.zeros((), dtype), shape) for name, shape, dtype in leaves
        }
        shapes = [checks.shapes(x) for x in arrays.values()]
    except Exception as error:
        raise UnreadableError(f"it describes no position: {checks.reason(error)}") from error
    # The user's pytree has the classes, the file the arrays: they must have the same names.
    if arrays and list(entries("", like)) == list(arrays):
        return jax.tree.unflatten(jax.tree.structure(like), shapes)
    if POSITION not in described["structure"]:
        raise UnreadableError(f"it describes no position: {described!r}")
    raise ValueError(
        f"position must be a pytree like the run's position, of {len(arrays)} arrays "
        f"({', '.join(list(arrays)[:3])}{', …' * (len(arrays) > 3)}), for its classes are not kept "
        "in the file: give load(path, position=…) the start of the run, or a pytree of that "
        "structure, such as a new network's parameters (of equinox, eqx.filter(network, "
        f"eqx.is_inexact_array)); got {checks.describe(position)}"
    )
