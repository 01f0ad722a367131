"""A run on disk, so that a run that ends before its time can resume: a folder of files, each
written whole.

The draws since the last checkpoint are a file of their own; the file of the run, written after it,
says how many of those there are, and holds the last states, sums and counts. A kill in between
leaves the checkpoint before. Where the chains started is written once, before any step.
"""

import functools
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.files import path_of
from ewsg_jax.base.typing import Position, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.run import archive, keeping, states
from ewsg_jax.run.archive import Contents
from ewsg_jax.run.host import Clock, on_host
from ewsg_jax.run.keeping import Kept
from ewsg_jax.run.layout import Layout
from ewsg_jax.run.outcome import Outcome
from ewsg_jax.run.request import Request
from ewsg_jax.run.states import SavedState, saved

HOLDS, HOLDS_DRAWS, HOLDS_STARTS = "a checkpoint", "draws", "where chains started"
BATCH_FOLDER, BATCH_FOLDERS = "chains-{:06d}", "chains-*"
"""The folder of a batch of chains, named by the number of the first one; and all such folders."""
RUN, DRAWS, STARTS = "run.npz", "draws-{:06d}.npz", "starts.npz"
SOME_DRAWS, TOTALS, SUMS, COUNTED = "draws", "totals.", "sums", ("spent", "alive", "diverged_at")
"""What the names of arrays are, or begin with."""
SHARE = 1 / 20
"""What part of a run's time may go into writing, however often it is asked for."""


