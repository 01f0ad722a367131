"""Write docs/methods.md and docs/api/methods.md from `ewsg_jax.METHODS`.

Run `python -m benchmarks.pages.methods` after a change of the table; a test compares what it would
write with what is there.
"""

from pathlib import Path

import ewsg_jax as ewsg
from benchmarks.pages.generated import as_table

ROOT = Path(__file__).parents[2]


def costs() -> str:
    """Return the Markdown table of what each method is, and what it costs."""
    heads = ["name", "what", "bias", "∇Vᵢ per step", "memory"]
    return as_table(
        heads,
        (
            [linked("methods", f"ewsg_jax.{name}"), m.title, m.bias, m.evaluations, m.memory]
            for name, m in ewsg.METHODS.items()
        ),
    )


def parts() -> str:
    """Return the Markdown table of the parts of each method, and where it is from."""
    rows = []
    for name, m in ewsg.METHODS.items():
        dynamics = (
            linked("dynamics", f"ewsg_jax.dynamics.{d}")
            if hasattr(ewsg.dynamics, d)
            else linked("dynamics", "ewsg_jax.dynamics.splitting_scheme", d)
            for d in m.dynamics
        )
        # `exponentially_weighted(uniform)`: each of both; "none" is no estimator.
        estimators = (
            linked("gradients", f"ewsg_jax.gradients.{e}") if hasattr(ewsg.gradients, e) else e
            for e in m.estimator.rstrip(")").split("(")
        )
        row = [linked("methods", f"ewsg_jax.{name}"), ", ".join(dynamics), " of ".join(estimators)]
        rows.append([*row, m.source])
    return as_table(["name", "dynamics", "estimator", "source"], rows)


def linked(page: str, target: str, name: str | None = None) -> str:
    """Return the name of something that a page of the API describes, as a link to it."""
    return f"[`{name or target.rpartition('.')[2]}`](api/{page}.md#{target})"


FAMILIES = {
    "Langevin": ("langevin",),
    "Underdamped": ("underdamped",),
    "Exponential weights and matrix friction": ("weighted",),
    "Control variates, SVRG, SAGA": ("control_variate", "svrg", "saga"),
    "Adaptive": ("adaptive",),
    "Exact": ("nuts", "random_walk_metropolis", "flymc"),
}
"""The files of the methods, by what the API calls them."""


def entries() -> str:
    """Return the page of the API: a section for each family, with its methods in their order."""
    builds = [m.build for m in ewsg.METHODS.values()] + [ewsg.nuts]
    sections = []
    for heading, files in FAMILIES.items():
        names = [
            build.__name__
            for file in files
            for build in builds
            if build.__module__.rpartition(".")[2] == file
        ]
        functions = "\n\n".join(f".. autofunction:: ewsg_jax.{name}" for name in names)
        sections.append(f"## {heading}\n\n```{{eval-rst}}\n{functions}\n```\n")
    return "\n".join(sections)


UNNAMED = [
    (
        linked("dynamics", "ewsg_jax.dynamics.adaptive_mass"),
        "a diagonal inverse mass that the burn-in learns, then frozen: adaptive SGHMC over "
        "`semi_implicit` with `decay=None`, Adam over `semi_implicit`, RMSProp over `langevin`",
        "as the dynamics",
        "d, or 3d with a window, in the dynamics",
        "Springenberg et al. 2016; Kingma & Ba 2015",
    ),
    (
        linked("dynamics", "ewsg_jax.dynamics.microcanonical"),
        "isokinetic Langevin dynamics, at unit speed: MCLMC, and with minibatches SMILE without "
        "its learned preconditioner",
        "h²",
        "none",
        "Robnik et al. 2023",
    ),
    (
        linked("dynamics", "ewsg_jax.dynamics.cyclical"),
        "step sizes that fall and start again, for any dynamics that takes a schedule",
        "modes are not weighed",
        "none",
        "Zhang et al. 2020",
    ),
    (
        linked("networks", "ewsg_jax.networks.ensemble"),
        "trained networks as draws",
        "not the posterior",
        "d a member",
        "Lakshminarayanan et al. 2017",
    ),
    (
        linked("networks", "ewsg_jax.networks.swag"),
        "a normal distribution of an optimiser's path",
        "not the posterior",
        "(r+2)d",
        "Maddox et al. 2019",
    ),
    (
        linked("networks", "ewsg_jax.networks.laplace"),
        "a normal distribution by the curvature at trained weights",
        "exact for linear models with normal noise and prior",
        "d, (r+2)d or d²",
        "MacKay 1992; Daxberger et al. 2021",
    ),
]
"""Parts and baselines without a name of their own: name, what, bias, memory and source."""


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
    unnamed = as_table(["part", "what", "bias", "memory", "source"], [list(row) for row in UNNAMED])
    others = f"""\
## Parts without a named method

Each goes with any estimator: `ewsg.kernel(dynamics, estimator)`. The last three make draws without
a kernel, to compare with.

{unnamed}
"""
    text = f"{introduction}{costs()}\n\n## Their parts\n\n{parts()}\n\n{others}"
    api = """\
# Named methods

Each returns a kernel for `sample`. [How to choose](../choosing.md) says which one;
[methods](../methods.md) has them in one table.

{}
## The table of all

```{{eval-rst}}
.. py:data:: ewsg_jax.METHODS
   :type: dict

   All named methods by name.

.. autoclass:: ewsg_jax.Method
   :members:
```
"""
    docs = ROOT / "docs"
    return {docs / "methods.md": text, docs / "api" / "methods.md": api.format(entries())}


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text)
