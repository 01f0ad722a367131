"""Figures in the papers' layouts: lines in panels."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ewsg_jax.experiments import COLOURS, blank
from ewsg_jax.experiments import png as encoded

PALETTE = 96
"""Colours of a stored picture."""
SHORT = 200.0
"""The ratio of its ends below which a logarithmic axis is short."""


class Line(NamedTuple):
    """A line and its band; `None` is no number. Those of one thing, in several panels, have one colour."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    is_guide: bool = False
    of: str = ""
    is_dashed: bool = False


class Panel(NamedTuple):
    """Lines on axes."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    is_log: tuple[bool, bool] = (False, True)


def png(shown: Sequence[Panel], note: str = "") -> bytes:
    """Return panels side by side as a PNG, with a text below; a method has one colour in all of them."""
    width = 0.6 + 4.2 * len(shown)
    lines = [part for line in note.splitlines() for part in textwrap.wrap(line, int(17 * width))]
    figure = blank(width, 3.6 + 0.13 * len(lines))
    if lines:
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7)
    of = list(dict.fromkeys(line.of or line.label for panel in shown for line in panel.lines if not line.is_guide))
    for axis, panel in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for line in panel.lines:
            style = {"color": "#888888", "linestyle": ":", "linewidth": 1.0}
            if not line.is_guide:
                again, colour = divmod(of.index(line.of or line.label), len(COLOURS))
                dashes = "--" if again or line.is_dashed else "-"
                style = {"color": COLOURS[colour], "linestyle": dashes, "linewidth": 1.4}
            axis.plot(line.x, numbers(line.y), label=line.label or None, **style)
            if line.low:
                axis.fill_between(
                    line.x, numbers(line.low), numbers(line.high), color=style["color"], alpha=0.15, linewidth=0
                )
        for name, is_log in zip("xy", panel.is_log, strict=True):
            if is_log:
                getattr(axis, f"set_{name}scale")("log")
        if panel.is_log[0]:
            _spaced(axis)
        axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        axis.legend(frameon=False, fontsize=8)
    return encoded(figure, 90, PALETTE)


def _spaced(axis: Any) -> None:
    """Write 1, 2 and 5 of each decade below a short logarithmic axis, where its own labels lie over each other."""
    low, high = axis.get_xlim()
    if high / low < SHORT:
        axis.set_xscale("log", subs=[])
        decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        ticks = np.ravel(np.outer(decades, [1, 2, 5]))
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.set_xlim(low, high)


def numbers(values: Sequence[float | None]) -> np.ndarray:
    """Return an array with NaN where there is no number."""
    return np.array([np.nan if x is None else x for x in values], float)
