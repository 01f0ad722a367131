"""A run on disk, so that a run that ends before its time can resume: a folder of files, each written whole.

The draws since the last checkpoint are a file of their own; the file of the run, written after it, says how many of
those there are, and holds the last states, sums and counts. A kill in between leaves the checkpoint before.
"""

import functools
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._kernel import KernelState
from ewsg_jax._types import Position, PyTree
from ewsg_jax.files import path_of
from ewsg_jax.sampling import archive, keeping
from ewsg_jax.sampling.host import Clock, on_host
from ewsg_jax.sampling.keeping import Plan
from ewsg_jax.sampling.layout import Layout
from ewsg_jax.sampling.loop import Outcome
from ewsg_jax.sampling.request import Request

NAME, FORMAT, BATCHES = "checkpoint", "ewsg_jax checkpoint 1", "ewsg_jax checkpoint of batches 1"
RUN, DRAWS = "run.npz", "draws-{:06d}.npz"
SHARE = 1 / 20
"""What part of a run's time may go into writing, however often it is asked for."""


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


class CheckpointWriter:
    """Writes a run's checkpoints."""

    def __init__(
        self,
        request: Request,
        plan: Plan,
        head: dict[str, Any],
        earlier: Earlier | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Look at the folder, and tidy it; of several processes the first one does, and writes.

        Raises:
            TypeError, ValueError: the path is none, or a run is there already.
        """
        self._folder, self._plan, self._head = path_of(request.checkpoint, "checkpoint"), plan, head
        self._clock = clock or Clock()
        self._writes = not self._clock.has_many or jax.process_index() == 0
        if earlier is None and self._writes:
            check_new(self._folder)
        for name in (f".{RUN}.*", ".draws-*") if self._writes else ():
            for left in self._folder.glob(name):
                left.unlink()
        self._every, self._earlier = request.checkpoint_every, earlier
        self._pieces = 0 if earlier is None else earlier.counts["pieces"]
        self._saved = 0 if earlier is None else earlier.counts["done"]
        self._began = self.compiled = self._clock.now()
        self._due = self._began + self._every

    def look(self, outcome: Outcome) -> None:
        """Write a checkpoint if one is due; a disk that is full is told, and does not end the run."""
        if self._clock.now() < self._due:
            return
        self.save(outcome)

    def save(self, outcome: Outcome) -> None:
        """Write a checkpoint; one that cannot be written is told."""
        began = self._clock.now()
        try:
            self.write(outcome)
        except OSError as error:
            warnings.warn(
                f"the checkpoint after {outcome.done} steps could not be written, and the one after {self._saved} "
                f"still stands: {_check.reason(error)}",
                RuntimeWarning,
                stacklevel=6,
            )
        now = self._clock.now()
        self._due = now + max(self._every, (now - began) / SHARE)

    def write(self, outcome: Outcome) -> None:
        """Write a checkpoint.

        Raises:
            TypeError: the state holds what cannot be saved.
            OSError: the folder cannot be made, or a file cannot be written.
        """
        state, now = on_host(outcome.state), self._clock.now()
        if not self._writes:
            return
        self._folder.mkdir(exist_ok=True)
        first, last = self._plan.kept(self._saved), self._plan.kept(outcome.done)
        position, pieces = state.position, self._pieces
        if last > first and jax.tree.leaves(outcome.draws):
            some = jax.tree.map(lambda x: x[:, first:last], outcome.draws)
            archive.write(self._folder / DRAWS.format(pieces), some, "draws", position)
            pieces += 1
        before = (0.0, 0.0) if self._earlier is None else self._earlier.counts["seconds"]
        counts = {
            "done": outcome.done,
            "pieces": pieces,
            "totals": outcome.totals,
            "spent": np.asarray(outcome.spent),
            "alive": outcome.watch.alive,
            "diverged_at": outcome.watch.diverged_at,
            "seconds": (before[0] + self.compiled - self._began, before[1] + now - self.compiled),
        }
        sums = None if outcome.sums is None else jax.tree.leaves(outcome.sums)
        whole = {"format": FORMAT, "head": self._head, "counts": counts, "state": state, "sums": sums}
        archive.write(self._folder / RUN, whole, NAME, position)
        self._pieces, self._saved = pieces, outcome.done


def restore(earlier: Earlier, outcome: Outcome, layout: Layout) -> None:
    """Put into an outcome of no steps what a checkpoint holds."""
    counts = earlier.counts
    outcome.done = counts["done"]
    outcome.totals = dict(counts["totals"])
    outcome.spent = [(int(steps), int(spent)) for steps, spent in counts["spent"]]
    outcome.watch.restore(counts["alive"], counts["diverged_at"], outcome.done)
    filled = 0
    for piece in map(jax.tree.leaves, earlier.pieces):
        count = piece[0].shape[1]
        for draws, some in zip(jax.tree.leaves(outcome.draws), piece, strict=True):
            draws[:, filled : filled + count] = some
        filled += count
    if earlier.sums is not None:
        like = jax.eval_shape(functools.partial(keeping.nothing, layout), outcome.state.position).sums
        outcome.sums = jax.tree.unflatten(jax.tree.structure(like), earlier.sums)
