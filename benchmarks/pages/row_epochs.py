"""Draw `docs/epochs.png` and write the tables of epochs in `docs/bias.md`: what they leave of the
minibatch's heat.

    python -m benchmarks.pages.row_epochs [--draw]

Exact laws (`epoch_laws.py`) over the length of an epoch, and beside them runs of the library;
written to `docs/epochs.json`, one minute. `--draw` makes the picture and the tables of the numbers
that are there.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import ewsg_jax as ewsg
from benchmarks.pages import epoch_laws, figures
from benchmarks.pages.generated import as_table, renewed
from benchmarks.pages.posterior_data import rounded
from ewsg_jax.answers.forecast import stationary
from ewsg_jax.rows._named import Rows

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS, PAGE, PICTURE = DOCS / "epochs.json", DOCS / "bias.md", DOCS / "epochs.png"
KINDS: tuple[epoch_laws.Kind, ...] = ("block_epochs", "block_sweeps")
COLOURS = {"block_epochs": "#0072B2", "block_sweeps": "#D55E00"}
STEP_SIZE, FRICTION, BATCH = 0.1, 2.0, 2
LENGTHS = (5, 10, 20, 30, 50, 100, 200, 300)
"""Batches of an epoch; of those in `RUN` there are runs too."""
RUN, CHAINS, BURN_IN = (10, 30, 100, 300), 4_096, 200
SPREAD = 30.0
"""Standard deviation of the rows in a run: so large that nearly all of the variance is the
batches'.
"""


def rows_of(num_batches: int, spread: float = SPREAD) -> np.ndarray:
    """Return the rows, of which an epoch has so many batches: shape (n, 1)."""
    return spread * np.random.default_rng(num_batches).normal(size=(BATCH * num_batches, 1))


def kernel(method: str, n: int, rows: Rows) -> ewsg.Kernel:
    """Return a kernel on the mean of n rows, with λ = 1."""
    model = ewsg.models.gaussian_location(noise_scale=n**0.5)
    if method == "sgld":
        return ewsg.sgld(model, STEP_SIZE, batch_size=BATCH, rows=rows)
    return ewsg.sghmc(
        model, STEP_SIZE, friction=FRICTION, batch_size=BATCH, rows=rows, integrator="splitting"
    )


def step_of(method: str, num_batches: int) -> epoch_laws.Affine:
    """Return the exact step."""
    with jax.enable_x64():
        data = jnp.asarray(rows_of(num_batches))
        return epoch_laws.affine(kernel(method, len(data), "blocks"), data, BATCH)


def measured(num_batches: int, kind: epoch_laws.Kind) -> tuple[float, float]:
    """Return the share of the heat that is left in chains of the library, and its
    standard error.
    """
    step, data = step_of("sghmc", num_batches), jnp.asarray(rows_of(num_batches), jnp.float32)
    burn_in = -(-BURN_IN // (2 * num_batches)) * 2 * num_batches
    samples = ewsg.sample(
        jax.random.key(num_batches),
        kernel("sghmc", len(data), kind),
        jnp.mean(data, axis=0),
        data,
        burn_in + 2 * num_batches,
        num_chains=CHAINS,
        burn_in=burn_in,
        progress=False,
    )
    squares = np.mean(
        (np.asarray(samples.position, float)[..., 0] - float(data.mean())) ** 2, axis=1
    )
    alone = stationary.stationary_each(step.matrix, step.noise)[0][0, 0]
    heat = epoch_laws.covariance(step, "random")[0, 0] - alone
    return (squares.mean() - alone) / heat, squares.std(ddof=1) / CHAINS**0.5 / heat


def measure() -> dict[str, Any]:
    """Return all numbers."""
    exact = {
        method: {
            kind: [
                rounded(epoch_laws.share_of_heat(step_of(method, count), kind)) for count in LENGTHS
            ]
            for kind in KINDS
        }
        for method in ("sghmc", "sgld")
    }
    runs = {kind: [[rounded(x) for x in measured(count, kind)] for count in RUN] for kind in KINDS}
    return {"lengths": LENGTHS, "exact": exact, "run": RUN, "runs": runs}


def table(result: dict[str, Any]) -> str:
    """Return the shares as Markdown."""
    rows = []
    for place, count in enumerate(result["lengths"]):
        cells = [f"{STEP_SIZE * count:.3g}"]
        for kind in KINDS:
            cells.append(f"{result['exact']['sghmc'][kind][place]:.3f}")
            found = dict(zip(result["run"], result["runs"][kind], strict=True)).get(count)
            cells.append("" if found is None else f"{found[0]:.3f} ± {found[1]:.3f}")
        cells += [f"{result['exact']['sgld'][kind][place]:.3f}" for kind in KINDS]
        rows.append(cells)
    heads = [
        "Rh",
        "`sghmc`, splitting: epochs",
        "of a run",
        "sweeps",
        "of a run",
        "`sgld`: epochs",
        "sweeps",
    ]
    return as_table(heads, rows)


def draw(result: dict[str, Any]) -> Figure:
    """Return the picture."""
    figure = figures.figure(6.4, 3.6)
    axes = figure.subplots()
    for kind in KINDS:
        axes.plot(
            STEP_SIZE * np.array(result["lengths"]),
            result["exact"]["sghmc"][kind],
            color=COLOURS[kind],
            label=f"{kind}: exact",
        )
        share, error = np.array(result["runs"][kind]).T
        axes.errorbar(
            STEP_SIZE * np.array(result["run"]),
            share,
            2 * error,
            fmt="o",
            color=COLOURS[kind],
            markersize=4,
            label="a run, ± 2 standard errors",
        )
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_xlabel("time of an epoch, Rh")
    axes.set_ylabel("share of the heat that is left")
    axes.legend(frameon=False)
    return figure


def caption(result: dict[str, Any]) -> str:
    """Return in one sentence what the picture shows."""
    times = [STEP_SIZE * count for count in (result["lengths"][0], result["lengths"][-1])]
    shares = [
        f"{kind} {exact[0]:.2f} to {exact[-1]:.2f}"
        for kind, exact in result["exact"]["sghmc"].items()
    ]
    return (
        f"Share of the minibatch's heat that is left in epochs of the time {times[0]:g} to "
        f"{times[1]:g}: {', '.join(shares)}; lines are exact laws, points are runs."
    )


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with the table in its place."""
    return renewed(text, "epochs", "benchmarks/pages/row_epochs.py", table(result))


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--draw",
        action="store_true",
        help="make the picture and table of the numbers that are there",
    )
    if not parser.parse_args().draw:
        NUMBERS.write_text(json.dumps(measure(), indent=1) + "\n")
    result = json.loads(NUMBERS.read_text())
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), result), encoding="utf-8")
    figures.write(draw(result), PICTURE, caption(result))


if __name__ == "__main__":
    main()
