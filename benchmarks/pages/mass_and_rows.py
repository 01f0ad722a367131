"""Draw `docs/rare_rows.png` and write the numbers of `docs/mass_and_rows.md`, measured elsewhere.

`python -m benchmarks.pages.mass_and_rows` after `benchmarks.answers.rare_rows` or
`benchmarks.cost.parts`. It needs matplotlib.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.pages import figures
from benchmarks.pages.generated import as_table, renewed
from benchmarks.record import RESULTS

DOCS = Path(__file__).parents[2] / "docs"
PICTURE, PAGE = DOCS / "rare_rows.png", DOCS / "mass_and_rows.md"
NUMBERS, COSTS = RESULTS / "rare_rows.json", RESULTS / "parts_cost.json"
COLOURS = {"uniform": "#D55E00", "leverage": "#0072B2"}
STEP_SIZE = 0.012
QUANTITIES = 10
"""Columns of numbers, the first ones; the others are 0 or 1."""


def run(result: dict[str, Any], rows: str, step_size: float = STEP_SIZE) -> dict[str, Any]:
    """Return the run with these rows at this step."""
    (found,) = [r for r in result["runs"] if (r["rows"], r["step_size"]) == (rows, step_size)]
    return found


def order(result: dict[str, Any]) -> list[int]:
    """Return the columns in the order of the picture: those of 0 and 1, the rarest first, then the
    others.
    """
    indicators = range(QUANTITIES, len(result["columns"]) - 1)
    last = [*range(QUANTITIES), len(result["columns"]) - 1]
    return sorted(indicators, key=lambda j: result["rows_of_column"][j]) + last


def label(result: dict[str, Any], j: int) -> str:
    """Return a column's short name, and in how many rows it is."""
    name = result["columns"][j].replace("_Type", " ").replace("Wilderness_Area", "Area ")
    name = name.replace("Horizontal_Distance_To_", "To ").replace("Vertical_Distance_To_", "Above ")
    counted = QUANTITIES <= j < len(result["columns"]) - 1
    return (
        f"{name.replace('_', ' ')} ({result['rows_of_column'][j]:,})"
        if counted
        else name.replace("_", " ")
    )


def draw(result: dict[str, Any]) -> Figure:
    """Draw the standard deviation over the reference's of every column, under both laws of rows."""
    figure = figures.figure(11, 4.6)
    axis, columns = figure.subplots(), order(result)
    axis.axhline(1, color="#888888", lw=0.8)
    for rows, colour in COLOURS.items():
        ratio = np.array(run(result, rows)["sd_ratio"])[columns]
        marker = "o" if rows == "leverage" else "D"
        axis.plot(range(len(columns)), ratio, marker, ms=4.5, color=colour, label=f"rows: {rows}")
    axis.set_yscale("log")
    axis.set_ylim(0.8, 120)
    axis.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    axis.minorticks_off()
    axis.set_xlim(-1, len(columns))
    axis.set_xticks(
        range(len(columns)), [label(result, j) for j in columns], rotation=90, fontsize=7
    )
    axis.set_ylabel("sd of the run / sd of the posterior")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25, lw=0.5)
    axis.legend(frameon=False, loc="upper right")
    return figure


def caption(result: dict[str, Any]) -> str:
    """Return in one sentence what the picture shows."""
    uniform, leverage = (np.array(run(result, rows)["sd_ratio"]) for rows in COLOURS)
    worst = ", ".join(f"{x:.1f}" for x in sorted(uniform)[-3:])
    return (
        f"Standard deviations over the posterior's: with uniform rows the three worst × {worst}; "
        f"by leverage × {leverage.min():.2f} to {leverage.max():.2f}."
    )


def runs_table(result: dict[str, Any]) -> str:
    """Return what every run gave as Markdown."""
    heads = [
        "rows",
        "h",
        "sds, × the posterior's",
        "largest error of a mean, in sd",
        "R-hat",
        "least ESS",
        "`check` says",
        "its worst z",
        "seconds",
    ]
    rows = []
    for r in result["runs"]:
        ratio, off = r["sd_ratio"], max(map(abs, r["mean_off"]))
        found = f"{min(ratio):.2f} to {max(ratio):.2f}", f"{off:.3g}", f"{r['worst_rhat']:.3f}"
        said, worst = r["check"], max(r["check"]["worst"].values())
        told = said["outcome"], f"{worst:.1f} (Monte Carlo: {said['bound']:.1f})"
        rows.append(
            [r["rows"], r["step_size"], *found, f"{r['least_ess']:,}", *told, f"{r['seconds']:.0f}"]
        )
    return as_table(heads, rows)


def worst_table(result: dict[str, Any]) -> str:
    """Return the columns that uniform rows leave more than a tenth too wide, as Markdown."""
    uniform, leverage = (run(result, rows) for rows in COLOURS)
    of_uniform, of_leverage = "uniform rows: sd × the posterior's", "by leverage: × the posterior's"
    rows = []
    for j in sorted(range(len(uniform["sd_ratio"])), key=lambda j: -uniform["sd_ratio"][j]):
        if uniform["sd_ratio"][j] > 1.1:
            at_mode = (
                uniform["sd_ratio"][j] * result["reference"]["sd"][j] / result["sd_at_mode"][j]
            )
            found = (
                f"{uniform['sd_ratio'][j]:.3g}",
                f"{at_mode:.3g}",
                f"{leverage['sd_ratio'][j]:.3f}",
            )
            rows.append([result["columns"][j], f"{result['rows_of_column'][j]:,}", *found])
    return as_table(["column", "in rows", of_uniform, "× the mode's", of_leverage], rows)


def costs_table(costs: dict[str, Any]) -> str:
    """Return what a mass and rows by probability add to a step, as Markdown."""
    rows = []
    for row in costs["results"]:
        measured = row["measured"]
        times = f"{measured['median']:.2f} ({measured['lower']:.2f} to {measured['upper']:.2f})"
        rows.append([row["what"], times, f"{row['microseconds']['without']:.3g}"])
    return as_table(["what", "time of a step, ×", "without it, µs"], rows)


def page(text: str) -> str:
    """Return the page with its numbers renewed."""
    result, costs = (json.loads(path.read_text()) for path in (NUMBERS, COSTS))
    for name, table in (
        ("runs", runs_table(result)),
        ("worst", worst_table(result)),
        ("costs", costs_table(costs)),
    ):
        text = renewed(text, name, "benchmarks/pages/mass_and_rows.py", table)
    return text


if __name__ == "__main__":
    measured = json.loads(NUMBERS.read_text())
    figures.write(draw(measured), PICTURE, caption(measured))
    if PAGE.exists():
        PAGE.write_text(page(PAGE.read_text()))
    print(caption(measured))
