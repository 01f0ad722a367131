"""Places of files of rows, which no folder of results names: it may be sent to a colleague.

A folder has the name of its file, and the checksum of the rows. The place stands in the cache
folder of this machine, in a file that is called by the checksum.
"""

import contextlib
import os
from pathlib import Path

from ewsg_jax.cli.config import ConfigError


def cache_folder() -> Path:
    """Return the folder of what may be lost; `XDG_CACHE_HOME` moves it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ewsg_jax"


def remember(path: Path, checksum: str) -> None:
    """Write down the place of the rows of a checksum, if that can be written."""
    with contextlib.suppress(OSError):
        (cache_folder() / "rows").mkdir(parents=True, exist_ok=True)
        (cache_folder() / "rows" / checksum).write_text(str(path.resolve()), encoding="utf-8")


def find(name: str, checksum: str, folder: Path) -> Path:
    """Return the place of a file: as remembered, or in the folder of results or one that holds it,
    or in the working directory.

    Raises:
        ConfigError: it is in none of these.
    """
    remembered = cache_folder() / "rows" / checksum
    places = []
    with contextlib.suppress(OSError):
        places.append(Path(remembered.read_text(encoding="utf-8")))
    # A folder of an older version has the whole path.
    results = folder.resolve()
    places += [Path(name)] * Path(name).is_absolute()
    places += [place / name for place in (results, *results.parents, Path())]
    for place in places:
        if place.is_file():
            return place
    raise ConfigError(
        f"{folder} has no rows of its own, and there is no {name} in a folder that holds it: say "
        f"where it is by --data"
    )
