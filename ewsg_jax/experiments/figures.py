"""Figures: lines in panels, as an image; and the three of a report of `python -m ewsg_jax`."""

import io
import math
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
MOST_COORDINATES, MOST_TRACES, MOST_CHAINS = 12, 4, 4


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
    optional.module("matplotlib.figure", needed_by, extra="run")


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
    figure = pictures.blank(width, size[1] * num_rows + 0.13 * len(notes))
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


def traces(results: Sequence[Result]) -> list[Panel]:
    """Return chains against passes over the data: for each coordinate a panel of each method."""
    panels = []
    for place, name in _clearest(results, MOST_TRACES).items():
        drawn = {result.plan.label: _flat(result)[:MOST_CHAINS, :, place] for result in results}
        together = np.concatenate([values.ravel() for values in drawn.values()])
        finite = together[np.isfinite(together)]
        ends = (float(finite.min()), float(finite.max())) if finite.size else None
        for result in results:
            label, passes = result.plan.label, _passes(result)
            lines = [Line("", passes, y, of=label, is_faint=True) for y in drawn[label]]
            title = f"{name}: {label}" if len(results) > 1 else name
            panel = Panel(title, "passes over the data", "", lines, (False, False), ends)
            panels.append(panel)
    return panels


def marginals(results: Sequence[Result]) -> list[Panel]:
    """Return densities of the weights of largest |mean| / sd, all methods in one panel for each
    coordinate.
    """
    panels = []
    for place, name in _clearest(results, MOST_COORDINATES).items():
        draws = {result.plan.label: _flat(result)[..., place].ravel() for result in results}
        finite = {label: values[np.isfinite(values)] for label, values in draws.items()}
        together = np.concatenate(list(finite.values()))
        low, high = np.quantile(together, [0.002, 0.998]) if together.size else (0.0, 0.0)
        edges = np.linspace(low, high, 41) if high > low else np.linspace(low - 0.5, low + 0.5, 41)
        lines = []
        for label, values in finite.items():
            density = np.histogram(values, edges)[0] / max(len(values), 1) / np.diff(edges)
            corners = np.repeat(edges, 2)[1:-1]
            lines.append(Line("", corners, np.repeat(density, 2), of=label))
        panels.append(Panel(name, "", "", lines, (False, False)))
    return panels


def held_out(results: Sequence[Result]) -> list[Panel]:
    """Return held-out log likelihood and accuracy of all draws so far, and faintly of each draw;
    nothing where no rows are held out.
    """
    panels = []
    results = [result for result in results if result.trajectory is not None]
    methods = [result for result in results if result.plan.label != REFERENCE]
    if not results:
        return []
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
                lines.append(Line("", [0, longest], [running[-1]] * 2, of=label, is_dashed=True))
                continue
            lines += [
                Line("", passes, running, of=label),
                Line("", passes, ensemble, of=label, is_faint=True),
            ]
        panels.append(Panel(f"held-out {name}", "passes over the data", "", lines, (False, False)))
    return panels


def _flat(result: Result) -> np.ndarray:
    """Return the draws of chains that did not diverge, shape (chain, draw, coordinate)."""
    position = np.asarray(result.samples.finite_draws)
    return position.reshape(*position.shape[:2], math.prod(position.shape[2:]))


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
