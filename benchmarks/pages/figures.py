"""How the scripts of this folder make a figure without a screen, and write it small."""

import io
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo


def figure(width: float, height: float, **options: Any) -> Figure:
    """Return an empty figure of this size in inches."""
    made = Figure(figsize=(width, height), layout="constrained", **options)
    FigureCanvasAgg(made)
    return made


def write(figure: Figure, path: Path, description: str, dpi: int = 110, colours: int = 48) -> None:
    """Write a picture with few colours, which keeps it small, and its description inside."""
    stream, notes = io.BytesIO(), PngInfo()
    figure.savefig(stream, dpi=dpi, format="png")
    notes.add_itxt("Description", description)
    with Image.open(stream) as image:
        image.convert("RGB").quantize(colours).save(path, optimize=True, pnginfo=notes)
