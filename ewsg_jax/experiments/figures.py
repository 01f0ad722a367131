"""The figures of a report: panels of what its runs gave, as SVG that stands in a page.

Texts and axes have the page's colours, light or dark; lines have the classes `c0`, `c1`, …, which
the page gives a colour each.
"""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ewsg_jax.experiments.config import REFERENCE
from ewsg_jax.experiments.plan import Result

WIDTH, HEIGHT = 320, 210
"""Of a panel, in CSS pixels at its natural size."""
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 24, 34
"""Room around the axes, for titles and numbers."""
NUM_COLOURS = 7
"""Colours that the page has; further lines take them again."""
MOST_POINTS = 400
"""Points of a line; of more, evenly spaced ones are drawn."""
STEPS = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Between two ticks, times a power of ten."""
MOST_COORDINATES, MOST_TRACES, MOST_CHAINS = 12, 4, 4
"""Weights with a density, and with traces; of how many chains."""
MARGIN = 0.05
"""Of an axis, on both sides of what is drawn."""


class Line(NamedTuple):
    """A line of a run; what is not finite is left out."""

    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    label: str
    is_dashed: bool = False
    is_faint: bool = False


class Panel(NamedTuple):
    """Lines on axes, whose vertical one may have ends of its own."""

    title: str
    x_label: str
    lines: Sequence[Line]
    y_range: tuple[float, float] | None = None


def svg(panel: Panel, labels: Sequence[str]) -> str:
    """Return a panel as an SVG element, its axes linear.

    Args:
        panel: what is drawn.
        labels: those of all runs; the place of a line's own gives its colour.

    Example:
        >>> svg(Panel("a", "x", [Line([0, 1], [0, 1], "m")]), ["m"])[:5]
        '<svg '
    """
    lines = [(line, *_points(line)) for line in panel.lines]
    across = _axis([x for _, x, _ in lines], WIDTH - LEFT - RIGHT, 50)
    up = _axis([y for _, _, y in lines], HEIGHT - TOP - BOTTOM, 32, panel.y_range)
    bottom = HEIGHT - BOTTOM
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(panel.title)}">',
        f'<text class="title" x="{LEFT}" y="14">{html.escape(_short(panel.title))}</text>',
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{bottom - TOP}"/>',
    ]
    for value in across.ticks:
        x = LEFT + across.at(value)
        parts.append(f'<path class="tick" d="M{x:.1f} {bottom}v4"/>')
        parts.append(f'<text class="x" x="{x:.1f}" y="{bottom + 16}">{across.text(value)}</text>')
    for value in up.ticks:
        y = bottom - up.at(value)
        parts.append(f'<path class="tick" d="M{LEFT} {y:.1f}h-4"/>')
        parts.append(f'<text class="y" x="{LEFT - 6}" y="{y + 4:.1f}">{up.text(value)}</text>')
    if panel.x_label:
        middle = (LEFT + WIDTH - RIGHT) // 2
        parts.append(f'<text class="x" x="{middle}" y="{HEIGHT - 3}">{panel.x_label}</text>')
    for line, x, y in lines:
        colour = labels.index(line.label) % NUM_COLOURS
        styles = [f"c{colour}"] + ["faint"] * line.is_faint + ["dashed"] * line.is_dashed
        places = zip(LEFT + across.at(x), bottom - up.at(y), strict=True)
        drawn = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<polyline class="{" ".join(styles)}" points="{drawn}"/>')
    return "".join([*parts, "</svg>"])


class _Axis:
    """What a number's place on an axis is, and the numbers beside it."""

    def __init__(self, low: float, high: float, size: int, between: int) -> None:
        self._low, self._per_unit = low, size / (high - low)
        rough = (high - low) * between / size
        power = 10.0 ** math.floor(math.log10(rough))
        best = next(i for i, step in enumerate(STEPS) if step * power >= rough * (1 - 1e-9))
        # Two ticks at least, if need be nearer to each other.
        for step in reversed(STEPS[: best + 1]):
            self._step = step * power
            first = math.ceil(low / self._step - 1e-9)
            last = math.floor(high / self._step + 1e-9)
            self.ticks = [number * self._step for number in range(first, last + 1)]
            if len(self.ticks) > 1:
                break

    def at(self, value: float | np.ndarray) -> np.ndarray:
        """Return how far from the axis's beginning a number is."""
        return (np.asarray(value) - self._low) * self._per_unit

    def text(self, value: float) -> str:
        """Return a tick's number."""
        largest = max(map(abs, self.ticks))
        if largest >= 1e5 or largest < 1e-3:
            return f"{value:.3g}"
        places = max(0, -math.floor(math.log10(self._step) + 1e-9))
        return f"{round(value, places) + 0.0:.{places}f}"


def _axis(
    values: Sequence[np.ndarray],
    size: int,
    between: int,
    ends: tuple[float, float] | None = None,
) -> _Axis:
    """Return an axis of `size` pixels around values or ends, with ticks `between` pixels apart at
    least.
    """
    together = np.concatenate(values) if values else np.zeros(0)
    low, high = (together.min(), together.max()) if together.size else (0.0, 1.0)
    low, high = ends or (low, high)
    room = MARGIN * (high - low) or max(abs(high), 1.0) / 2
    return _Axis(float(low - room), float(high + room), size, between)


def _points(line: Line) -> tuple[np.ndarray, np.ndarray]:
    """Return the finite points of a line, not too many."""
    x, y = np.asarray(line.x, float), np.asarray(line.y, float)
    finite = np.isfinite(x) & np.isfinite(y) & (np.abs(y) < 1e30)
    x, y = x[finite], y[finite]
    chosen = np.unique(np.linspace(0, max(len(x) - 1, 0), min(len(x), MOST_POINTS)).astype(int))
    return x[chosen], y[chosen]


def _short(title: str, most: int = 44) -> str:
    return title if len(title) <= most else title[: most - 1] + "…"


# What is drawn.


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
            lines = [Line(passes, y, label, is_faint=True) for y in drawn[label]]
            title = f"{name}: {label}" if len(results) > 1 else name
            panel = Panel(title, "passes over the data", lines, ends)
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
            lines.append(Line(corners, np.repeat(density, 2), label))
        panels.append(Panel(name, "", lines))
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
                lines.append(Line([0, longest], [running[-1]] * 2, label, is_dashed=True))
                continue
            lines += [
                Line(passes, running, label),
                Line(passes, ensemble, label, is_faint=True),
            ]
        panels.append(Panel(f"held-out {name}", "passes over the data", lines))
    return panels


def _flat(result: Result) -> np.ndarray:
    """Return the draws of chains that did not diverge, shape (chain, draw, coordinate)."""
    position = np.asarray(result.samples.finite_draws)
    return position.reshape(*position.shape[:2], math.prod(position.shape[2:]))


def _passes(result: Result) -> np.ndarray:
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
