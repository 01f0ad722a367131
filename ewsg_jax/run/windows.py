"""The windows of a run: which one each step has. Those of a stream are read ahead by a thread."""

import abc
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from ewsg_jax.base.typing import Array, Data, Key
from ewsg_jax.gradients._protocol import uses_batches
from ewsg_jax.kernels.protocol import Kernel, KernelState
from ewsg_jax.rows._window import Window
from ewsg_jax.run.compiled_loop import Call
from ewsg_jax.run.starts import keys_of
from ewsg_jax.run.streams import order, source
from ewsg_jax.run.streams.stream import Stream

Room = list[np.ndarray]
"""Arrays that rows are read into; on a CPU they are the memory of a window's arrays."""


class Windows(abc.ABC):
    """The windows of one run: which rows its steps have."""

    is_read_once = False
    """Whether a window cannot be had again once a later one was read."""

    waits = False
    """Whether a call must have ended before the next window is read."""

    def __init__(self) -> None:
        self._look: Callable[[Any], None] | None = None

    @abc.abstractmethod
    def at(self, step: int) -> Any:
        """Return the window of a step.

        Raises:
            OSError, ValueError: rows cannot be read, or are not what they are to be.
        """

    @abc.abstractmethod
    def left(self, step: int) -> int | None:
        """Return how many steps the window of a step has from there on; None for all of the run."""

    @property
    @abc.abstractmethod
    def last(self) -> Any:
        """The last window that was read."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let what is read ahead go."""

    def look(self, look: Callable[[Any], None]) -> None:
        """Have every window checked from now on by what raises ValueError for wrong rows."""
        self._look = look

    def causes(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that raises what was wrong with rows that a program asked for."""
        return contextlib.nullcontext()

    def first_wrong(self, window: Any) -> tuple[int, ValueError] | None:
        """Return the first row of a window that is wrong, and what is wrong with it; or None."""
        if self._look is None:
            return None
        try:
            self._look(window)
        except ValueError as error:
            low, high, nearest = 0, window.length, error
            while high - low > 1:
                middle = (low + high) // 2
                part = jax.tree.map(lambda x, low=low, middle=middle: x[low:middle], window)
                try:
                    self._look(part)
                    low = middle
                except ValueError as nearer:
                    high, nearest = middle, nearer
            return low, nearest
        return None

    def advance(
        self,
        make: Callable[..., Call],
        first_step: int,
        done: int,
        steps: int,
        state: KernelState,
        alive: Array,
        **how: Any,
    ) -> Call:
        """Make steps, each with its own window: the call of those of the last window.

        Args:
            make: `make(data, done, steps, state, alive, …)`, which makes those of one.
            first_step: the number of the run's first step.
            done: steps made before.
            steps: steps to make.
            state: the states after those made before.
            alive: which chains move, shape (chains,).
            how: further arguments of `make`.
        """
        while True:
            window, left = self.at(first_step + done), self.left(first_step + done)
            now = steps if left is None else min(steps, left)
            with self.causes():
                call = make(window, done, now, state, alive, **how)
                if self.waits:
                    call = jax.block_until_ready(call)
            if now == steps:
                return call
            state, done, steps = call.state, done + now, steps - now

    def first_states(self, make: Callable[[], KernelState]) -> KernelState:
        """Return the chains' first states, which may be functions of all rows."""
        with self.causes():
            return jax.block_until_ready(make())


class StreamWindows(Windows):
    """The windows of one run.

    The window of step t has the number ⌊t/s⌋, s being the steps of one window. Its rows are a
    function of the run's key and that number alone: a run that is resumed or continued has the same
    windows.
    """

    def __init__(self, stream: Stream, key: Key, kernel: Kernel, check_data: bool) -> None:
        super().__init__()
        self._stream, self._check_data = stream, check_data
        self.waits = stream.num_windows > 1
        # Starts have theirs by 0 and 1: windows have a key of their own.
        self._words = order.words_of(jax.random.fold_in(keys_of(key, 1).begin, 2))
        self._steps, self._x64 = steps_of(kernel, stream), bool(jax.config.read("jax_enable_x64"))
        self._pool = ThreadPoolExecutor(1, "ewsg_jax-windows")
        # The number of the window that the thread reads, and what it will return.
        self._ahead: tuple[int, Future[tuple[Data, Room | None]]] | None = None
        # The number of the window that steps take rows from, the window, and its memory.
        self._here: tuple[int, Window, Room | None] | None = None
        # The memory of the window before, for the next one.
        self._room: Room | None = None

    def at(self, step: int) -> Window:
        """Return the window of a step, and have the next one read.

        Raises:
            OSError, ValueError: rows cannot be read, or are not what they are to be.
        """
        number = 0 if self._steps is None else step // self._steps
        if self._here is None or self._here[0] != number:
            ahead, self._ahead = self._ahead, None
            future = ahead[1] if ahead is not None and ahead[0] == number else self._ask(number)
            rows, room = future.result()
            window = Window(rows=rows, source=self._stream)
            self._look_at(window, number)
            self._leave()
            self._here = number, window, room
        if self._ahead is None and self._steps is not None:
            self._ahead = number + 1, self._ask(number + 1)
        return self._here[1]

    @property
    def last(self) -> Window:
        """The last window that was read."""
        assert self._here is not None
        return self._here[1]

    def left(self, step: int) -> int | None:
        """Return how many steps the window of a step has from there on; None for all of the run."""
        return None if self._steps is None else self._steps - step % self._steps

    def look(self, look: Callable[[Window], None]) -> None:
        """Have every window checked from now on by what raises ValueError for wrong rows."""
        super().look(look)
        if self._here is not None:
            self._look_at(self._here[1], self._here[0])

    def causes(self) -> contextlib.AbstractContextManager[None]:
        return self._stream.causes()

    def close(self) -> None:
        """Let what is read ahead go."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._ahead = self._here = self._room = None

    def _leave(self) -> None:
        """Let the current window go, and read into its memory again: new memory takes longer."""
        if self._here is not None:
            _, window, self._room = self._here
            # Whoever held on to it would be given other rows, and is given an error.
            for leaf in jax.tree.leaves(window.rows):
                leaf.delete()

    def _ask(self, number: int) -> Future[tuple[Data, Room | None]]:
        room, self._room = self._room, None
        return self._pool.submit(self._read, number, room)

    def _read(self, number: int, room: Room | None) -> tuple[Data, Room | None]:
        runs = order.runs_of(self._stream.cut, self._words, number)
        # A function of the user's may keep what it is given.
        if room is None and not self._stream.is_changed:
            room = self._stream.room(self._stream.window)
        rows = self._stream.read_runs(runs, room)
        if self._check_data:
            source.check_finite(rows, lambda row: self._stream.where(runs, row))
        # What the caller has enabled is that of its thread alone.
        with jax.enable_x64(self._x64):
            return jax.block_until_ready(self._stream.on_device(rows)), room

    def _look_at(self, window: Window, number: int) -> None:
        """Check a window; raise what is wrong, with the place of its first wrong row."""
        wrong = self.first_wrong(window)
        if wrong is not None:
            row, error = wrong
            runs = order.runs_of(self._stream.cut, self._words, number)
            raise ValueError(f"{self._stream.where(runs, row)}: {error}") from error


def steps_of(kernel: Kernel, stream: Stream) -> int | None:
    """Return how many steps have one window, None for all."""
    if stream.num_windows == 1 or not uses_batches(kernel):
        return None
    cost = kernel.evaluations(stream.shapes()).per_step
    return max(1, round(stream.passes * stream.window / cost))
