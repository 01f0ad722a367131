"""Figures by matplotlib, without touching its global state."""

import os
from typing import Any

from ewsg_jax.files import path_of

DPI = 150


def blank(width: float, height: float, path: str | os.PathLike[str] | None = None) -> Any:
    """Return a figure to draw in, of a size in inches.

    Args:
        width: inches.
        height: inches.
        path: where `keep` will write it, looked at before anything is drawn.

    Raises:
        ImportError: matplotlib is not installed.
        TypeError: the path is none.
    """
    if path is not None:
        path_of(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'ewsg_jax[plots]'") from error
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def keep(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """Write a figure if there is a path, and return it."""
    if path is not None:
        figure.savefig(path)
    return figure
