"""Figures by matplotlib, without touching its global state."""

import io
import os
from typing import Any

from ewsg_jax import optional
from ewsg_jax.files import path_of

DPI = 150
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Told apart by colour-blind readers too (Okabe & Ito)."""


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
    backend = optional.module("matplotlib.backends.backend_agg", "a figure")
    figure = optional.module("matplotlib.figure", "a figure").Figure(
        figsize=(width, height), dpi=DPI, layout="constrained"
    )
    backend.FigureCanvasAgg(figure)
    return figure


def keep(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """Write a figure if there is a path, and return it."""
    if path is not None:
        figure.savefig(path)
    return figure


def png(figure: Any, dpi: int = DPI, colours: int | None = None) -> bytes:
    """Return a figure as a PNG; with a palette of so many colours it is a third as large."""
    whole, small = io.BytesIO(), io.BytesIO()
    figure.savefig(whole, dpi=dpi, format="png")
    if colours is None:
        return whole.getvalue()
    from PIL import Image  # which matplotlib brings

    with Image.open(whole) as image:
        image.convert("RGB").quantize(colours).save(small, format="png", optimize=True)
    return small.getvalue()
