"""The papers' experiments as they are stored: a part of `docs/reproduction.md`.

python -m benchmarks.pages.reproductions
"""

from typing import Any

from benchmarks.pages.checks import DOCS
from benchmarks.pages.generated import renewed
from ewsg_jax.reproduction.command import spelled
from ewsg_jax.reproduction.registry import EXPERIMENTS
from ewsg_jax.reproduction.running import PICTURE
from ewsg_jax.reproduction.settings import stored

PAGE = DOCS / "reproduction.md"


def section(name: str, result: dict[str, Any]) -> str:
    """Return what is told of an experiment."""
    experiment = EXPERIMENTS[name]
    scale = "" if result["scale"] == "quick" else " --scale full"
    claims = [each for each in result["claims"] if "beside" not in each]
    beside = [each for each in result["claims"] if "beside" in each]
    lines = [
        f"## {experiment.source}: {experiment.question}",
        "",
        f"`python -m ewsg_jax reproduce {name}{scale}` ({spelled(result['seconds'])}, "
        f"{result['evaluations']:.2g} gradients): **{result['verdict']}**.",
        "",
        f"![{experiment.question}](../configs/results/{name}/{PICTURE})",
        "",
        *(f"- {each['claim']}: **{each['verdict']}** ({each['shown']})." for each in claims),
        *(["", "Beside it:", ""] if beside else []),
        *(f"- {each['claim']}: {each['verdict']} ({each['shown']})." for each in beside),
    ]
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with what is stored."""
    parts = [section(name, result) for name in EXPERIMENTS if (result := stored(name)) is not None]
    return renewed(text, "experiments", "benchmarks/pages/reproductions.py", "\n\n".join(parts))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
