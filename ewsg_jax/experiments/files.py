"""The output folder: made before the run, every file written whole or not at all."""

import io
import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ewsg_jax.files import write_whole

LISTS = re.compile(r"(?<=\[)\n[^][{}\"]*(?=\])")
"""What JSON has between the brackets of a list of numbers; texts hold no line's end."""


class Folder:
    """A folder that files are written to atomically: into a temporary file, then renamed.

    Raises:
        OSError: the folder cannot be made or written to; the message names it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as error:
            remove_empty(made)
            raise OSError(f"cannot write to the output folder {path}: {error.strerror or error}") from error
        self._made = made

    def discard(self) -> None:
        """Remove the folders that were made for this one, where nothing lies in them."""
        remove_empty(self._made)

    def read_text(self, name: str) -> str | None:
        """Return what a file holds, None where there is none."""
        path = self.path / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file."""
        write_whole(self.path / name, lambda file: file.write(content))

    def write_text(self, name: str, text: str) -> None:
        """Write a text in UTF-8."""
        self.write_bytes(name, text.encode("utf-8"))

    def write_json(self, name: str, content: Any) -> None:
        """Write JSON, a list of numbers on one line; numbers that are not finite become null."""
        text = json.dumps(plain(content), indent=2, ensure_ascii=False)
        self.write_text(name, LISTS.sub(lambda found: re.sub(r"\n\s*", " ", found[0]).strip(), text) + "\n")

    def write_arrays(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Write a compressed .npz file."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # pyright: ignore[reportArgumentType]
        self.write_bytes(name, buffer.getvalue())


def remove_empty(folders: list[Path]) -> None:
    """Remove folders, the innermost first, as far as they are empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def plain(value: Any) -> Any:
    """Return the value in JSON's types."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
