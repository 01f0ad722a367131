"""Draw `docs/scaling.png`: how the time of a step grows, beside the lines that the theory tells.

`python -m benchmarks.pages.scaling` after `python -m benchmarks.cost.scaling`. It needs matplotlib.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from benchmarks.cost.scaling import AXES, line
from benchmarks.pages import figures
from benchmarks.record import RESULTS

NUMBERS = RESULTS / "scaling.json"
PICTURE = Path(__file__).parents[2] / "docs" / "scaling.png"
TITLES = {
    "n": "rows n",
    "b": "batch size b",
    "d": "columns d",
    "chains": "chains C",
    "M": "chain length M, EWSG",
}


def draw(result: dict[str, Any]) -> Figure:
    """Draw a panel for each quantity: medians, quartiles and the theory's line."""
    rows = result["results"]
    figure = figures.figure(2.4 * len(rows), 2.9)
    for axis, row in zip(np.atleast_1d(figure.subplots(1, len(rows))), rows, strict=True):
        values = np.array(row["values"], float)
        median, lower, upper = (
            np.array([x[k] for x in row["microseconds"]]) for k in ("median", "lower", "upper")
        )
        grid = np.geomspace(values[0], values[-1], 100)
        told = [line(AXES[row["quantity"]], row["factors"], x) for x in grid]
        axis.plot(grid, told, color="#888888", lw=1.2, label=row["theory"])
        axis.errorbar(
            values, median, [median - lower, upper - median], fmt="o", ms=4.5, color="#0072B2", lw=1
        )
        axis.set(xscale="log", yscale="log", xlabel=TITLES[row["quantity"]])
        highest = max(upper.max(), max(told))
        lowest = min(lower.min(), min(told))
        middle = (highest * lowest) ** 0.5
        reach = (
            max(highest / middle, 3.5) * 1.15
        )  # a decade at the least: noise is not to look like a slope
        axis.set_ylim(middle / reach, middle * reach)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, lw=0.5)
        axis.legend(frameon=False, loc="upper left", fontsize=9)
    figure.axes[0].set_ylabel("µs per step and chain")
    return figure


def caption(result: dict[str, Any]) -> str:
    """Return in one sentence what the picture shows."""
    told = []
    for row in result["results"]:
        told.append(
            f"{TITLES[row['quantity']]}: × {min(row['over_theory']):.2f} to "
            f"{max(row['over_theory']):.2f}"
        )
    return f"Time of a step over the line that the theory tells. {'; '.join(told)}."


def main() -> None:
    """Write the picture and print its caption."""
    result = json.loads(NUMBERS.read_text())
    figures.write(draw(result), PICTURE, caption(result))
    print(caption(result))


if __name__ == "__main__":
    main()
