"""Write the table of `docs/choosing.md`: accuracy, cost and memory of each method, measured
elsewhere.

`python -m benchmarks.pages.choosing` after any of `benchmarks.pages.bias`,
`benchmarks.pages.posteriors` and `benchmarks.cost.method`.
"""

import json
from pathlib import Path
from typing import Any

import ewsg_jax as ewsg
from benchmarks.pages import bias_page
from benchmarks.pages.generated import as_table, renewed
from benchmarks.pages.posterior_runs import load
from benchmarks.pages.posterior_verdicts import judge, reference

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "choosing.md"
COSTS = Path(__file__).parents[1] / "results" / "method_cost.json"


def bias(method: str, laws: dict[str, Any]) -> tuple[str, str]:
    """Return the bias of the variance on the regression model, with its order, and the passes for 1
    % of bias.
    """
    for entry in laws.values():
        if (
            entry["model"] != "regression"
            or entry["method"] != method
            or entry["b"] not in (0, 1, 2)
        ):
            continue
        found = entry["laws"]
        if "0.125" not in found:
            return "none", f"{next(iter(found.values()))['passes']:.3g}" if found else "–"
        order = entry.get("orders", {}).get("variance")
        text = bias_page.percent(found["0.125"]["variance"]) + (
            f", h{_power(order)}" if order else ""
        )
        simulated = entry["way"] == "simulated"
        return text + (
            " (simulated)" if simulated else ""
        ), "" if simulated else bias_page.passes_at_tolerance(found)
    raise KeyError(
        f"docs/bias.json has no entry of {method}: run python -m benchmarks.pages.bias {method}"
    )


def real(method: str, measured: dict[str, Any]) -> str:
    """Return on how many real posteriors the criterion holds, and the largest error of a standard
    deviation.
    """
    cells = measured["cells"].get(method, {})
    verdicts = [judge(cell, reference(name)) for name, cell in cells.items()]
    if not verdicts:
        return "–"
    worst = max(float(abs(verdict.spread).max()) for verdict in verdicts)
    return f"{sum(verdict.passes for verdict in verdicts)} of {len(verdicts)}, {100 * worst:.1f} %"


def time(method: str, rows: list[dict[str, Any]]) -> str:
    """Return the time of a step over SGLD's, with one chain and with a hundred."""
    if method == "sgld":
        return "1, 1"
    found = {
        row["num_chains"]: row["measured"]["median"]
        for row in rows
        if row["method"] == method and row["other"] == "sgld"
    }
    return f"{found[1]:.1f}, {found[100]:.1f}" if found else "–"


def table() -> str:
    """Return the Markdown table."""
    laws = json.loads((DOCS / "bias.json").read_text())
    measured, costs = load(), json.loads(COSTS.read_text())["results"]
    heads = [
        "method",
        "Var off at h = 1/8",
        "passes at 1 %",
        "real posteriors",
        "∇Vᵢ a step",
        "time",
        "memory",
    ]
    rows = []
    for name, method in ewsg.METHODS.items():
        off, passes = bias(name, laws)
        cells = [
            off,
            passes,
            real(name, measured),
            method.evaluations,
            time(name, costs),
            method.memory,
        ]
        rows.append([f"`{name}`", *cells, method.hazard])
    return as_table([*heads, "what can go wrong"], rows)


def page(text: str) -> str:
    """Return the page with its table renewed."""
    return renewed(text, "methods", "benchmarks/pages/choosing.py", table())


def _power(order: float) -> str:
    nearest = round(order)
    return {1: "", 2: "²", 3: "³"}[nearest] if abs(order - nearest) < 0.25 else f"^{order:.1f}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
