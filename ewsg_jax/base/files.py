"""Paths, and files that are written whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ewsg_jax.base import checks


def path_of(path: object, name: str = "path") -> Path:
    """Return the path of a file, an argument of that name; raise TypeError for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be the path of a file; got {checks.describe(path)}")
    return Path(path)


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file under a temporary name, bring it to the disk, and only then give it its own.

    A file that exists is replaced once the new one is complete, and kept if that cannot be written.
    """
    if not path.parent.is_dir():
        # Python's own error would name the temporary file.
        missing = errno.ENOTDIR if path.parent.exists() else errno.ENOENT
        raise OSError(
            missing, f"{os.strerror(missing)} to write {path.name} into", str(path.parent)
        )
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
