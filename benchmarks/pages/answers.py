"""Draw `docs/answers.png` and write the table of `docs/plan.md` of what `benchmarks/answers.py` stored.

`python -m benchmarks.answers --draw` makes both.
"""

import io
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from benchmarks.answers_cases import CASES

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE = DOCS / "plan.md", DOCS / "answers.png"
BEGIN, END = "<!-- answers: made by benchmarks/answers.py -->", "<!-- /answers -->"
KINDS = {
    "ours": ("laplace", "laplace, corrected", "plan, no chain", "plan and sample", "plan, sample, check"),
    "full gradients, ours": ("full gradients",),
}
COLOURS = {"ours": "#0072B2", "full gradients, ours": "#56B4E9", "other libraries": "#D55E00"}


def kind(name: str) -> str:
    """Return whose answer it is."""
    return next((kind for kind, names in KINDS.items() if name in names), "other libraries")


def costs(cell: dict[str, Any]) -> tuple[float, float]:
    """Return seconds and passes, those that it would have taken where the time was over."""
    told = cell.get("extrapolated", cell)
    return told["seconds"], told["passes"]


def table(result: dict[str, Any]) -> str:
    """Return the table of the page: ~ before what is extrapolated, > before what had not ended."""
    lines = [
        "| data | answer | worst mean | worst sd | seconds | passes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for case in ordered(result):
        for name, cell in result["cases"][case].items():
            seconds, passes = costs(cell)
            mark, off = "~" if "extrapolated" in cell else "", "no answer | "
            if "worst_mean" in cell:
                off = f"{cell['worst_mean']:.3f} sd | {100 * cell['worst_sd']:.1f} %"
            else:
                mark = "> "
            lines.append(f"| {CASES[case].title} | {name} | {off} | {mark}{seconds:,.0f} | {mark}{passes:,.0f} |")
    return "\n".join(lines)


def ordered(result: dict[str, Any]) -> list[str]:
    """Return the cases that there are, in the order of the page."""
    return [case for case in CASES if case in result["cases"]]


def draw(result: dict[str, Any]) -> Figure:
    """Draw the worst error of each answer against its seconds and its passes, a column for each case."""
    cases = ordered(result)
    figure = Figure(figsize=(3.1 * len(cases), 6.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(cases), sharey=True, squeeze=False)
    for column, case in enumerate(cases):
        cells = {name: cell for name, cell in result["cases"][case].items() if "worst_mean" in cell}
        for row, unit in enumerate(("seconds", "passes")):
            axis = panels[row][column]
            _panel(axis, {name: (costs(cell)[row], _error(cell)) for name, cell in cells.items()})
            axis.set_xlabel(unit)
        panels[0][column].set_title(CASES[case].title, fontsize=9)
    for row in panels:
        row[0].set_ylabel("worst error: mean in sds, or sd")
    marks = [
        panels[0][0].plot([], [], "o", ms=5, color=colour, label=label)[0] for label, colour in COLOURS.items()
    ]
    figure.legend(handles=marks, frameon=False, loc="outside upper center", ncols=len(marks))
    return figure


def _error(cell: dict[str, Any]) -> float:
    return max(cell["worst_mean"], cell["worst_sd"])


def _panel(axis: Axes, points: dict[str, tuple[float, float]]) -> None:
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.axhspan(1e-3, 0.1, color="#EEEEEE", lw=0)
    axis.set_ylim(0.01, 5)
    for number, (name, (cost, error)) in enumerate(points.items(), 1):
        colour, height = COLOURS[kind(name)], min(error, 4.5)
        axis.plot(cost, height, "o", ms=5, color=colour)
        axis.annotate(short(name), (cost, height), (4, 3 if number % 2 else -8), textcoords="offset points",
                      fontsize=6, color=colour)  # fmt: skip
    axis.margins(x=0.25)
    axis.grid(alpha=0.25, lw=0.5)
    axis.spines[["top", "right"]].set_visible(False)


def short(name: str) -> str:
    """Return an answer's name with fewer letters."""
    for long, brief in (
        ("BlackJAX", "BJ"),
        ("NumPyro", "NP"),
        (", control variates", ""),
        (", mass of the mode", "*"),
        ("full gradients", "full"),
        ("laplace, corrected", "laplace+check"),
        ("plan, sample, check", "plan+sample+check"),
        ("plan and sample", "plan+sample"),
    ):
        name = name.replace(long, brief)
    return name


def caption(result: dict[str, Any]) -> str:
    """Return in one sentence what the picture shows."""
    return (
        f"The worst error of each answer against its seconds and passes, {len(ordered(result))} posteriors; the "
        "grey band ends at a tenth. BJ: BlackJAX, NP: NumPyro; *: with the mode's covariance as the mass."
    )


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page's text with the table of this result."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(result)}\n{END}{rest.split(END)[1]}"


def write(result: dict[str, Any]) -> None:
    """Write the table, and the picture with few colours and its description inside."""
    PAGE.write_text(page(PAGE.read_text(), result))
    stream, notes = io.BytesIO(), PngInfo()
    draw(result).savefig(stream, dpi=110, format="png")
    notes.add_itxt("Description", caption(result))
    with Image.open(stream) as image:
        image.convert("RGB").quantize(48).save(PICTURE, optimize=True, pnginfo=notes)
