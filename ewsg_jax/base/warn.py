"""Warnings that name the caller's line, however deep in the library they arise."""

import sys
import warnings

PACKAGE = __name__.split(".")[0]


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the innermost line outside of the library; one that a user can do something about."""
    frame, level = sys._getframe(1), 2
    # `skip_file_prefixes` does it from Python 3.12 on.
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
