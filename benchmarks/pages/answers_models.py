"""Write the tables of `docs/answers.md` of the models, from what `benchmarks.answers` stored.

`python -m benchmarks.answers --draw` makes them.
"""

from typing import Any

from benchmarks.answers.models import MODELS
from benchmarks.pages.generated import as_table

ALONE, RAN, CHECKED = "plan, no chain", "plan and sample", "plan, sample, check"
HEADS = [
    "model",
    "plan + sample + check, seconds",
    "NUTS, seconds",
    "NUTS over ours",
    "CPU seconds",
    "worst mean",
    "worst sd",
    "least ESS",
    "check says",
    "programs",
]


def quicker(cells: dict[str, Any]) -> tuple[str, dict[str, Any], float] | None:
    """Return the name, the cell and the seconds of the NUTS that is sooner done; None where there
    is none.
    """
    found = {name: cell for name, cell in cells.items() if name.startswith("NumPyro NUTS")}
    seconds = {name: cell.get("extrapolated", cell)["seconds"] for name, cell in found.items()}
    ended = [name for name in found if "worst_mean" in found[name] or "extrapolated" in found[name]]
    if not ended:
        return None
    best = min(ended, key=seconds.__getitem__)
    return best, found[best], seconds[best]


def times(ratio: float) -> str:
    """Return a ratio in two digits, of large ones the whole number."""
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:,.0f}"


def table(result: dict[str, Any]) -> str:
    """Return the table: ~ before what is extrapolated or estimated."""
    rows = []
    for name in ordered(result):
        cells = result["cases"][name]
        ran, checked, nuts = cells[RAN], cells[CHECKED], quicker(cells)
        parts, said = checked["parts"], checked["outcome"]
        ours = " + ".join(f"{parts[part]:.1f}" for part in ("plan", "sample", "check"))
        theirs, cpu = ["none ended", ""], f"ours {sum(checked['cpu'].values()):,.0f}"
        if nuts is not None:
            which, cell, seconds = nuts
            mark = "~" if "extrapolated" in cell else ""
            theirs = [
                f"{mark}{seconds:,.0f} ({which.split(', ')[1]})",
                f"{mark}{times(seconds / checked['seconds'])}",
            ]
            cpu += f", NUTS {sum(cell['cpu'].values()):,.0f}" if "cpu" in cell and not mark else ""
        off = f"{ran['worst_mean']:.3f} sd", f"{100 * ran['worst_sd']:.1f} %"
        said = said if checked["is_trusted"] else f"{said}; plan not trusted"
        programs = " + ".join(
            str(checked["programs"][part]) for part in ("plan", "sample", "check")
        )
        title = MODELS[name].title
        rows.append(
            [
                title,
                f"{ours} = {checked['seconds']:.1f}",
                *theirs,
                cpu,
                *off,
                f"{ran['least_ess']:,.0f}",
                said,
                programs,
            ]
        )
    return as_table(HEADS, rows)


def alone(result: dict[str, Any]) -> str:
    """Return the table of models whose moments need no chain, for the plan knows them."""
    rows = []
    for name in ordered(result):
        cells = result["cases"][name]
        if ALONE not in cells:
            continue
        found, nuts = cells[ALONE], quicker(cells)
        ratio = "" if nuts is None else times(nuts[2] / found["seconds"])
        off = f"{found['worst_mean']:.3f} sd", f"{100 * found['worst_sd']:.1f} %"
        rows.append([MODELS[name].title, f"{found['seconds']:.1f}", ratio, *off])
    return as_table(["model", "plan, seconds", "NUTS over it", "worst mean", "worst sd"], rows)


def better(result: dict[str, Any]) -> str:
    """Return in a sentence for which models NUTS was done sooner, and for which later."""
    sooner, later = [], []
    for name in ordered(result):
        cells = result["cases"][name]
        nuts = quicker(cells)
        is_sooner = nuts is not None and nuts[2] < cells[CHECKED]["seconds"]
        (sooner if is_sooner else later).append(MODELS[name].title)
    said = [
        f"{which} for {'; '.join(titles)}."
        for which, titles in (
            ("NUTS is the quicker tool", sooner),
            ("The plan is the quicker tool", later),
        )
        if titles
    ]
    return " ".join(said)


def references(stored: dict[str, Any]) -> str:
    """Return the table of references: what they are of, and how far apart the two runs
    of each are.
    """
    rows = []
    for name, case in MODELS.items():
        if name in stored:
            found = stored[name]
            apart = f"{found['means_apart']:.3f} sd", f"{100 * found['sds_apart']:.1f} %"
            ess = ", ".join(f"{ess:,}" for ess in found["ess"])
            off = found.get("log_density_off", "")
            rows.append([case.title, found["of"], ess, *apart, f"{off:.2g}" if off else ""])
    heads = [
        "model",
        "two runs",
        "least ESS of each",
        "means apart",
        "sds apart",
        "log density off by",
    ]
    return as_table(heads, rows)


def ordered(result: dict[str, Any]) -> list[str]:
    """Return the models that there are, in the order of the page."""
    return [name for name in MODELS if CHECKED in result["cases"].get(name, {})]
