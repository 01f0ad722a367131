"""The folder of results, whose files are written whole or not at all, and what they say of the
machine.
"""

import io
import json
import math
import platform
import re
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.base.files import write_whole

NO_NAME = re.compile(r"^\.|[%/\\:*?\"<>|\x00-\x1f]")
"""What a name of a file may not begin with or hold, on some system, and `%`."""
LISTS = re.compile(r"(?<=\[)\n[^][{}\"]*(?=\])")
"""What JSON has between the brackets of a list of numbers; strings in it hold no line breaks."""


class Folder:
    """A folder of results: each file is written to a temporary one, then renamed.

    Raises:
        OSError: the folder cannot be made or written to; the message names it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as error:
            raise OSError(
                f"cannot write to the output folder {path}: {error.strerror or error}"
            ) from error

    def read_text(self, name: str) -> str | None:
        """Return the content of a file, or None if there is no such file."""
        path = self.path / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def write(self, name: str, content: Any) -> None:
        """Write bytes, text in UTF-8, arrays (`*.npz`), or JSON.

        In JSON a list of numbers is on one line, and numbers that are not finite become null.
        """
        if name.endswith(".npz"):
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **content)
            content = buffer.getvalue()
        elif not isinstance(content, str | bytes):
            text = json.dumps(plain(content), indent=2, ensure_ascii=False)
            content = LISTS.sub(lambda match: re.sub(r"\n\s*", " ", match[0]).strip(), text) + "\n"
        encoded = content.encode("utf-8") if isinstance(content, str) else content
        write_whole(self.path / name, lambda file: file.write(encoded))


def file_name(label: str) -> str:
    """Return the part of a file's name that is a run's label; no two labels have the same.

    Example:
        >>> file_name("ewsg, a/b")
        'ewsg, a%2Fb'
    """
    return NO_NAME.sub(lambda match: f"%{ord(match[0]):02X}", label)


def plain(value: Any) -> Any:
    """Return a value in JSON's types."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def versions() -> dict[str, str]:
    """Return the versions of Python, jax, this library and NumPy."""
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "ewsg_jax": ewsg.__version__,
        "numpy": np.__version__,
    }


def device() -> str:
    """Return the name of the device that JAX runs on."""
    first = jax.devices()[0]
    return f"{first.platform} ({first.device_kind})"
