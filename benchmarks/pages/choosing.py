"""Write the table of `docs/choosing.md`: accuracy, cost and memory of each method, measured elsewhere.

`python -m benchmarks.pages.choosing` after any of `benchmarks.pages.bias`, `benchmarks.pages.posteriors` and
`benchmarks.method_cost`.
"""

import json
from pathlib import Path
from typing import Any

import ewsg_jax as ewsg
from benchmarks.pages import bias_page
from benchmarks.pages.posterior_runs import load
from benchmarks.pages.posterior_verdicts import judge, reference
from benchmarks.pages.posteriors import as_table

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "choosing.md"
COSTS = Path(__file__).parents[1] / "results" / "method_cost.json"
START, END = "<!-- methods: made by benchmarks/pages/choosing.py -->\n", "<!-- /methods -->"
WRONG = {
    "ld": "a pass buys one step",
    "uld": "a pass buys one step",
    "sgld": "heat h·Cov/2: far too wide on tall data at usual steps",
    "sghmc": "heat h·Cov/(2γ), the same",
    "ewsg": "skewed gradients move the mean, by order h",
    "ewsg_ld": "the same",
    "ewsg_vr": "counts the friction twice: too narrow; diverges where hΓ ≥ 2",
    "nc_sghmc": "diverges where hΓ ≥ 2; a dense Γ costs an eigendecomposition a step",
    "cp_sghmc": "no better than `sghmc` where clusters do not explain the gradients",
    "svrg_ld": "far from its anchor worse than no anchor; waits for full gradients",
    "saga_ld": "the table: n numbers a chain, or nd",
    "cv_ld": "worse than no centre where the posterior is wide or has several modes",
    "cv_uld": "the same",
    "svrg_hmc": "as `svrg_ld`",
    "saga_hmc": "as `saga_ld`",
    "svrg2nd_hmc": "as `svrg_ld`",
    "saga2nd_hmc": "as `saga_ld`",
    "sgnht": "θ too cold by order h at any batch; takes up noise on average over directions only",
    "psgld": "its law is not the posterior however small h, unless `correction=True`",
    "sgrld": "a metric must be known; its derivatives cost d passes of it",
    "hamcmc": "biased off Gaussians (d ≥ 2) however small h; diverges where `trust_region` is small",
    "random_walk_metropolis": "a pass a step, and some d steps to forget",
    "flymc": "needs a bound and its centre; slow where much is bright; overflow (reported)",
}
"""What can go wrong, in a few words; the docstrings say more."""


def bias(method: str, laws: dict[str, Any]) -> tuple[str, str]:
    """Return the bias of the variance on the regression model, with its order, and the passes for 1 % of bias."""
    for entry in laws.values():
        if entry["model"] != "regression" or entry["method"] != method or entry["b"] not in (0, 1, 2):
            continue
        found = entry["laws"]
        if "0.125" not in found:
            return "none", f"{next(iter(found.values()))['passes']:.3g}" if found else "–"
        order = entry.get("orders", {}).get("variance")
        text = bias_page.percent(found["0.125"]["variance"]) + (f", h{_power(order)}" if order else "")
        simulated = entry["way"] == "simulated"
        return text + (" (simulated)" if simulated else ""), "" if simulated else bias_page.passes_at_tolerance(
            found
        )
    raise KeyError(f"docs/bias.json has no entry of {method}: run python -m benchmarks.pages.bias {method}")


def real(method: str, measured: dict[str, Any]) -> str:
    """Return on how many real posteriors the criterion holds, and the largest error of a standard deviation."""
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
    heads = ["method", "Var off at h = 1/8", "passes at 1 %", "real posteriors", "∇Vᵢ a step", "time", "memory"]
    rows = []
    for name, method in ewsg.METHODS.items():
        off, passes = bias(name, laws)
        cells = [off, passes, real(name, measured), method.evaluations, time(name, costs), method.memory]
        rows.append([f"`{name}`", *cells, WRONG[name]])
    return as_table([*heads, "what can go wrong"], rows)


def page(text: str) -> str:
    """Return the page with its table renewed."""
    before, rest = text.split(START)
    return before + START + table() + END + rest.split(END)[1]


def _power(order: float) -> str:
    nearest = round(order)
    return {1: "", 2: "²", 3: "³"}[nearest] if abs(order - nearest) < 0.25 else f"^{order:.1f}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
