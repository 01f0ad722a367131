"""The table of `docs/check_errors.md`, from `benchmarks/results/check_errors.json`.

python -m benchmarks.pages.check_errors
"""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers.check_errors import DIMENSIONS, KINDS, LAWS, SIZES, stored
from benchmarks.pages.generated import as_table, renewed

PAGE = Path(__file__).parents[2] / "docs" / "check_errors.md"
TARGETS = (*(name for name in LAWS if name != "gumbel"), "hierarchical")
HEADS = (
    "target",
    "d",
    "draws",
    "kind",
    "beyond 3 errors",
    "worst",
    "error: sd, mean",
    "outcome",
    "corrected",
)


def cells() -> list[dict[str, Any]]:
    """Return the stored cells in the order of the table."""
    found = {(x["target"], x["d"], x["draws"], x["kind"]): x for x in stored()}
    keys = [(t, d, n, kind) for t in TARGETS for d in DIMENSIONS for n in SIZES for kind in KINDS]
    return [found[key] for key in keys if key in found]


def row(cell: dict[str, Any]) -> list[object]:
    """Return a row of the table."""
    outcomes = [f"{cell[name]} {name}" for name in ("right", "wrong", "unsure") if cell[name]]
    sd, mean = ("not known" if error > 1 else f"{error:.2g}" for error in cell["error"])
    return [
        cell["target"],
        cell["d"],
        f"{cell['draws']:,}",
        cell["kind"],
        f"{100 * max(cell['beyond_three']):.2g} %",
        f"{max(cell['worst']):.1f}",
        f"{sd}, {mean}",
        ", ".join(outcomes),
        f"{cell['corrected']} of {cell['seeds']}",
    ]


def summary(found: list[dict[str, Any]]) -> str:
    """Return in words what the table shows."""
    right = [cell for cell in found if cell["kind"] == "none"]
    wide = [cell for cell in found if cell["kind"] == "wide" and cell["draws"] == max(SIZES)]
    seeds = " or ".join(map(str, sorted({cell["seeds"] for cell in found})))
    runs = sum(cell["seeds"] for cell in found)

    def share(of: list[dict[str, Any]]) -> str:
        return f"{sum(cell['wrong'] for cell in of)} of {sum(cell['seeds'] for cell in of)}"

    beyond = np.array([cell["beyond_three"] for cell in found])
    worst = max(max(cell["worst"]) for cell in found)
    return (
        f"{len(found)} cells of {seeds} seeds (0, 1, …), {runs} sets of draws. In the worst cell "
        f"{100 * beyond.max():.2g} % of coordinates are beyond three errors, on average "
        f"{100 * beyond.mean():.2g} %. The worst is {worst:.1f} errors off. Sets called wrong: "
        f"{share(right)} of correct draws, and {share(wide)} of {max(SIZES):,} draws that are 10 % "
        "too wide."
    )


def page(text: str) -> str:
    """Return the page with its table."""
    found = cells()
    table = as_table(HEADS, [row(cell) for cell in found])
    return renewed(
        text, "errors", "benchmarks/pages/check_errors.py", f"{summary(found)}\n\n{table}"
    )


def main() -> None:
    """Write the table."""
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
