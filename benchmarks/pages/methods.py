"""Write the tables of methods in README.md and docs/methods.md from `ewsg_jax.METHODS`.

Run `python -m benchmarks.pages.methods` after a change of the table; a test compares what it would write with what
is there.
"""

import inspect
from pathlib import Path

import ewsg_jax as ewsg
from benchmarks.pages.generated import as_table, renewed

ROOT = Path(__file__).parents[2]


def table(with_sources: bool) -> str:
    """Return the Markdown table of all methods."""
    heads = ["name", "what", "dynamics", "estimator", "bias", "∇Vᵢ per step"]
    heads += ["memory", "source"] * with_sources
    rows = []
    for name, m in ewsg.METHODS.items():
        dynamics = ", ".join(f"`{d}`" for d in m.dynamics)
        cells = [f"`{name}`", m.title, dynamics, f"`{m.estimator}`", m.bias, m.evaluations]
        rows.append(cells + [m.memory, m.source] * with_sources)
    return as_table(heads, rows)


def documents() -> dict[Path, str]:
    """Return what each document should hold."""
    readme = ROOT / "README.md"
    builds = {name: method.build for name, method in ewsg.METHODS.items()} | {"nuts": ewsg.nuts}
    details = "\n\n".join(f"## `{name}`\n\n```\n{_docstring(build)}\n```" for name, build in builds.items())
    introduction = (
        "# Methods\n\nMade by `benchmarks/pages/methods.py` from the table `ewsg_jax.METHODS`.\n\n"
        "n rows, d parameters, b batch size, M chain length, h step size, K steps between refreshes, r rank; "
        "γ friction, T temperature, ξ standard normal noise; V = V₀ + Σᵢ Vᵢ the potential, −log prior and −log "
        "likelihood of each row. Memory: numbers that the estimator keeps, for each chain unless said otherwise. "
        "Every method returns a kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`. So does "
        "`nuts`, at the end of the page, which is no method of the papers.\n\n"
    )
    return {
        readme: renewed(readme.read_text(), "methods", "benchmarks/pages/methods.py", table(with_sources=False)),
        ROOT / "docs" / "methods.md": f"{introduction}{table(with_sources=True)}\n\n{details}\n",
    }


def _docstring(function: object) -> str:
    return inspect.cleandoc(function.__doc__ or "")


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text)
