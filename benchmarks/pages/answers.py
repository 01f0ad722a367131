"""Draw `docs/answers.png` and write the tables of `benchmarks.answers` in `docs/answers.md` and
README.md.

`python -m benchmarks.answers --draw` makes them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.answers.case import Regression
from benchmarks.answers.cases import CASES
from benchmarks.answers.judged import REFERENCES
from benchmarks.pages import answers_models, figures
from benchmarks.pages.generated import as_table, renewed

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE, README = DOCS / "answers.md", DOCS / "answers.png", DOCS.parent / "README.md"
STYLES = {
    "laplace": ("o", "#0072B2"),
    "laplace, corrected": ("s", "#0072B2"),
    "plan, no chain": ("^", "#0072B2"),
    "plan and sample": ("D", "#0072B2"),
    "plan, sample, check": ("*", "#0072B2"),
    "full gradients": ("v", "#56B4E9"),
    "laplace, PSIS": ("o", "#009E73"),
    "BlackJAX Pathfinder, PSIS": ("s", "#009E73"),
    "NumPyro NUTS": ("o", "#D55E00"),
    "NumPyro NUTS, mass of the mode": ("s", "#D55E00"),
    "NumPyro HMCECS": ("^", "#D55E00"),
    "BlackJAX NUTS": ("o", "#CC79A7"),
    "BlackJAX NUTS, mass of the mode": ("s", "#CC79A7"),
    "BlackJAX SGLD, control variates": ("^", "#CC79A7"),
    "BlackJAX SGHMC, control variates": ("v", "#CC79A7"),
}
"""Marker and colour: blue are ours, the last nine are what other libraries offer."""
PEERS = frozenset(list(STYLES)[6:])
OURS, USABLE = "plan and sample", 0.15
"""What peers are compared with, and how far off they may be: at an ESS of 1,000 chance makes a
tenth of it.
"""
SHOWN = ("protein", "eeg", "covertype_46", "irt", "softmax", "groups_c", "groups_n")
"""Regressions and models of the README's table."""
LOWEST, HIGHEST = 0.005, 5.0


def costs(cell: dict[str, Any]) -> tuple[float, float]:
    """Return seconds and passes, those that it would have taken where the time was over."""
    told = cell.get("extrapolated", cell)
    return told["seconds"], told["passes"]


def table(result: dict[str, Any]) -> str:
    """Return the table of the page: ~ before what is extrapolated, > before what had not ended."""
    rows = []
    for case in ordered(result):
        cells = result["cases"][case]
        for name, cell in sorted(cells.items(), key=lambda item: list(STYLES).index(item[0])):
            seconds, passes = costs(cell)
            mark, off = "~" if "extrapolated" in cell else "", ("no answer", "")
            if "worst_mean" in cell:
                off = f"{cell['worst_mean']:.3f} sd", f"{100 * cell['worst_sd']:.1f} %"
            else:
                mark = "> "
            paid = f"{mark}{seconds:,.0f}", cell.get("cores", ""), f"{mark}{passes:,.0f}"
            rows.append([CASES[case].title, name, *off, *paid])
    return as_table(
        ["data", "answer", "worst mean", "worst sd", "seconds", "cores", "passes"], rows
    )


def times(result: dict[str, Any]) -> str:
    """Return the table of what peers take over what "plan and sample" does, where they came to an
    answer at all.
    """
    heads = [
        "data",
        "faster NUTS, seconds",
        "the same, passes",
        "full gradients, seconds",
        "fewest passes of a peer",
    ]
    rows, fewest = [], []
    for case in compared(result):
        cells = result["cases"][case]
        ours = costs(cells[OURS])
        right = {
            name: costs(cell) for name, cell in cells.items() if name in PEERS and _is_answer(cell)
        }
        nuts = {name: cost for name, cost in right.items() if " NUTS" in name}
        told = ["none", "none"]
        if nuts:
            name, cost = min(nuts.items(), key=lambda item: item[1][0])
            told = [f"{_times(cost[0] / ours[0])} ({name})", _times(cost[1] / ours[1])]
        name, (_, passes) = min(right.items(), key=lambda item: item[1][1])
        full = cells.get("full gradients", {})
        of_full = _times(costs(full)[0] / ours[0]) if _is_answer(full) else "none"
        fewest.append(passes / ours[1])
        rows.append([CASES[case].title, *told, of_full, f"{_times(fewest[-1])} ({name})"])
    return f"{as_table(heads, rows)}\n| median | | | | {_times(float(np.median(fewest)))} |"


