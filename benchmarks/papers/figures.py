"""Figures of the papers' experiments: lines in panels, as an image."""

import importlib
import io
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Distinct to colour-blind readers too (Okabe & Ito)."""
PALETTE = 96
"""Colours of a stored picture, which is a third as large as one of all colours."""
SHORT = 200.0
"""The ratio of its ends below which a logarithmic axis is short."""


class Line(NamedTuple):
    """A line and its band; `None` is a missing number. Those of one thing, in several panels, have
    one colour.
    """

    label: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float | None] | np.ndarray
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    is_guide: bool = False
    of: str = ""
    is_dashed: bool = False


class Panel(NamedTuple):
    """Lines on axes, whose vertical one may have ends of its own."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    is_log: tuple[bool, bool] = (False, True)
    y_range: tuple[float, float] | None = None


def require_matplotlib(needed_by: str) -> None:
    """Raise before a run what would be raised after it, where its figure is drawn.

    Args:
        needed_by: the command, for the message.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError(f"{needed_by} needs matplotlib: pip install 'ewsg_jax[run]'") from error


def png(
    shown: Sequence[Panel],
    note: str = "",
    num_columns: int | None = None,
    size: tuple[float, float] = (4.2, 3.6),
) -> bytes:
    """Return panels as a PNG, with a note below; a method has one colour in all of them.

    Args:
        shown: the panels, row by row.
        note: lines of text.
        num_columns: panels in a row. Default: all.
        size: width and height of a panel in inches.

    Raises:
        ImportError: matplotlib is not installed.
    """
    num_columns = num_columns or len(shown)
    num_rows = -(-len(shown) // num_columns)
    width = 0.6 + size[0] * num_columns
    notes = [part for line in note.splitlines() for part in textwrap.wrap(line, int(17 * width))]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((width, size[1] * num_rows + 0.13 * len(notes)), layout="constrained")
    FigureCanvasAgg(figure)
    if notes:
        figure.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=7)
    axes = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    of = list(
        dict.fromkeys(
            line.of or line.label for panel in shown for line in panel.lines if not line.is_guide
        )
    )
    for axis, panel in zip(axes, shown, strict=False):
        for line in panel.lines:
            _draw(axis, line, of)
        for name, is_log in zip("xy", panel.is_log, strict=True):
            if is_log:
                getattr(axis, f"set_{name}scale")("log")
        if panel.is_log[0]:
            _label_short_axis(axis)
        axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        if panel.y_range is not None:
            axis.set_ylim(*panel.y_range)
        if any(line.label for line in panel.lines):
            axis.legend(frameon=False, fontsize=8)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    return _encoded(figure)


def _draw(axis: Any, line: Line, of: list[str]) -> None:
    style: dict[str, Any] = {"color": "#888888", "linestyle": ":", "linewidth": 1.0}
    if not line.is_guide:
        again, colour = divmod(of.index(line.of or line.label), len(COLOURS))
        dashes = "--" if again or line.is_dashed else "-"
        style = {"color": COLOURS[colour], "linestyle": dashes, "linewidth": 1.4}
    axis.plot(line.x, numbers(line.y), label=line.label or None, **style)
    if line.low:
        axis.fill_between(
            line.x,
            numbers(line.low),
            numbers(line.high),
            color=style["color"],
            alpha=0.15,
            linewidth=0,
        )


def _label_short_axis(axis: Any) -> None:
    """Write 1, 2 and 5 of each decade below a short logarithmic axis, where its own labels lie over
    each other.
    """
    low, high = axis.get_xlim()
    if high / low < SHORT:
        axis.set_xscale("log", subs=[])
        decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        ticks = np.ravel(np.outer(decades, [1, 2, 5]))
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.set_xlim(low, high)


def numbers(values: Sequence[float | None] | np.ndarray) -> np.ndarray:
    """Return an array with NaN where a number is missing."""
    return np.array([np.nan if x is None else x for x in values], float)


def _encoded(figure: Any) -> bytes:
    from PIL import Image  # which matplotlib brings

    whole, small = io.BytesIO(), io.BytesIO()
    figure.savefig(whole, dpi=90, format="png")
    with Image.open(whole) as image:
        image.convert("RGB").quantize(PALETTE).save(small, format="png", optimize=True)
    return small.getvalue()
