"""Figures by matplotlib, without touching its global state."""

import os
from typing import Any

from ewsg_jax.base import optional
from ewsg_jax.base.files import path_of


def blank(width: float, height: float, path: str | os.PathLike[str] | None = None) -> Any:
    """Return a figure to draw in, of a size in inches.

    The path that `keep` will write it to is checked before anything is drawn.
    """
    if path is not None:
        path_of(path)
    backend = optional.module("matplotlib.backends.backend_agg", "a figure")
    figure = optional.module("matplotlib.figure", "a figure").Figure(
        figsize=(width, height), dpi=150, layout="constrained"
    )
    backend.FigureCanvasAgg(figure)
    return figure


def keep(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """Write a figure if there is a path, and return it."""
    if path is not None:
        figure.savefig(path)
    return figure
