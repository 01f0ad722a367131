"""The windows of a run on a caller's batches: some batches of one size, one after the other."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.typing import Data
from ewsg_jax.rows._given import Given
from ewsg_jax.run.layout import MOST_STEPS_PER_BLOCK
from ewsg_jax.run.streams import source
from ewsg_jax.run.streams.loader import Loader
from ewsg_jax.run.windows import Windows


class BatchWindows(Windows):
    """The batches of one run, read once, in the caller's own thread.

    Up to 16 MiB of them are read ahead, and none beyond the last step. A short batch is a window of
    its own.
    """

    is_read_once = True

    def __init__(self, loader: Loader, first_step: int, end: int, check_data: bool) -> None:
        super().__init__()
        self._loader, self._check_data, self._end = loader, check_data, end
        loader.skip(first_step)
        # The step of the first batch that is in no window yet.
        self._next = first_step
        # The last window, its batches, and the step that the first of them is for.
        self._window: Given | None = None
        self._batches: list[Data] = []
        self._first = 0
        # A batch of another size, which was read but begins the next window.
        self._left_over: Data | None = None
        # What is wrong with the batch of the step `_next`, raised when that step is made.
        self._error: Exception | None = None
        # Batches of a window.
        batch_bytes = max(1, pytrees.num_bytes(loader.first))
        most = min(MOST_STEPS_PER_BLOCK, limits.SMALL_BYTES // batch_bytes, end - first_step)
        self._most = max(1, most)

    def at(self, step: int) -> Given:
        """Return the window of a step.

        Raises:
            OSError, ValueError: there is no batch for it, or a wrong one.
        """
        if self._window is None or step >= self._first + len(self._batches):
            self._advance_to(step)
        assert self._window is not None
        return self._window

    @property
    def last(self) -> Given:
        assert self._window is not None
        return self._window

    def left(self, step: int) -> int | None:
        if step < self._first:
            return self._most
        # Read now, for a short batch may follow. What is wrong with it is raised by the step.
        try:
            self.at(step)
        except Exception as error:
            self._error = self._error or error
            return 1
        return self._first + len(self._batches) - step

    def close(self) -> None:
        self._window, self._left_over, self._batches = None, None, []

    def look(self, look: Callable[[Given], None]) -> None:
        super().look(look)
        if self._window is not None:
            self._take(self._first, self._batches)

    def _advance_to(self, step: int) -> None:
        """Read the window whose first batch is that of a step."""
        assert step == self._next, (step, self._next)
        batches: list[Data] = []
        most = max(1, min(self._most, self._end - step))
        while len(batches) < most and self._error is None:
            try:
                batch, self._left_over = self._left_over, None
                batch = self._read() if batch is None else batch
            except Exception as error:
                # The batches before it have steps of their own.
                self._error = error
                break
            if batches and _size(batch) != _size(batches[0]):
                self._left_over = batch
                break
            batches.append(batch)
            if _size(batch) < self._loader.batch_size:
                break
        self._take(step, batches)

    def _take(self, step: int, batches: list[Data]) -> None:
        """Make a window of batches, up to one that is wrong, whose first is that of a step."""
        window = self._of(step, batches) if batches else None
        if window is not None and (wrong := self.first_wrong(window)) is not None:
            row, error = wrong
            number, of_batch = divmod(row, window.batch_size)
            batches = batches[:number]
            window = self._of(step, batches) if batches else None
            where = f"row {of_batch:,} of the batch of step {step + number + 1:,}"
            self._error = ValueError(f"{where}: {error}")
        if window is None:
            error, self._error = self._error, None
            assert error is not None
            raise error
        self._first, self._batches = step, batches
        self._next, self._window = step + len(batches), window

    def _read(self) -> Data:
        batch = self._loader.read()
        if self._check_data:
            where = f"of the batch of step {self._loader.num_read:,}"
            source.check_finite(batch, lambda row: f"row {row:,} {where}")
        return batch

    def _of(self, step: int, batches: list[Data]) -> Given:
        """Return a window of batches, filled up to one length by copies that no step has."""
        size = _size(batches[0])
        # One program serves all windows of the largest batches so far. Of smaller ones there are as
        # many as were read before the first larger one.
        count = self._most if size == self._loader.batch_size else len(batches)
        filled = [batches[i % len(batches)] for i in range(count)]
        rows = jax.device_put(jax.tree.map(lambda *x: np.concatenate(x), *filled))
        first = np.full(size * count, step, np.int32)
        return self._loader.view(rows, size, jnp.asarray(first))


def _size(batch: Data) -> int:
    return len(jax.tree.leaves(batch)[0])
