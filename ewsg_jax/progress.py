"""A progress bar where tqdm is installed and somebody watches, nothing elsewhere."""

import importlib.util
import sys
import warnings
from typing import Any


class Progress:
    """A bar over the steps of a run, on a terminal or in a notebook."""

    def __init__(self, total: int, show: bool) -> None:
        self._bar: Any = None
        watched = "ipykernel" in sys.modules or sys.stderr.isatty()
        if show and watched and importlib.util.find_spec("tqdm") is not None:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # tqdm.auto warns where notebook widgets are missing
                from tqdm.auto import tqdm

            self._bar = tqdm(total=total, unit="step", unit_scale=True, leave=False)

    def update(self, steps: int) -> None:
        """Advance by the steps made."""
        if self._bar is not None:
            self._bar.update(steps)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
