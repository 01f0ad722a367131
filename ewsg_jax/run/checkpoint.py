"""A run on disk, so that a run that ends before its time can resume: a folder of files, each
written whole.

The draws since the last checkpoint are a file of their own; the file of the run, written after it,
says how many of those there are, and holds the last states, sums and counts. A kill in between
leaves the checkpoint before. The points at which the chains started are written once, before any
step.
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
from ewsg_jax.run import archive, states
from ewsg_jax.run.archive import Contents
from ewsg_jax.run.host import SharedClock, on_host
from ewsg_jax.run.keeping import Kept, empty_record
from ewsg_jax.run.layout import ProgramLayout
from ewsg_jax.run.outcome import Outcome
from ewsg_jax.run.request import Request
from ewsg_jax.run.states import SavedState, saved

HOLDS_RUN, HOLDS_NEW_DRAWS, HOLDS_STARTS = "a checkpoint", "draws", "first positions"
"""What files hold; the last had another text before, so that it is not compared."""
BATCH_FOLDER, BATCH_FOLDERS = "chains-{:06d}", "chains-*"
"""The folder of a batch of chains, named by the number of the first one; and all such folders."""
RUN_FILE, PIECE_FILE, STARTS_FILE = "run.npz", "draws-{:06d}.npz", "starts.npz"
DRAWS_PREFIX, TOTALS_PREFIX, SUMS_PREFIX = "draws", "totals.", "sums"
"""What the names of arrays begin with."""
COUNTED_ARRAYS = ("spent", "alive", "diverged_at")
"""Arrays of every checkpoint, by name."""
WRITING_SHARE = 1 / 20
"""The share of a run's time that writing may take, however short `checkpoint_every` is. Set by
hand.
"""


class Earlier(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        head: what does not change in a run: its arguments and their fingerprints.
        counts: what changes: steps made, files of draws, seconds, and arrays by name
            (`COUNTED_ARRAYS`).
        totals: sums over the steps, by the names of `Call.totals`.
        state: the chains' last states.
        sums: the sums of running moments, None if there are none.
        pieces: the files of draws, in order.
        starts: the points at which the chains started, by which the run's end judges whether they
            blew up; None if they cannot be read.
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
    if (folder / RUN_FILE).exists() or any(folder.glob(BATCH_FOLDERS)):
        raise ValueError(
            f"checkpoint must be a folder without a run; got {os.fspath(folder)!r}, which "
            "ewsg_jax.resume(path, data, kernel=kernel) resumes"
        )


def read(path: Any, position: Position | None) -> Earlier:
    """Return what a checkpoint holds.

    Args:
        path: the folder.
        position: a pytree of the structure of the run's position, needed if its classes are not in
            the file.

    Raises:
        TypeError, ValueError: the path is not a file path, or not of one checkpoint; a file is
            missing or damaged; or `position` is missing or does not fit.
        OSError: a file cannot be read.
    """
    file = path_of(path) / RUN_FILE
    if batches := sorted(file.parent.glob(BATCH_FOLDERS)):
        raise ValueError(
            f"path must be the checkpoint of one run; got {os.fspath(file.parent)!r}, which has "
            f"one for each of {len(batches)} batches of chains: resume each by itself, first "
            f"{os.fspath(batches[0])!r}"
        )
    try:
        contents = _file(file, HOLDS_RUN)
        head, counts = contents.entry("head", dict), contents.entry("counts", dict)
        counts |= {name: contents.array(name) for name in COUNTED_ARRAYS}
        totals = contents.under(TOTALS_PREFIX)
        totals = {name.removeprefix(TOTALS_PREFIX): x for name, x in totals.items()}
        state, pieces = saved(contents, position), []
        sums = contents if contents.under(SUMS_PREFIX) else None
        for number in range(counts["pieces"]):
            file = path_of(path) / PIECE_FILE.format(number)
            pieces.append(_file(file, HOLDS_NEW_DRAWS))
        starts = _starts(path_of(path) / STARTS_FILE, state.positions)
    except archive.UnreadableError as error:
        raise ValueError(
            f"path must be a checkpoint of ewsg_jax.sample; got {os.fspath(file.parent)!r}, no "
            f"checkpoint or damaged: {file.name}: {error}"
        ) from error
    return Earlier(head, counts, totals, state, sums, pieces, starts)


def _starts(file: Path, like: PyTree) -> PyTree | None:
    """Return the points at which chains started; None, with a warning, if they cannot be read."""
    try:
        return _file(file).tree(archive.POSITION, like)
    except archive.UnreadableError as error:
        warn(
            f"the starts of the chains of {os.fspath(file.parent)!r} are not known ({error}): that "
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
        clock: SharedClock | None = None,
    ) -> None:
        """Read the folder, and tidy it; of several processes the first one does, and writes.

        Raises:
            TypeError, ValueError: the path is not a file path, or a run is there already.
        """
        self._folder, self._kept, self._head = path_of(request.checkpoint, "checkpoint"), kept, head
        self._clock = clock or SharedClock()
        self._writes = not self._clock.has_many or jax.process_index() == 0
        if earlier is None and self._writes:
            check_new(self._folder)
        # Files that an interrupted write has left are not part of the run.
        for name in (f".{RUN_FILE}.*", f".{STARTS_FILE}.*", ".draws-*") if self._writes else ():
            for left in self._folder.glob(name):
                left.unlink()
        self._every, self._earlier = request.checkpoint_every, earlier
        self._pieces = 0 if earlier is None else earlier.counts["pieces"]
        self._saved = 0 if earlier is None else earlier.counts["done"]
        self._began = self.compiled = self._clock.now()
        self._due = self._began + self._every

    def look(self, outcome: Outcome) -> None:
        """Write a checkpoint if one is due; a full disk, or a full memory, is reported and does not
        end the run.
        """
        if self._clock.now() < self._due:
            return
        self.save(outcome)

    def save(self, outcome: Outcome) -> None:
        """Write a checkpoint; one that cannot be written is reported."""
        began = self._clock.now()
        try:
            self.write(outcome)
        except (OSError, MemoryError) as error:
            warn(
                f"the checkpoint after {outcome.done} steps could not be written, and the one "
                f"after {self._saved} still stands: {checks.reason(error)}"
            )
        now = self._clock.now()
        # On a slow disk less often than requested: writing is to take a small part of the time.
        self._due = now + max(self._every, (now - began) / WRITING_SHARE)

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
            archive.write(self._folder / STARTS_FILE, HOLDS_STARTS, {}, starts)
        pieces = self._pieces + self._write_new_draws(outcome)
        # Times add up over all parts of the run, as one that never stopped would show.
        compiling, running = (
            (0.0, 0.0) if self._earlier is None else self._earlier.counts["seconds"]
        )
        counts = {
            "done": int(outcome.done),
            "pieces": pieces,
            "seconds": (compiling + self.compiled - self._began, running + now - self.compiled),
        }
        monitor = outcome.monitor
        counted = np.asarray(outcome.spent), monitor.alive, monitor.diverged_at
        arrays = dict(zip(COUNTED_ARRAYS, counted, strict=True))
        arrays |= {f"{TOTALS_PREFIX}{name}": total for name, total in outcome.totals.items()}
        arrays |= archive.entries(SUMS_PREFIX, outcome.sums) | archive.entries(states.STATE, state)
        about = {"head": self._head, "counts": counts} | states.describe(state)
        # Last, and in one move: until it is there the checkpoint before it stands.
        archive.write(self._folder / RUN_FILE, HOLDS_RUN, about, arrays)
        self._pieces, self._saved = pieces, outcome.done

    def _write_new_draws(self, outcome: Outcome) -> int:
        """Write the draws since the last checkpoint to a file of their own; return how many files
        that makes, 0 if there are no such draws.
        """
        first, last = self._kept.number(self._saved), self._kept.number(outcome.done)
        if last <= first or not jax.tree.leaves(outcome.draws):
            return 0
        new_draws = jax.tree.map(lambda x: x[:, first:last], outcome.draws)
        archive.write(
            self._folder / PIECE_FILE.format(self._pieces),
            HOLDS_NEW_DRAWS,
            {},
            archive.entries(DRAWS_PREFIX, new_draws),
        )
        return 1


def restore(earlier: Earlier, outcome: Outcome, layout: ProgramLayout) -> None:
    """Fill an outcome of no steps with what a checkpoint holds.

    Raises:
        ValueError: other draws or moments are kept than were then.
    """
    counts = earlier.counts
    outcome.done = counts["done"]
    outcome.totals = dict(earlier.totals)
    outcome.spent = [(int(steps), int(spent)) for steps, spent in counts["spent"]]
    outcome.monitor.restore(counts["alive"], counts["diverged_at"], outcome.done)
    # Pieces hold draws one after another, so each begins where the one before has ended.
    filled = 0
    for piece in earlier.pieces:
        new_draws = _as_kept(piece, DRAWS_PREFIX, outcome.draws, "keep", 2)
        count = jax.tree.leaves(new_draws)[0].shape[1]

        def write(
            draws: np.ndarray, new: np.ndarray, first: int = filled, count: int = count
        ) -> None:
            draws[:, first : first + count] = new

        jax.tree.map(write, outcome.draws, new_draws)
        filled += count
    if earlier.sums is not None:
        like = jax.eval_shape(functools.partial(empty_record, layout), outcome.state.position).sums
        outcome.sums = _as_kept(earlier.sums, SUMS_PREFIX, like, "moments", 0)


def _as_kept(contents: Contents, name: str, like: PyTree, argument: str, axes: int) -> PyTree:
    """Return what was kept; a user's function of the same name may have changed since."""
    takes = f"{argument} must return what it did when the run began"
    try:
        stored = contents.tree(name, like)
    except archive.UnreadableError as error:
        raise ValueError(f"{takes}; of what it returns now {error}") from error
    # The number of draws or chains may differ, the shape and dtype of one may not.
    for (one, x), now in zip(
        archive.entries(name, stored).items(), jax.tree.leaves(like), strict=True
    ):
        if (x.shape[axes:], x.dtype) != (now.shape[axes:], now.dtype):
            raise ValueError(f"{takes}, {one} {checks.describe(x)}; got {checks.describe(now)}")
    return stored
