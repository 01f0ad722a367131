"""Write docs/methods.md from `ewsg_jax.METHODS`.

Run `python -m benchmarks.pages.methods` after a change of the table; a test compares what it would
write with what is there.
"""

from pathlib import Path

import ewsg_jax as ewsg
from benchmarks.pages.generated import as_table

ROOT = Path(__file__).parents[2]


def table() -> str:
    """Return the Markdown table of all methods."""
    heads = ["name", "what", "dynamics", "estimator", "bias", "∇Vᵢ per step", "memory", "source"]
    rows = []
    for name, m in ewsg.METHODS.items():
        dynamics = ", ".join(f"`{d}`" for d in m.dynamics)
        rows.append(
            [
                f"`{name}`",
                m.title,
                dynamics,
                f"`{m.estimator}`",
                m.bias,
                m.evaluations,
                m.memory,
                m.source,
            ]
        )
    return as_table(heads, rows)


def documents() -> dict[Path, str]:
    """Return what each document should hold."""
    introduction = """\
# Methods

Every method returns a kernel: give it to `ewsg_jax.sample`, or call its `init` and `step`. A method
targets exp(−V/T). *bias*: order in h of the discretisation error of the stationary distribution
(the larger of position and momentum), without minibatch noise. [Named methods](api/methods.md) has
the update, the target, the cost and the arguments of each, as `help(ewsg.sgld)` does. [How to
choose](choosing.md) compares them. `nuts` is no method of the papers, and not in the table.

n rows, d parameters, b batch size, M chain length, h step size, K steps between refreshes, r rank;
γ friction, T temperature, ξ standard normal noise; V = V₀ + Σᵢ Vᵢ the potential, −log prior and
−log likelihood of each row. *Memory*: numbers that the estimator keeps, for each chain unless
stated otherwise. The page is made by `benchmarks/pages/methods.py` from `ewsg_jax.METHODS`.

"""
    return {ROOT / "docs" / "methods.md": f"{introduction}{table()}\n"}


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text)
