"""Progress, if somebody watches: on a terminal, or in a notebook if tqdm is installed.

A bar over the steps of a run, with the time that is left; and, for work whose end is not known, a
line with the time that it has taken.
"""

import importlib.util
import sys
import threading
import time
import warnings
from typing import Any, Self


class Progress:
    """A bar over the steps of a run."""

    def __init__(self, total: int, show: bool) -> None:
        self._bar: Any = None
        if show and "ipykernel" in sys.modules and importlib.util.find_spec("tqdm") is not None:
            with warnings.catch_warnings():
                # tqdm.auto warns where notebook widgets are missing.
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm

            self._bar = tqdm(total=total, unit="step", unit_scale=True, leave=False)
        elif show and sys.stderr.isatty():
            self._bar = Line(total)

    def update(self, steps: int) -> None:
        """Advance by the steps made."""
        if self._bar is not None:
            self._bar.update(steps)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


class Line:
    """The last line of a terminal: a bar, steps, and the time that is left."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._shown, self._width = total, 0, 0, 0
        self._at, self._speed = time.monotonic(), 0.0

    def update(self, steps: int) -> None:
        """Advance by the steps made."""
        self._done += steps
        now = time.monotonic()
        # The bar is drawn at most five times a second.
        if now - self._at < 0.2:
            return
        speed = (self._done - self._shown) / (now - self._at)
        # A running mean of speeds.
        weight = 0.2 if self._speed else 1.0
        self._speed += weight * (speed - self._speed)
        self._shown, self._at = self._done, now
        self._write(self._text())

    def _text(self) -> str:
        share = min(1.0, self._done / max(1, self._total))
        filled = round(24 * share)
        bar = "#" * filled + "-" * (24 - filled)
        left = (self._total - self._done) / self._speed if self._speed else 0.0
        return f"{bar} {100 * share:3.0f} % of {self._total:,} steps, {spelled(left)} left"

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text:{self._width}}")
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        """Remove the bar."""
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()


class Clock:
    """A line of a terminal that says what is being done, and for how many seconds."""

    def __init__(self, show: bool) -> None:
        self._show = show and sys.stderr.isatty()
        self._ended, self._what, self._width = threading.Event(), "", 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began = time.monotonic()

    def says(self, what: str) -> None:
        """Show this from now on."""
        self._what, self._began = what, time.monotonic()

    def __enter__(self) -> Self:
        if self._show:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._show:
            self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            # Once more after the end, so that nothing is left on the line.
            is_last = self._ended.wait(1.0 if self._width else 0.05)
            taken = f"{self._what}, {time.monotonic() - self._began:.0f} s"
            text = "" if is_last or not self._what else taken
            sys.stderr.write(f"\r{text:{self._width}}" + ("\r" if is_last else ""))
            sys.stderr.flush()
            self._width = len(text)


def spelled(seconds: float) -> str:
    """Return a time in words.

    Example:
        >>> spelled(75.0)
        '1 min'
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
