"""Figures of intervals as SVG, which stands in a page without another file."""

import math
import sys
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np


class IntervalLine(NamedTuple):
    """A line of a figure: its label, the median, and the ends of the 90 and 95 % intervals."""

    label: str
    median: float
    inner: tuple[float, float]
    outer: tuple[float, float]


def intervals(lines: Sequence[IntervalLine], axis: str, title: str, is_ratio: bool) -> str:
    """Return a figure of intervals below each other.

    Args:
        lines: the intervals. Those of ratios are of their logarithms.
        axis: what the axis shows.
        title: what the figure is, for readers who do not see it.
        is_ratio: whether numbers at the axis are e to the power of what is drawn.
    """
    # Pixels: the height of a line, and widths beside the axis and of all.
    row, right, width, most_letters = 22, 60, 900, 55
    left = 30 + 7 * min(most_letters, max(len(line.label) for line in lines))
    bottom = row * (len(lines) + 1)
    low = min(0.0, *(line.outer[0] for line in lines))
    high = max(0.0, *(line.outer[1] for line in lines))
    margin = 0.04 * (high - low) or 1.0
    low, high = low - margin, high + margin

    def across(value: float) -> str:
        return f"{left + (width - left - right) * (value - low) / (high - low):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 50}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>'
    ]
    for value, text in ticks(low, high, is_ratio):
        at = across(value)
        parts.append(
            f'<line class="grid" x1="{at}" x2="{at}" y1="{row // 2}" y2="{bottom}"/>'
            f'<text class="tick" x="{at}" y="{bottom + 16}">{text}</text>'
        )
    at = across(0.0)
    parts.append(f'<line class="none" x1="{at}" x2="{at}" y1="{row // 2}" y2="{bottom}"/>')
    for i, line in enumerate(lines, 1):
        y = row * i
        label = line.label
        if len(label) > most_letters:
            label = f"{label[: most_letters - 1]}…"
        parts.append(
            f'<text class="label" x="{left - 10}" y="{y + 4}">{escape(label)}</text>'
            f'<line class="outer" x1="{across(line.outer[0])}" x2="{across(line.outer[1])}" '
            f'y1="{y}" y2="{y}"/>'
            f'<line class="inner" x1="{across(line.inner[0])}" x2="{across(line.inner[1])}" '
            f'y1="{y}" y2="{y}"/>'
            f'<circle class="median" cx="{across(line.median)}" cy="{y}" r="4"/>'
        )
    middle = (left + width - right) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{bottom + 40}">{escape(axis)}</text></svg>')
    return "".join(parts)


def ticks(low: float, high: float, is_ratio: bool) -> list[tuple[float, str]]:
    """Return places on an axis and what stands there.

    Example:
        >>> [text for _, text in ticks(-1.0, 1.0, True)]
        ['0.5', '1', '2']
        >>> [text for _, text in ticks(-1.0, 1.0, False)]
        ['-1', '-0.5', '0', '0.5', '1']
    """
    if is_ratio:
        decades = range(math.floor(low / math.log(10)) - 1, math.ceil(high / math.log(10)) + 1)
        steps = (1,) if high - low > math.log(1e3) else (1, 2, 5)
        ratios = [(step, decade) for decade in decades for step in steps]
        places = [_ratio_tick(*ratio) for ratio in ratios]
        inside = [(at, text) for at, text in places if low <= at <= high]
        if len(inside) > 2:
            every = math.ceil(len(inside) / 9)
            return inside[::every]
        between = [value for value in _round(math.exp(low), math.exp(high)) if value > 0]
        return [(math.log(value), f"{value:.6g}") for value in between]
    return [(value, f"{value:.6g}") for value in _round(low, high)]


def _ratio_tick(step: int, decade: int) -> tuple[float, str]:
    """Return the logarithm of step · 10ᵈᵉᶜᵃᵈᵉ, and its text; the ratio may be no float."""
    if abs(decade) > sys.float_info.max_10_exp - 2:
        return math.log(step) + decade * math.log(10), f"{step}e{decade:+d}"
    ratio = step * 10.0**decade
    return math.log(ratio), f"{ratio:g}"


def _round(low: float, high: float) -> list[float]:
    """Return some five round numbers between two."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda times: abs(times * power - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = 2 - math.floor(math.log10(step))
    return [float(np.round(i * step, digits)) for i in range(first, last + 1)]
