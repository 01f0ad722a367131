"""Downloaded data lie in the folder EWSG_JAX_DATA, else in a cache folder in the user's home."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ewsg_jax import _check
from ewsg_jax.files import path_of

XY = tuple[np.ndarray, np.ndarray]

VARIABLE = "EWSG_JAX_DATA"


def data_folder() -> Path:
    """Return the folder of the data sets; it is never created.

    Raises:
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        return Path.home() / ".cache" / "ewsg_jax"
    if not Path(named).is_dir():
        raise NotADirectoryError(
            f"{VARIABLE} must name a folder; got {named!r}, which is not a folder"
        )
    return Path(named)


def find(names: tuple[str, ...], origin: str, given: Path | str | None = None) -> Path:
    """Return the first of these files that is there.

    Args:
        names: file names, best first.
        origin: where one gets them, for the error message.
        given: the file, where the caller has named it.

    Raises:
        FileNotFoundError: none is there; the message says where it looked.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        TypeError: what is given is no path.
    """
    if given is not None:
        path = path_of(given)
        if not path.is_file():
            raise FileNotFoundError(f"found no file {path}. {origin}")
        return path
    folder = data_folder()
    for name in names:
        if (folder / name).is_file():
            return folder / name
    set_by = (
        f"the folder that {VARIABLE} names"
        if VARIABLE in os.environ
        else f"as {VARIABLE} is not set"
    )
    raise FileNotFoundError(f"found no {' or '.join(names)} in {folder} ({set_by}). {origin}")


def read(
    path: Path, what: str, read_text: Callable[[Path], XY] | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays X and y, and feature_names where an npz file has them.

    Args:
        path: the file.
        what: the name of the data set, for the error message.
        read_text: reads X and y from a file that is no npz; None: there is no such file.

    Raises:
        ValueError: the file cannot be read.
    """
    try:
        if path.suffix != ".npz" and read_text is not None:
            return dict(zip(("X", "y"), read_text(path), strict=True))
        with np.load(path) as arrays:
            if not {"X", "y"} <= set(arrays.files):
                raise ValueError(f"{path} must hold arrays X and y; it holds {arrays.files}")
            return {
                name: arrays[name] for name in ("X", "y", "feature_names") if name in arrays.files
            }
    except (EOFError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} must hold {what}; it cannot be read: {_check.reason(error)}"
        ) from error
