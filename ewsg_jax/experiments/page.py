"""The report of a run as one page of HTML, with its figures inside: for a browser, on a telephone
too, light or dark.

Figures are panels of what the runs gave, as SVG. Texts and axes have the page's colours; lines have
the classes `c0`, `c1`, …, which the page gives a colour each.
"""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.experiments import answer
from ewsg_jax.experiments.config import REFERENCE
from ewsg_jax.experiments.plan import Job, Result
from ewsg_jax.experiments.problem import Regression
from ewsg_jax.experiments.report import LEGEND, cells
from ewsg_jax.experiments.results import versions

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
MOST_LETTERS = 44
"""Of a title."""
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


def _short(title: str) -> str:
    return title if len(title) <= MOST_LETTERS else title[: MOST_LETTERS - 1] + "…"


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


# The page.

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1a1a1a; --soft: #595959; --line: #d0d0d0;
  --0: #0067a6; --1: #c25400; --2: #00805d; --3: #b0568c; --4: #946200; --5: #2b7fa8; --6: #333; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e6e6e6; --soft: #a8a8a8;
  --line: #40464c; --0: #56b4e9; --1: #ff9a4d; --2: #2fc79a; --3: #e39ac6; --4: #e8b93c;
  --5: #8fd0f5; --6: #ddd; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.4rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.answer p { margin: 0.4rem 0; } .answer p:first-of-type { font-weight: 600; }
.scroll { overflow-x: auto; } p, pre { max-width: 100%; }
table { border-collapse: separate; border-spacing: 0;
  font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--back); }
.soft, figcaption { color: var(--soft); font-size: 0.85rem; }
figure { margin: 1rem 0; }
.panels { display: grid; gap: 0.5rem;
  grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }
svg { width: 100%; height: auto; max-width: 26rem; font: 11px system-ui, sans-serif; }
svg text { fill: var(--soft); } svg .title { fill: var(--text); font-size: 12px; }
svg .x { text-anchor: middle; } svg .y { text-anchor: end; }
svg .frame, svg .tick { fill: none; stroke: var(--line); }
svg polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
svg .faint { stroke-width: 0.7; opacity: 0.65; } svg .dashed { stroke-dasharray: 5 4; }
.key { display: inline-block; width: 1.2em; height: 0.25em; margin: 0 0.35em 0.25em 0.8em; }
.keys span { white-space: nowrap; }
pre { overflow-x: auto; font-size: 0.8rem; }
summary { cursor: pointer; margin-top: 1rem; font-weight: 600; }
""" + "".join(
    f".c{i} {{ stroke: var(--{i}); }} .k{i} {{ background: var(--{i}); }}\n"
    for i in range(NUM_COLOURS)
)
CAPTIONS = {
    marginals: "Posterior densities of the weights with the largest mean beside their sd",
    traces: "Chains against passes over the data, of the first of these weights",
    held_out: "Held-out rows. Bold: the mean prediction of all draws so far; faint: of "
    "this draw of all chains",
}


def page(job: Job, results: Sequence[Result], said: Sequence[str], report: str) -> str:
    """Return the page, which begins with what is said in answer; `report` is `report.txt`."""
    drawn = [result for result in results if result.summary is not None]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(job.title)}</title><style>{STYLE}</style></head><body>",
        f'<h1>{html.escape(job.title)}</h1><div class="answer">{_lines(said)}</div>',
    ]
    if drawn:
        parts.append("<h2>Runs</h2>" + _table(_overview(drawn)))
        if job.problem.test is not None:
            parts.append(f'<p class="soft">{html.escape(LEGEND)}</p>')
        parts += [_weights(job.problem, result, len(drawn) == 1) for result in drawn]
        parts += [_figure(draw(drawn), words, drawn) for draw, words in CAPTIONS.items()]
    parts.append("<h2>What was sampled</h2>" + _lines([*job.problem.description, *job.answer]))
    with_versions = ", ".join(f"{name} {version}" for name, version in versions().items())
    parts += [
        _folded("The whole report", _pre(report)),
        _folded("The configuration", _pre(job.config)),
        f'<p class="soft">{with_versions}</p></body></html>',
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _overview(results: Sequence[Result]) -> list[list[str]]:
    """Return a table of all runs: what the check says, and numbers."""
    header, *rows = cells(results)
    said = [
        each.check.outcome if isinstance(each.check, ewsg.Report) else "unknown" for each in results
    ]
    return [
        [header[0], "check", *header[1:]],
        *([row[0], of, *row[1:]] for row, of in zip(rows, said, strict=True)),
    ]


def _weights(problem: Regression, result: Result, is_alone: bool) -> str:
    """Return a table of the weights of a run, and what its check says."""
    summary = result.summary
    assert summary is not None
    rows = answer.rows_of(problem, result.samples.finite_draws)
    by_name = dict(zip(summary.names, range(len(summary.names)), strict=True))
    table = [[*rows[0], "R-hat", "ESS", "MCSE"]]
    for row in rows[1:]:
        i = by_name.get(row[0])
        numbers = ["", "", ""]
        if i is not None:
            numbers = [
                f"{summary.rhat[i]:.3f}",
                f"{summary.ess_bulk[i]:,.0f}",
                f"{summary.mcse[i]:.2g}",
            ]
        table.append([*row, *numbers])
    called = "" if is_alone else f": {html.escape(result.plan.label)}"
    shown = _folded(f"Weights{called}", _table(table), is_alone)
    check = answer.for_terminals(str(result.check)) if isinstance(result.check, ewsg.Report) else ""
    return shown + (_folded(f"The check{called}", _pre(check)) if check else "")


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _table(rows: Sequence[Sequence[str]]) -> str:
    def line(row: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

    body = "".join(line(row, "td") for row in rows[1:])
    return f'<div class="scroll"><table>{line(rows[0], "th")}{body}</table></div>'


def _figure(panels: Sequence[Panel], words: str, results: Sequence[Result]) -> str:
    if not panels:
        return ""
    labels = [result.plan.label for result in results]
    keys = "".join(
        f'<span><span class="key k{i % NUM_COLOURS}"></span>{html.escape(label)}</span> '
        for i, label in enumerate(labels)
    )
    drawn = "".join(svg(panel, labels) for panel in panels)
    shown = f'<span class="keys">{keys}</span>' if len(labels) > 1 else ""
    caption = f"<figcaption>{words}. {shown}</figcaption>"
    return f'<figure>{caption}<div class="panels">{drawn}</div></figure>'


def _folded(title: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' * is_open}><summary>{title}</summary>{content}</details>"


def _pre(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"
