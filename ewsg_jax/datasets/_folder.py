"""Where downloaded data lie: the folder that EWSG_JAX_DATA names, else a cache folder in the user's home."""

import os
from pathlib import Path

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
        raise NotADirectoryError(f"{VARIABLE} must name a folder; got {named!r}, which is none")
    return Path(named)


def find(names: tuple[str, ...], origin: str) -> Path:
    """Return the first of these files that is there.

    Args:
        names: file names, best first.
        origin: where one gets them, for the error message.

    Raises:
        FileNotFoundError: none is there; the message says where it looked.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
    """
    folder = data_folder()
    for name in names:
        if (folder / name).is_file():
            return folder / name
    set_by = f"the folder that {VARIABLE} names" if VARIABLE in os.environ else f"as {VARIABLE} is not set"
    raise FileNotFoundError(f"found no {' or '.join(names)} in {folder} ({set_by}). {origin}")