def summary(result: dict[str, Any]) -> str:
    """Return the README's table: "plan and sample" beside the faster NUTS, each with its cost and
    its worst sd.
    """
    heads = ["data", "`plan` and `sample`", "worst sd", "NUTS", "worst sd"]
    rows = []
    for case in SHOWN:
        cells = result["cases"][case]
        nuts = [cell for name, cell in cells.items() if " NUTS" in name and _is_answer(cell)]
        found = [cells[OURS], *sorted(nuts, key=costs)[:1]]
        told = [text for cell in found for text in (_cost(cell), f"{100 * cell['worst_sd']:.1f} %")]
        rows.append([CASES[case].title, *told])
    return as_table(heads, rows)


def _cost(cell: dict[str, Any]) -> str:
    seconds, passes = costs(cell)
    return f"{'~' if 'extrapolated' in cell else ''}{seconds:,.0f} s, {passes:,.0f} passes"


def _is_answer(cell: dict[str, Any]) -> bool:
    return max(cell.get("worst_mean", np.inf), cell.get("worst_sd", np.inf)) < USABLE


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 10 else f"{ratio:,.0f} times"


def ordered(result: dict[str, Any]) -> list[str]:
    """Return the regressions that there are, in the order of the page."""
    return [
        name
        for name, case in CASES.items()
        if name in result["cases"] and isinstance(case, Regression)
    ]


def draw(result: dict[str, Any]) -> Figure:
    """Draw the worst error of each answer against its seconds and its passes, where there are
    peers' too.
    """
    cases = compared(result)
    figure = figures.figure(2.5 * len(cases) + 2.3, 5.4)
    panels = figure.subplots(2, len(cases), sharey=True, squeeze=False)
    for column, case in enumerate(cases):
        for row, unit in enumerate(("seconds", "passes")):
            axis = panels[row][column]
            axis.set(xscale="log", yscale="log", ylim=(LOWEST, HIGHEST), xlabel=unit)
            axis.axhspan(LOWEST, 0.1, color="#EEEEEE", lw=0)
            for name, cell in result["cases"][case].items():
                if "worst_mean" in cell:
                    error = np.clip(
                        max(cell["worst_mean"], cell["worst_sd"]), 1.1 * LOWEST, HIGHEST / 1.1
                    )
                    marker, colour = STYLES[name]
                    axis.plot(
                        costs(cell)[row],
                        error,
                        marker,
                        ms=6,
                        color=colour,
                        alpha=0.85,
                        mec="white",
                        mew=0.4,
                    )
            axis.grid(alpha=0.25, lw=0.5)
            axis.spines[["top", "right"]].set_visible(False)
        panels[0][column].set_title(CASES[case].title, fontsize=9)
    for row in panels:
        row[0].set_ylabel("worst error")
    marks = [
        panels[0][0].plot([], [], marker, ms=6, color=colour, label=name)[0]
        for name, (marker, colour) in STYLES.items()
    ]
    figure.legend(handles=marks, frameon=False, loc="outside right center", fontsize=8)
    return figure


def compared(result: dict[str, Any]) -> list[str]:
    """Return the cases for which other libraries were asked."""
    return [case for case in ordered(result) if PEERS & result["cases"][case].keys()]


def caption(result: dict[str, Any]) -> str:
    """Return in one sentence what the picture shows."""
    return (
        "The worst error (of a mean in sds, of an sd relatively) of each answer against its "
        f"seconds and passes on {len(compared(result))} posteriors: ours in blue; the grey band "
        "ends at a tenth."
    )


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page's text with the tables of this result."""
    parts = {
        "answers": table(result),
        "times": times(result),
        "models": f"{answers_models.table(result)}\n\n{answers_models.better(result)}",
        "alone": answers_models.alone(result),
        "references": answers_models.references(json.loads(REFERENCES.read_text())),
    }
    for name, made in parts.items():
        text = renewed(text, name, "benchmarks/answers/command.py", made)
    return text


def readme(text: str, result: dict[str, Any]) -> str:
    """Return the README's text with the table of this result."""
    return renewed(text, "answers", "benchmarks/answers/command.py", summary(result))


def write(result: dict[str, Any]) -> None:
    """Write the tables, and the picture with few colours and its description inside."""
    PAGE.write_text(page(PAGE.read_text(), result))
    README.write_text(readme(README.read_text(), result))
    figures.write(draw(result), PICTURE, caption(result))
