"""Halving the step on real posteriors: what it tells of the bias, and what is left:
`docs/halving.md`.

    EWSG_JAX_DATA=… python -m benchmarks.pages.halvings [--draw]

Numbers go to `docs/halving.json`, some four minutes on two cores; `--draw` makes the table alone.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.pages.generated import as_table, renewed
from benchmarks.pages.posterior_data import PREPARE, rounded
from benchmarks.pages.posterior_verdicts import Reference, reference

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS, PAGE = DOCS / "halving.json", DOCS / "halving.md"
POSTERIORS = ("pima", "heart")
NUM_STEPS, PAIRS = 8_000, 64
KERNELS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "`sgld`, h = 0.1": ("sgld", 0.1, {}),
    "`sgld`, h = 0.3": ("sgld", 0.3, {}),
    "`sghmc`, h = 0.3": ("sghmc", 0.3, {"friction": 2.0}),
    "`ld`, h = 0.3": ("ld", 0.3, {}),
    "`uld`, h = 0.6": ("uld", 0.6, {"friction": 2.0}),
    "`uld`, `splitting`, h = 0.8": ("uld", 0.8, {"friction": 2.0, "integrator": "splitting"}),
    "`uld`, `exact`, h = 0.3": ("uld", 0.3, {"friction": 2.0, "integrator": "exact"}),
    "`uld`, `BAOAB`, h = 1": ("uld", 1.0, {"friction": 2.0, "integrator": "BAOAB"}),
}
"""Methods, steps in units of the mode's widths, and options; those on batches take a quarter of the
rows.
"""


def off(estimates: Any, known: Reference) -> dict[str, float]:
    """Return how far the worst mean, in sds, and the worst sd are from a reference."""
    return {
        name: rounded(value) for name, value in known.worst(estimates.mean, estimates.sd).items()
    }


def cell(name: str, method: str, step_size: float, options: dict[str, Any]) -> dict[str, Any]:
    """Return what halving says of a kernel on a posterior, and what is true."""
    prepared, known = PREPARE[name](), reference(name)
    data = {"x": jnp.asarray(prepared.x, jnp.float32), "y": jnp.asarray(prepared.y)}
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    mode = ewsg.find_mode(
        jax.random.key(0), model, jnp.zeros(prepared.x.shape[1]), data, progress=False
    )
    rows = {"batch_size": len(prepared.y) // 4} if method in ("sgld", "sghmc") else {}
    kernel = getattr(ewsg, method)(
        model, step_size, inverse_mass=mode.covariance, **rows, **options
    )
    halved = ewsg.halve(
        jax.random.key(1), kernel, mode.position, data, NUM_STEPS, num_chains=PAIRS, progress=False
    )
    worst = int(np.argmax(np.abs(halved.coarse.sd / known.sd - 1)))
    return {
        "outcome": halved.outcome,
        "whole": off(halved.coarse, known),
        "half": off(halved.fine, known),
        "extrapolated": off(halved.extrapolated, known),
        "error": rounded(np.max(halved.extrapolated.sd_error / known.sd), 2),
        "true": rounded(halved.coarse.sd[worst] / known.sd[worst] - 1),
        "told": rounded(halved.bias.sd_ratio[worst] - 1),
        "told_error": rounded(halved.bias.sd_ratio_error[worst], 2),
        "gain": rounded(halved.gain, 2),
    }


def table(result: dict[str, Any]) -> str:
    """Return the table of the page."""
    rows = []
    for name, cells in result.items():
        for kernel, found in cells.items():
            means = " → ".join(
                f"{found[law]['mean']:.2g}" for law in ("whole", "half", "extrapolated")
            )
            sds = " → ".join(
                f"{100 * found[law]['sd']:.2g} %" for law in ("whole", "half", "extrapolated")
            )
            error = float(f"{100 * found['told_error']:.2g}")
            told = f"{100 * found['told']:.2g} ± {error:g} %"
            true = f"{100 * found['true']:.2g} %"
            rows.append(
                [name, kernel, true, told, sds, means, found["outcome"], f"{found['gain']:,.0f}"]
            )
    heads = [
        "posterior",
        "kernel",
        "worst sd off by",
        "reported",
        "sds: h → h/2 → extrapolated",
        "means, in sds",
    ]
    return as_table([*heads, "outcome", "gain"], rows)


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with its table."""
    return renewed(text, "numbers", "benchmarks/pages/halvings.py", table(result))


def main() -> None:
    """Halve the steps of all kernels on all posteriors."""
    parser = argparse.ArgumentParser(description="What halving the step tells of real posteriors.")
    parser.add_argument("--draw", action="store_true")
    result: dict[str, Any] = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    for name in () if parser.parse_args().draw else POSTERIORS:
        result[name] = {}
        for kernel, made in KERNELS.items():
            result[name][kernel] = cell(name, *made)
            print(f"{name:6} {kernel:28} {result[name][kernel]}", flush=True)
    NUMBERS.write_text(json.dumps(result, indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(), result))


if __name__ == "__main__":
    main()