class Earlier(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        head: what does not change in a run: what was asked for, and of what.
        counts: what does: steps made, files of draws, seconds, and arrays by name (`COUNTED`).
        totals: sums over the steps, by the names of `Call.totals`.
        state: the chains' last states.
        sums: of the running moments, None where there are none.
        pieces: of the draws, in order.
        starts: where the chains started, by which the run's end judges whether they blew up; None
            where that cannot be read.
    """

    head: dict[str, Any]
    counts: dict[str, Any]
    totals: dict[str, np.ndarray]
    state: SavedState
    sums: Contents | None
    pieces: list[Contents]
    starts: PyTree


def check_new(folder: Path) -> None:
    """Check that no run is written in a folder, nor any batch of one.

    Raises:
        ValueError: there is one.
    """
    if (folder / RUN).exists() or any(folder.glob(BATCH_FOLDERS)):
        raise ValueError(
            f"checkpoint must be where no run is yet; got {os.fspath(folder)!r}, which "
            "ewsg_jax.resume(path, data, kernel=kernel) resumes"
        )


def read(path: Any, position: Position | None) -> Earlier:
    """Return what a checkpoint holds.

    Args:
        path: of the folder.
        position: a tree of the structure of the run's position, needed where its classes are not in
            the file.

    Raises:
        TypeError, ValueError: the path is not a file path, or not of one checkpoint; a file is
            missing or damaged; or `position` is missing or does not fit.
        OSError: a file cannot be read.
    """
    file = path_of(path) / RUN
    if batches := sorted(file.parent.glob(BATCH_FOLDERS)):
        raise ValueError(
            f"path must be the checkpoint of one run; got {os.fspath(file.parent)!r}, which has "
            f"one for each of {len(batches)} batches of chains: resume each by itself, first "
            f"{os.fspath(batches[0])!r}"
        )
    try:
        whole = _file(file, HOLDS)
        head = whole.told("head", dict)
        counts = whole.told("counts", dict) | {name: whole.array(name) for name in COUNTED}
        totals = {name.removeprefix(TOTALS): x for name, x in whole.under(TOTALS).items()}
        state, pieces = saved(whole, position), []
        sums = whole if whole.under(SUMS) else None
        for number in range(counts["pieces"]):
            file = path_of(path) / DRAWS.format(number)
            pieces.append(_file(file, HOLDS_DRAWS))
        starts = _starts(path_of(path) / STARTS, state.positions)
    except archive.UnreadableError as error:
        raise ValueError(
            f"path must be a checkpoint of ewsg_jax.sample; got {os.fspath(file.parent)!r}, no "
            f"checkpoint or damaged: {file.name}: {error}"
        ) from error
    return Earlier(head, counts, totals, state, sums, pieces, starts)


def _starts(file: Path, like: PyTree) -> PyTree | None:
    """Return where the chains started; None, with a warning, where that cannot be read."""
    try:
        return _file(file, HOLDS_STARTS).tree(archive.POSITION, like)
    except archive.UnreadableError as error:
        warn(
            f"where the chains of {os.fspath(file.parent)!r} started is not known ({error}): that "
            "chains blew up before it resumes may not be seen"
        )
        return None


def _file(file: Path, *holds: str) -> Contents:
    if not file.exists():
        raise archive.UnreadableError(f"it has no {file.name}")
    return archive.read(file, *holds)


class CheckpointWriter:
    """Writes a run's checkpoints."""

    def __init__(
        self,
        request: Request,
        kept: Kept,
        head: dict[str, Any],
        earlier: Earlier | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Read the folder, and tidy it; of several processes the first one does, and writes.

        Raises:
            TypeError, ValueError: the path is not a file path, or a run is there already.
        """
        self._folder, self._kept, self._head = path_of(request.checkpoint, "checkpoint"), kept, head
        self._clock = clock or Clock()
        self._writes = not self._clock.has_many or jax.process_index() == 0
        if earlier is None and self._writes:
            check_new(self._folder)
        # Files that an interrupted write has left are not part of the run.
        for name in (f".{RUN}.*", f".{STARTS}.*", ".draws-*") if self._writes else ():
            for left in self._folder.glob(name):
                left.unlink()
        self._every, self._earlier = request.checkpoint_every, earlier
        self._pieces = 0 if earlier is None else earlier.counts["pieces"]
        self._saved = 0 if earlier is None else earlier.counts["done"]
        self._began = self.compiled = self._clock.now()
        self._due = self._began + self._every

    def look(self, outcome: Outcome) -> None:
        """Write a checkpoint if one is due; a full disk is reported and does not end the run."""
        if self._clock.now() < self._due:
            return
        self.save(outcome)

    def save(self, outcome: Outcome) -> None:
        """Write a checkpoint; one that cannot be written is reported."""
        began = self._clock.now()
        try:
            self.write(outcome)
        except OSError as error:
            warn(
                f"the checkpoint after {outcome.done} steps could not be written, and the one "
                f"after {self._saved} still stands: {checks.reason(error)}"
            )
        now = self._clock.now()
        # On a slow disk less often than asked for: writing is to take a small part of the time.
        self._due = now + max(self._every, (now - began) / SHARE)

    def write(self, outcome: Outcome) -> None:
        """Write a checkpoint.

        Raises:
            TypeError: the state holds what cannot be saved.
            OSError: the folder cannot be made, or a file cannot be written.
        """
        # All processes take part in gathering; one of them writes.
        state, now = on_host(outcome.state), self._clock.now()
        if not self._writes:
            return
        # Batches of chains have their folders in one that is theirs together.
        if self._head.get("total_chains") is not None:
            self._folder.parent.mkdir(exist_ok=True)
        self._folder.mkdir(exist_ok=True)
        if not outcome.done:
            starts = archive.entries(archive.POSITION, state.position)
            archive.write(self._folder / STARTS, HOLDS_STARTS, {}, starts)
        first, last = self._kept.number(self._saved), self._kept.number(outcome.done)
        # Only draws since the last checkpoint are written: each is written once, in a file of its
        # own.
        pieces = self._pieces
        if last > first and jax.tree.leaves(outcome.draws):
            some = jax.tree.map(lambda x: x[:, first:last], outcome.draws)
            archive.write(
                self._folder / DRAWS.format(pieces),
                HOLDS_DRAWS,
                {},
                archive.entries(SOME_DRAWS, some),
            )
            pieces += 1
        # Times add up over all parts of the run, as one that never stopped would show.
        before = (0.0, 0.0) if self._earlier is None else self._earlier.counts["seconds"]
        counts = {
            "done": int(outcome.done),
            "pieces": pieces,
            "seconds": (before[0] + self.compiled - self._began, before[1] + now - self.compiled),
        }
        watch = outcome.watch
        counted = np.asarray(outcome.spent), watch.alive, watch.diverged_at
        arrays = dict(zip(COUNTED, counted, strict=True))
        arrays |= {f"{TOTALS}{name}": total for name, total in outcome.totals.items()}
        arrays |= archive.entries(SUMS, outcome.sums) | archive.entries(states.STATE, state)
        about = {"head": self._head, "counts": counts} | states.describe(state)
        # Last, and in one move: until it is there the checkpoint before it stands.
        archive.write(self._folder / RUN, HOLDS, about, arrays)
        self._pieces, self._saved = pieces, outcome.done


def restore(earlier: Earlier, outcome: Outcome, layout: Layout) -> None:
    """Put into an outcome of no steps what a checkpoint holds.

    Raises:
        ValueError: other draws or moments are kept than were then.
    """
    counts = earlier.counts
    outcome.done = counts["done"]
    outcome.totals = dict(earlier.totals)
    outcome.spent = [(int(steps), int(spent)) for steps, spent in counts["spent"]]
    outcome.watch.restore(counts["alive"], counts["diverged_at"], outcome.done)
    # Pieces hold draws one after another, so each begins where the one before has ended.
    filled = 0
    for piece in earlier.pieces:
        one = _as_kept(piece, SOME_DRAWS, outcome.draws, "keep", 2)
        count = jax.tree.leaves(one)[0].shape[1]

        def write(
            draws: np.ndarray, some: np.ndarray, first: int = filled, count: int = count
        ) -> None:
            draws[:, first : first + count] = some

        jax.tree.map(write, outcome.draws, one)
        filled += count
    if earlier.sums is not None:
        like = jax.eval_shape(
            functools.partial(keeping.nothing, layout), outcome.state.position
        ).sums
        outcome.sums = _as_kept(earlier.sums, SUMS, like, "moments", 0)


def _as_kept(contents: Contents, name: str, like: PyTree, argument: str, axes: int) -> PyTree:
    """Return what was kept; a user's function of the same name may have changed since."""
    takes = f"{argument} must return what it did when the run began"
    try:
        found = contents.tree(name, like)
    except archive.UnreadableError as error:
        raise ValueError(f"{takes}; of what it returns now {error}") from error
    # The number of draws or chains may differ, the shape and dtype of one may not.
    for (one, x), now in zip(
        archive.entries(name, found).items(), jax.tree.leaves(like), strict=True
    ):
        if (x.shape[axes:], x.dtype) != (now.shape[axes:], now.dtype):
            raise ValueError(f"{takes}, {one} {checks.describe(x)}; got {checks.describe(now)}")
    return found
