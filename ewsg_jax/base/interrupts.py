"""Interrupts (Ctrl-C) that are answered when what is under way has ended."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType


class Interrupts:
    """In the main thread, remember a first SIGINT instead of raising; a second one raises."""

    def __init__(self) -> None:
        self.requested = False
        self._previous = None

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextlib.contextmanager
def answered_after() -> Iterator[None]:
    """Raise an interrupt when the `with` block has ended, in which programs are traced.

    While JAX lowers, callbacks of the garbage collector are called, and Python drops what is raised
    in them: a run would continue as if nobody had interrupted it.
    """
    with Interrupts() as interrupts:
        yield
    if interrupts.requested:
        raise KeyboardInterrupt
