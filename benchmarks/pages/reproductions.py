"""The papers' experiments as they are stored: a part of `docs/reproduction.md`.

python -m benchmarks.pages.reproductions
"""

import itertools
from typing import Any

from benchmarks.pages.checks import DOCS
from benchmarks.pages.generated import as_table, renewed
from benchmarks.papers.command import EXPERIMENTS, spelled
from benchmarks.papers.running import PICTURE, stored
from benchmarks.papers.sizes import size_of

PAGE, SCRIPT = DOCS / "reproduction.md", "benchmarks/pages/reproductions.py"


def section(name: str, result: dict[str, Any]) -> str:
    """Return what is told of an experiment."""
    experiment, is_quick = EXPERIMENTS[name], result["scale"] == "quick"
    lines = [
        f"## {experiment.source}: {experiment.question}",
        "",
        f"`python -m ewsg_jax reproduce {name}{'' if is_quick else ' --scale full'}` "
        f"({spelled(result['seconds'])}, {result['evaluations']:.2g} gradients): "
        f"**{result['verdict']}**. Size: {size_of(name, result['config'], result['scale'])}.",
        "",
        chosen(result["config"]),
        "",
        f"![{experiment.question}](../configs/results/{name}/{PICTURE})",
        "",
        *claims([each for each in result["claims"] if "beside" not in each], "**"),
    ]
    if beside := [each for each in result["claims"] if "beside" in each]:
        lines += ["", "Beside it:", "", *claims(beside, "")]
    return "\n".join(lines)


def chosen(config: str) -> str:
    """Return what a configuration says before its first table: what the paper leaves open, and what
    was cut.
    """
    first = itertools.takewhile(lambda line: line.startswith("#"), config.splitlines())
    text = " ".join(line.removeprefix("#").strip() for line in first)
    # Where files were when these ran.
    return text.replace("ewsg_jax/reproduction/", "benchmarks/papers/").replace(
        "/digits.py", "/mnist.py"
    )


def claims(found: list[dict[str, Any]], mark: str) -> list[str]:
    """Return a line for each claim; numbers that the one before has too are not told again."""
    lines, last = [], None
    for each in found:
        shown = "the same" if each["shown"] == last else each["shown"]
        lines.append(f"- {each['claim']}: {mark}{each['verdict']}{mark} ({shown}).")
        last = each["shown"]
    return lines


def summary(results: dict[str, dict[str, Any]]) -> str:
    """Return the table of verdicts."""
    rows = [
        [
            f"`{name}`",
            EXPERIMENTS[name].source,
            result["verdict"],
            size_of(name, result["config"], result["scale"]),
        ]
        for name, result in results.items()
    ]
    return as_table(["experiment", "of", "what it claims", "size"], rows)


def page(text: str) -> str:
    """Return the page with what is stored."""
    results = {name: result for name in EXPERIMENTS if (result := stored(name)) is not None}
    parts = [section(*each) for each in results.items()]
    text = renewed(text, "verdicts", SCRIPT, summary(results))
    return renewed(text, "experiments", SCRIPT, "\n\n".join(parts))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
