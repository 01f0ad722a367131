"""Figures: lines in panels; and the three of `python -m ewsg_jax run`."""

import io
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ewsg_jax import optional, pictures
from ewsg_jax.experiments.config import REFERENCE
from ewsg_jax.experiments.plan import Result

PALETTE = 96
"""Colours of a stored picture, which is a third as large as one of all colours."""
SHORT = 200.0
"""The ratio of its ends below which a logarithmic axis is short."""
MOST_COORDINATES, MOST_CHAINS = 12, 4


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
    is_faint: bool = False


class Panel(NamedTuple):
    """Lines on axes."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    is_log: tuple[bool, bool] = (False, True)


def require_matplotlib(needed_by: str) -> None:
    """Raise before a run what would be raised after it, where its figure is drawn.

    Args:
        needed_by: the command, for the message.

    Raises:
        ImportError: matplotlib is not installed.
    """
    optional.module("matplotlib.figure", needed_by, extra="run")


def png(
    shown: Sequence[Panel],
    note: str = "",
    num_columns: int | None = None,
    size: tuple[float, float] = (4.2, 3.6),
    same_heights: bool = False,
) -> bytes:
    """Return panels as a PNG, with a note below; a method has one colour in all of them.

    Args:
        shown: the panels, row by row.
        note: lines of text.
        num_columns: panels in a row. Default: all.
        size: width and height of a panel in inches.
        same_heights: whether the panels of a row share their vertical axis.

    Raises:
        ImportError: matplotlib is not installed.
    """
    num_columns = num_columns or len(shown)
    num_rows = -(-len(shown) // num_columns)
    width = 0.6 + size[0] * num_columns
    notes = [part for line in note.splitlines() for part in textwrap.wrap(line, int(17 * width))]
    figure = pictures.blank(width, size[1] * num_rows + 0.13 * len(notes))
    if notes:
        figure.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=7)
    axes = figure.subplots(
        num_rows, num_columns, squeeze=False, sharey="row" if same_heights else False
    ).ravel()
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
        if any(line.label for line in panel.lines):
            axis.legend(frameon=False, fontsize=8)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    return _encoded(figure)


def _draw(axis: Any, line: Line, of: list[str]) -> None:
    style: dict[str, Any] = {"color": "#888888", "linestyle": ":", "linewidth": 1.0}
    if not line.is_guide:
        again, colour = divmod(of.index(line.of or line.label), len(pictures.COLOURS))
        dashes = "--" if again or line.is_dashed else "-"
        style = {"color": pictures.COLOURS[colour], "linestyle": dashes, "linewidth": 1.4}
    if line.is_faint:
        style |= {"linewidth": 0.5, "alpha": 0.5}
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


# Of a command's run.


def traces(results: Sequence[Result]) -> bytes:
    """Draw chains against passes over the data: a row for each coordinate, a column for each
    method.
    """
    names, panels = _clearest(results, MOST_CHAINS), []
    for place, name in names.items():
        for result in results:
            lines = [
                Line("", _passes(result), chain[:, place], of=result.plan.label, is_faint=True)
                for chain in result.samples.position[:MOST_CHAINS]
            ]
            panels.append(
                Panel(result.plan.label, "passes over the data", name, lines, (False, False))
            )
    return png(panels, num_columns=len(results), size=(3.4, 2.2), same_heights=True)


def marginals(results: Sequence[Result]) -> bytes:
    """Draw densities of the weights of largest |mean| / sd, all methods in one panel for each
    coordinate.
    """
    panels = []
    for place, name in _clearest(results, MOST_COORDINATES).items():
        draws = {
            result.plan.label: result.samples.position[..., place].ravel() for result in results
        }
        finite = {label: values[np.isfinite(values)] for label, values in draws.items()}
        together = np.concatenate(list(finite.values()))
        low, high = np.quantile(together, [0.002, 0.998]) if together.size else (0.0, 0.0)
        edges = np.linspace(low, high, 41) if high > low else np.linspace(low - 0.5, low + 0.5, 41)
        lines = []
        for label, values in finite.items():
            density = np.histogram(values, edges)[0] / max(len(values), 1) / np.diff(edges)
            corners = np.repeat(edges, 2)[1:-1]
            lines.append(Line("" if panels else label, corners, np.repeat(density, 2), of=label))
        panels.append(Panel(name, "", "", lines, (False, False)))
    return png(panels, num_columns=min(4, len(panels)), size=(3.2, 2.4))


def held_out(results: Sequence[Result]) -> bytes:
    """Draw held-out log likelihood and accuracy of all draws so far, and faintly of each draw."""
    panels = []
    methods = [result for result in results if result.plan.label != REFERENCE]
    # The reference makes more passes: what it comes to is what counts.
    longest = max(_passes(result)[-1] for result in methods or results)
    for of, name, unit in (
        ("log_likelihood", "log likelihood, mean over rows", 1),
        ("accuracy", "accuracy (%)", 100),
    ):
        lines = []
        for result in results:
            label, passes = result.plan.label, _passes(result)
            running, ensemble = (
                unit * getattr(result.trajectory, f"{which}_{of}")
                for which in ("running", "ensemble")
            )
            if label == REFERENCE:
                lines.append(Line(label, [0, longest], [running[-1]] * 2, is_dashed=True))
                continue
            lines += [
                Line(label, passes, running),
                Line("", passes, ensemble, of=label, is_faint=True),
            ]
        panels.append(Panel("", "passes over the data", f"held-out {name}", lines, (False, False)))
    return png(
        panels, "bold: mean prediction of all draws so far; faint: of this draw of all chains"
    )


def _passes(result: Result) -> Any:
    return result.samples.evaluations / result.samples.num_data


def _clearest(results: Sequence[Result], count: int) -> dict[int, str]:
    """Return the coordinates of largest |mean| / sd in the first run, in their own order, with
    their names.
    """
    summary = results[0].summary
    assert summary is not None
    with np.errstate(all="ignore"):
        clear = np.nan_to_num(np.abs(summary.mean) / summary.sd, nan=0.0, posinf=0.0)
    places = sorted(np.argsort(-clear, kind="stable")[:count].tolist())
    return {place: summary.names[place] for place in places}
