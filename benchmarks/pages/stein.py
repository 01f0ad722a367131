"""What the Stein discrepancy sees, thinned draws keep and control variates take: a part of
`docs/check_measured.md`.

    python -m benchmarks.pages.stein [--draw]

Written to `docs/stein.json`; some minutes on two cores. `--draw` writes the page alone.
"""

import argparse
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.pages.checks import DOCS, PAGE
from benchmarks.pages.generated import as_table, renewed

NUMBERS = DOCS / "stein.json"
SIZES, SETS, OFF, LEVEL = (3, 12, 50), 60, 1.1, 0.05
"""Numbers of a position, sets of 1,000 independent draws, how wide one sd is, and the rate of false
alarms.
"""
COLUMNS, RUNS, FEW = (5, 30), 24, 50
"""Of breast cancer's data; runs whose means are compared; draws that thinning leaves."""


def power(d: int, off: float) -> dict[str, Any]:
    """Return the shares of sets of which the discrepancy and the check's scores say that something
    is wrong.
    """
    data = {"x": jnp.eye(d), "y": jnp.zeros(d)}
    model = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=1.0)
    sds = np.full(d, 0.5**0.5)
    sds[0] *= off
    rng = np.random.default_rng(d)
    by_kernel = by_scores = 0
    for number in range(SETS):
        draws = (sds * rng.standard_normal((4, 250, d))).astype(np.float32)
        key = jax.random.key(number)
        found = ewsg.diagnostics.kernel_stein_discrepancy(key, draws, model, data)
        scores = ewsg.check(key, draws, model, data, error_rate=LEVEL).scores
        by_kernel += found.p_value < LEVEL
        by_scores += any(score.z > scores.bound for score in scores.worst.values())
    return {"d": d, "off": off, "kernel": by_kernel / SETS, "scores": by_scores / SETS}


def example(columns: int) -> tuple[ewsg.Posterior, dict[str, jax.Array], ewsg.Mode, ewsg.Kernel]:
    """Return a logistic regression on breast cancer's first columns, and a kernel that is right."""
    whole = ewsg.datasets.breast_cancer()
    x = (whole.x - whole.x.mean(0)) / whole.x.std(0)
    data = {"x": jnp.asarray(x[:, :columns], jnp.float32), "y": jnp.asarray(whole.y)}
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(columns), data, progress=False)
    return model, data, mode, ewsg.uld(model, 0.2, friction=2.0, inverse_mass=mode.covariance)


def thinned(columns: int) -> dict[str, Any]:
    """Return how far moments of few draws are off, of chains that start far away, all of which is
    kept.
    """
    model, data, mode, kernel = example(columns)
    truth = ewsg.sample(
        jax.random.key(1),
        kernel,
        mode.position,
        data,
        100_000,
        num_chains=8,
        burn_in=500,
        thin=10,
        progress=False,
    )
    mean, sd = np.asarray(truth.mean), np.asarray(truth.sd)
    samples = ewsg.sample(
        jax.random.key(2),
        kernel,
        jnp.asarray(mean + 20 * sd),
        data,
        10_000,
        num_chains=4,
        thin=10,
        progress=False,
    )
    few = ewsg.diagnostics.stein_thinning(
        jax.random.key(3), samples, model, data, FEW, mode=mode
    ).of(samples)
    every = samples.position.reshape(-1, columns)[:: samples.position[..., 0].size // FEW]
    off = {
        name: float(np.abs((each.mean(0) - mean) / sd).max())
        for name, each in (("chosen", few), ("every", every))
    }
    ratios = np.std(few, axis=0) / sd
    return {
        "columns": columns,
        **off,
        "least_sd": float(ratios.min()),
        "largest_sd": float(ratios.max()),
    }


def taken(columns: int, batch_size: int | None) -> dict[str, Any]:
    """Return how many times nearer to each other the means of runs are with control variates, in
    the median.
    """
    model, data, mode, kernel = example(columns)
    plain, better = [], {1: [], 2: []}
    for number in range(RUNS):
        key = jax.random.key(number)
        samples = ewsg.sample(
            key,
            kernel,
            mode.position,
            data,
            9_700,
            num_chains=4,
            burn_in=200,
            thin=10,
            progress=False,
        )
        plain.append(np.asarray(samples.mean))
        for order, means in better.items():
            found = ewsg.diagnostics.control_variates(
                jax.random.key(RUNS + number),
                samples,
                model,
                data,
                order=order,
                batch_size=batch_size,
            )
            means.append(np.asarray(found.mean))
    ratio = {
        order: np.median(np.std(plain, axis=0) / np.std(means, axis=0))
        for order, means in better.items()
    }
    return {
        "columns": columns,
        "batch_size": batch_size,
        "first": float(ratio[1]),
        "second": float(ratio[2]),
    }


def part(result: dict[str, Any]) -> str:
    """Return the tables."""
    share = "{:.0f} %".format
    seen = [
        [
            row["d"],
            f"{100 * (row['off'] - 1):.0f} %",
            share(100 * row["kernel"]),
            share(100 * row["scores"]),
        ]
        for row in result["power"]
    ]
    few = [
        [
            row["columns"],
            f"{row['chosen']:.2g}",
            f"{row['every']:.2g}",
            f"{row['least_sd']:.2f} to {row['largest_sd']:.2f}",
        ]
        for row in result["thinned"]
    ]
    means = [
        [row["columns"], row["batch_size"] or "all", f"{row['first']:.2g}", f"{row['second']:.3g}"]
        for row in result["taken"]
    ]
    return "\n\n".join(
        [
            f"Share of {SETS} sets of 1,000 independent draws, at a rate of {100 * LEVEL:.0f} %:",
            as_table(["d", "one sd off by", "discrepancy sees", "scores of `check` see"], seen),
            f"{FEW} of 4,000 draws of chains that start 20 sds away, nothing cut off, thinned in "
            "the metric of the mode:",
            as_table(
                ["columns", "worst mean (sd)", "of evenly spaced ones", "sds over the right ones"],
                few,
            ),
            f"Standard deviations of means over {RUNS} runs of 3,800 draws, without control "
            "variates over with (medians):",
            as_table(["columns", "rows for a draw", "order 1", "order 2"], means),
        ]
    )


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with these tables."""
    return renewed(text, "stein", "benchmarks/pages/stein.py", part(result))


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description="What Stein's kernel sees, keeps and takes.")
    parser.add_argument("--draw", action="store_true")
    if not parser.parse_args().draw:
        result = {
            "power": [power(d, off) for d in SIZES for off in (1.0, OFF)],
            "thinned": [thinned(columns) for columns in COLUMNS],
            "taken": [
                taken(columns, batch_size) for columns in COLUMNS for batch_size in (None, 64)
            ],
        }
        NUMBERS.write_text(json.dumps(result) + "\n")
    PAGE.write_text(page(PAGE.read_text(), json.loads(NUMBERS.read_text())))


if __name__ == "__main__":
    main()
