"""What the files of a checkpoint hold, and how they are read."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from ewsg_jax._kernel import KernelState
from ewsg_jax._types import Position, PyTree
from ewsg_jax.files import path_of
from ewsg_jax.sampling import archive

NAME, FORMAT, BATCHES = "checkpoint", "ewsg_jax checkpoint 1", "ewsg_jax checkpoint of batches 1"
RUN, DRAWS = "run.npz", "draws-{:06d}.npz"


class Earlier(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        head: what does not change in a run: what was asked for, and of what.
        counts: what does: steps made, files of draws, totals, seconds.
        state: the chains' last states.
        sums: the leaves of the running moments, None where there are none.
        pieces: of the draws, in order; leading axes (chain, draw).
    """

    head: dict[str, Any]
    counts: dict[str, Any]
    state: KernelState
    sums: list[Any] | None
    pieces: list[PyTree]


class Batches(NamedTuple):
    """What the checkpoint of a run of batches of chains holds beside the batches.

    Attributes:
        head: what was asked for, and of what.
        starts: of all chains: position, state and whether they are stacked.
    """

    head: dict[str, Any]
    starts: dict[str, Any]


def check_new(folder: Path) -> None:
    """Check that no run is written in a folder, nor any batch of one.

    Raises:
        ValueError: there is one.
    """
    if (folder / RUN).exists() or any(folder.glob("chains-*")):
        raise ValueError(
            f"checkpoint must be where no run is yet; got {os.fspath(folder)!r}, which "
            "ewsg_jax.resume(path, data, kernel=kernel) goes on with"
        )


def read(path: Any, position: Position | None) -> Earlier:
    """Return what a checkpoint of chains that are run at once holds.

    Raises:
        TypeError, ValueError: the path is none, or not of a checkpoint; a file is missing or damaged; or `position`
            is missing or does not fit.
        OSError: a file cannot be read.
    """
    found = read_any(path, position)
    if isinstance(found, Batches):
        raise _unreadable(path_of(path) / RUN, f"{RUN} is not in the format {FORMAT!r}")
    return found


def read_any(path: Any, position: Position | None) -> Earlier | Batches:
    """Return what a checkpoint holds.

    Raises:
        TypeError, ValueError, OSError: as of `read`.
    """
    folder = path_of(path)
    file = folder / RUN
    try:
        if not file.exists():
            raise archive.UnreadableError(f"it has no {RUN}")
        whole = archive.read(file, NAME, position)
        if not isinstance(whole, dict) or whole.get("format") not in (FORMAT, BATCHES):
            raise archive.UnreadableError(f"{RUN} is not in the format {FORMAT!r}")
        if whole["format"] == BATCHES:
            return Batches(whole["head"], whole["starts"])
        pieces = []
        for number in range(whole["counts"]["pieces"]):
            file = folder / DRAWS.format(number)
            if not file.exists():
                raise archive.UnreadableError(f"it has no {file.name}")
            pieces.append(archive.read(file, "draws", position))
    except archive.UnreadableError as error:
        raise _unreadable(file, str(error)) from error
    return Earlier(whole["head"], whole["counts"], whole["state"], whole["sums"], pieces)


def _unreadable(file: Path, why: str) -> ValueError:
    return ValueError(
        f"path must be a checkpoint of ewsg_jax.sample; got {os.fspath(file.parent)!r}, which is none, or damaged: "
        f"{file.name}: {why}"
    )
