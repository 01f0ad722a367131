"""Panels as SVG that stands in a page: its texts and axes have the page's colours, light or dark.

Lines have the classes `c0`, `c1`, …, which the page gives a colour each.
"""

import html
import math
from collections.abc import Sequence

import numpy as np

from ewsg_jax.experiments.figures import Line, Panel, numbers

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
MARGIN = 0.05
"""Of an axis, on both sides of what is drawn."""


def svg(panel: Panel, labels: Sequence[str]) -> str:
    """Return a panel as an SVG element, its axes linear.

    Args:
        panel: what is drawn.
        labels: those of all runs; the place of a line's own gives its colour.

    Example:
        >>> svg(Panel("a", "x", "y", [Line("", [0, 1], [0, 1], of="m")]), ["m"])[:5]
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
        colour = labels.index(line.of) % NUM_COLOURS
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
    x, y = numbers(line.x), numbers(line.y)
    finite = np.isfinite(x) & np.isfinite(y) & (np.abs(y) < 1e30)
    x, y = x[finite], y[finite]
    chosen = np.unique(np.linspace(0, max(len(x) - 1, 0), min(len(x), MOST_POINTS)).astype(int))
    return x[chosen], y[chosen]


def _short(title: str, most: int = 44) -> str:
    return title if len(title) <= most else title[: most - 1] + "…"
