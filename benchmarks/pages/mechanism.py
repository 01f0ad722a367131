"""What exponential weights do: tables and figure of `docs/mechanism.md`, from numbers that are
stored.

python -m benchmarks.pages.mechanism
"""

import json
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.pages import bias_page, figures
from benchmarks.pages.checks import DOCS
from benchmarks.pages.generated import as_table, renewed
from benchmarks.papers.figures import COLOURS
from benchmarks.papers.running import stored

PAGE, PICTURE, LAWS = DOCS / "mechanism.md", DOCS / "mechanism.png", DOCS / "bias.json"
SCRIPT = "benchmarks/pages/mechanism.py"
METHODS = {
    "SGHMC": "sghmc, semi_implicit, b=1",
    "EWSG": "ewsg, semi_implicit, b=1",
    "EWSG-VR": "ewsg_vr, semi_implicit, b=1, K=1",
    "matrix friction": "nc_sghmc, semi_implicit, b=1, K=1",
}
SHOWN = ("0.5", "0.125", "0.03125", "0.00390625")


def minus(text: str) -> str:
    """Return a number's text with a minus sign for a hyphen, exponents left as they are."""
    return text.replace("-", "−") if "e" not in text else text


def of_steps(parts: dict[str, Any]) -> str:
    """Return what a step does, medians over data sets: energy, stiffening and push over their first
    orders.
    """
    runs = [part for name, part in parts.items() if name.startswith("mechanism")]
    steps = runs[0]["steps"]

    def row(words: str, name: str, of: str) -> list[str]:
        middle = [np.median([run["laws"][name][i][of] for run in runs]) for i in range(len(steps))]
        return [words, *(minus(f"{x + 0.0:.3f}") for x in middle)]

    laws = runs[0]["laws"]
    rows = [row(f"energy added / h² tr S: {name}", name, "heat") for name in laws]
    rows += [row(f"{of} / first order: M = 1", "M = 1", of) for of in ("stiffening", "push")]
    told = f"§5.1's Gaussian, n = 50, averaged over its target; medians of {len(runs)} data sets:"
    return f"{told}\n\n{as_table(['', *(f'h = {h:g}' for h in steps)], rows)}"


def of_signs(parts: dict[str, Any]) -> str:
    """Return E Δ over the trace of uniform rows."""
    signs, sparsity = parts["signs"], parts["sparsity"]
    rows = []
    for name, told in signs["points"].items():
        rows.append(
            [name, *(minus(f"{each['mean']:+.3g}") + f" ± {each['error']:.1g}" for each in told)]
        )
    law = "; ".join(
        f"{name}: {max(of['rows'])} rows, d = {of['d']}, {np.median(of['variance_ratio']):.1%} of "
        "the variance"
        for name, of in sparsity.items()
        if isinstance(of, dict)
    )
    heads = ["E Δ / tr S", *(f"h = {h:g}" for h in signs["steps"])]
    return f"{as_table(heads, rows)}\n\nThe optimal one of Theorem 4.1: {law}."


def of_laws(result: dict[str, Any]) -> str:
    """Return the biases of the stationary laws, and their leading terms."""
    heads = [
        "model",
        "method",
        *(f"Var, h = 1/{round(1 / float(h))}" for h in SHOWN),
        "mean, h = 1/32",
    ]
    rows = []
    for model in ("location", "regression"):
        for name, key in METHODS.items():
            entry = result[f"{model}, {key}"]
            laws, form = entry["laws"], entry["form"]
            cells = [
                bias_page.percent(laws[h]["variance"]) if h in laws else "not solved" for h in SHOWN
            ]
            ratio = (
                f"{bias_page.constant(laws, form['order']) / form['constant']:.4f}" if form else ""
            )
            mean = minus(f"{laws['0.03125']['mean'] + 0.0:+.4f}")
            rows.append([model, name, *cells, mean, form["text"] if form else "", ratio])
    return as_table([*heads, "leading term", "measured / typed"], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw the bias of the variance against the step."""
    figure = figures.figure(9, 3.4)
    for axis, model in zip(figure.subplots(1, 2), ("location", "regression"), strict=True):
        for colour, (name, key) in zip(COLOURS, METHODS.items(), strict=False):
            laws = result[f"{model}, {key}"]["laws"]
            steps = sorted(laws, key=float)
            values = [100 * laws[h]["variance"] for h in steps]
            axis.plot(
                [float(h) for h in steps], values, "o-", color=colour, markersize=3, label=name
            )
        axis.axhline(0, color="#888888", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_yscale("symlog", linthresh=0.2)
        axis.margins(y=0.08)
        axis.set(title=model, xlabel="h", ylabel="bias of Var θ (per cent)")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    return figure


def caption(result: dict[str, Any]) -> str:
    """Return in one sentence what the picture shows."""
    laws = {name: result[f"location, {key}"]["laws"]["0.03125"] for name, key in METHODS.items()}
    found = ", ".join(f"{name} {100 * law['variance']:+.2g} %" for name, law in laws.items())
    return f"Bias of the variance against the step, four methods; location, h = 1/32: {found}."


def page(text: str, parts: dict[str, Any], result: dict[str, Any]) -> str:
    """Return the page with its numbers renewed."""
    for name, new in (
        ("step", of_steps(parts)),
        ("signs", of_signs(parts)),
        ("law", of_laws(result)),
    ):
        text = renewed(text, name, SCRIPT, new)
    return text


def numbers() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is stored: the experiment's parts, and the stationary laws.

    Raises:
        FileNotFoundError: the experiment's result is not there.
    """
    found = stored("ewsg-theorems")
    if found is None:
        raise FileNotFoundError(
            "run python -m ewsg_jax reproduce ewsg-theorems first, and store its result"
        )
    return found["parts"], json.loads(LAWS.read_text())


if __name__ == "__main__":
    stored_parts, stored_laws = numbers()
    figures.write(draw(stored_laws), PICTURE, caption(stored_laws))
    PAGE.write_text(page(PAGE.read_text(), stored_parts, stored_laws))
