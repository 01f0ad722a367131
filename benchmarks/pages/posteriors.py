"""Measure every named method on posteriors of real data and write the tables of
`docs/posteriors.md`.

`EWSG_JAX_DATA=… python -m benchmarks.pages.posteriors` runs all; `--only sgld,ewsg` and
`--posteriors pima` run a part, whose numbers replace those in `docs/posteriors.json`; `--table`
only writes the page anew from that file. It needs scikit-learn. The references,
`tests/references/*.json`, are made once by `benchmarks/answers/make_references.py`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages.generated import as_table, renewed
from benchmarks.pages.posterior_data import MODELS, PREPARE
from benchmarks.pages.posterior_runs import load, measure
from benchmarks.pages.posterior_settings import METHODS
from benchmarks.pages.posterior_verdicts import REFERENCES, judge, reference

PAGE = Path(__file__).parents[2] / "docs" / "posteriors.md"


def posteriors_table(result: dict[str, Any]) -> str:
    """Return what each posterior is, and how well its reference is known."""
    rows = []
    for name in PREPARE:
        stored = json.loads((REFERENCES / f"{name}.json").read_text())
        known = reference(name)
        batches = {
            cells[name]["batch_size"] for cells in result["cells"].values() if name in cells
        } - {None}
        rows.append(
            [
                name,
                MODELS[name],
                f"{stored['data']['rows']}",
                f"{len(known.mean)}",
                ", ".join(map(str, sorted(batches))),
                "posteriordb" if "posteriordb" in stored["how"]["sampler"] else "NUTS",
                f"{100 * np.max(known.mcse_mean / known.sd):.1f} %",
                f"{100 * np.max(known.mcse_sd / known.sd):.1f} %",
            ]
        )
    heads = [
        "posterior",
        "model",
        "n",
        "d",
        "b",
        "reference",
        "its error of a mean, in sd",
        "of an sd",
    ]
    return as_table(heads, rows)


def results_table(result: dict[str, Any]) -> str:
    """Return the largest errors of each method on each posterior, and whether the
    criterion holds.
    """
    rows = []
    for method, cells in sorted_methods(result):
        row = [f"`{method}`"]
        for name in PREPARE:
            if name not in cells:
                row.append("–")
                continue
            verdict = judge(cells[name], reference(name))
            text = f"{np.max(verdict.errors):.1f}, {100 * np.max(np.abs(verdict.spread)):.1f} %"
            lost = cells[name]["lost_chains"] + cells[name]["overflows"]
            text += f", {lost} chains lost" if lost else ""
            row.append(text if verdict.passes else f"**fails: {text}**")
        rows.append(row)
    return as_table(["method", *PREPARE], rows)


def settings_table(result: dict[str, Any]) -> str:
    """Return the step size of each method, the evaluations of each chain and the seconds of all."""
    rows = []
    for method, cells in sorted_methods(result):
        steps = [cell["step_size"] for cell in cells.values()]
        low, high = f"{min(steps):.3g}", f"{max(steps):.3g}"
        costs = [
            f"{cells[name]['evaluations_per_chain']:,}" if name in cells else "–"
            for name in PREPARE
        ]
        rows.append([f"`{method}`", low if low == high else f"{low} to {high}", *costs])
    return as_table(["method", "h", *PREPARE], rows)


def sorted_methods(result: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the measured methods in the order of the library's table."""
    order = list(METHODS)
    return sorted(
        result["cells"].items(),
        key=lambda item: order.index(item[0]) if item[0] in order else len(order),
    )


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with its tables renewed."""
    for name, made in (
        ("posteriors", posteriors_table),
        ("results", results_table),
        ("settings", settings_table),
    ):
        text = renewed(text, name, "benchmarks/pages/posteriors.py", made(result))
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(METHODS))
    parser.add_argument("--posteriors", default=",".join(PREPARE))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    for names, known in ((arguments.only, METHODS), (arguments.posteriors, PREPARE)):
        if unknown := set(names.split(",")) - set(known):
            parser.error(f"{', '.join(sorted(unknown))}: none of {', '.join(known)}")
    if not arguments.table:
        measure(arguments.only.split(","), arguments.posteriors.split(","))
    PAGE.write_text(page(PAGE.read_text(), load()))
