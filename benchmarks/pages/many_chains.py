"""What chains that share their batches have in common: the table of `docs/many_chains.md`.

    python -m benchmarks.pages.many_chains [--draw]

A Gaussian posterior, SGLD at steps of three heats, chains with batches of their own and with one
batch a step for all: how wide each is, how alike they are, what their agreement says and what their
average is worth. Written to `docs/many_chains.json`; three minutes. `--draw` makes the table alone.
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
from benchmarks.pages.posterior_data import rounded

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS, PAGE = DOCS / "many_chains.json", DOCS / "many_chains.md"
N, BATCH, CHAINS, BLOCKS, TIMES = 2_000, 100, 32, 200, 40
"""Rows, rows of a batch, chains, blocks of time, and how many times as long as the memory a block
is.
"""
LEARNING_RATES = (0.005, 0.05, 0.2)
"""Step sizes, times n."""


def heat(rate: float, spread: float) -> float:
    """Return the variance of a batch's part of a step over that of its noise, h² n² s²
    / b over 2h.
    """
    return rate * N * spread / (2 * BATCH)


def cell(rate: float, shared: bool) -> dict[str, float]:
    """Return what a run of many blocks of time shows."""
    data = jnp.asarray(np.random.default_rng(0).normal(size=(N, 1)), jnp.float32)
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), rate / N, batch_size=BATCH)
    memory, block = 2 / rate, int(TIMES * 2 / rate)
    thin = max(1, int(memory / 8))
    samples = ewsg.sample(
        jax.random.key(round(1e4 * rate)),
        kernel,
        jnp.full(1, float(data.mean())),
        data,
        BLOCKS * block,
        num_chains=CHAINS,
        burn_in=0,
        thin=thin,
        shared_minibatch=shared,
        progress=False,
    )
    draws = (np.asarray(samples.position[..., 0], float) - float(data.mean())) * N**0.5
    draws = draws[:, : draws.shape[1] // BLOCKS * BLOCKS]
    draws = draws[:, draws.shape[1] // BLOCKS :]
    blocks = draws.reshape(CHAINS, BLOCKS - 1, -1)
    correlations = np.corrcoef(draws)
    average = blocks.mean((0, 2)).var(ddof=1)
    # As if chains were independent: the variance of one's block, over their number.
    alone = blocks.mean(2).var(axis=1, ddof=1).mean() / CHAINS
    per_chain = blocks.mean(2)
    rhat = np.sqrt(1 + per_chain.var(axis=0, ddof=1) / blocks.var(axis=2, ddof=1).mean(0))
    return {
        "heat": rounded(heat(rate, float(np.var(data)))),
        "variance": rounded(draws.var()),
        "correlation": rounded(correlations[np.triu_indices(CHAINS, 1)].mean()),
        "rhat": rounded(float(np.median(rhat)) - 1),
        "worth": rounded(alone / average),
    }


def table(result: dict[str, Any]) -> str:
    """Return the table: what was measured, and by formula in brackets."""
    heads = [
        "H",
        "batches",
        "variance of a chain",
        "correlation of two chains",
        "R-hat − 1, in per mille",
    ]
    rows = []
    for name, found in result["cells"].items():
        h, share = found["heat"], found["heat"] / (1 + found["heat"])
        share *= name.endswith("shared")
        rate = float(name.split()[0])
        cells = (
            f"{h:.3g}",
            "one for all" if share else "own",
            f"{found['variance']:.3f} ({(1 + h) / (1 - rate / 2):.3f})",
            f"{found['correlation']:.3f} ({share:.3f})",
            f"{1000 * found['rhat']:.1f} ({500 * (1 - share) / TIMES:.1f})",
            f"{100 * found['worth']:.0f} % ({100 / (1 + (CHAINS - 1) * share):.0f} %)",
        )
        rows.append(cells)
    return as_table([*heads, "the average is worth"], rows)


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with the table in its place."""
    return renewed(text, "numbers", "benchmarks/pages/many_chains.py", table(result))


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--draw", action="store_true", help="make the table of the numbers that are there"
    )
    if not parser.parse_args().draw:
        cells = {
            f"{rate} {'shared' if shared else 'own'}": cell(rate, shared)
            for rate in LEARNING_RATES
            for shared in (False, True)
        }
        NUMBERS.write_text(json.dumps({"chains": CHAINS, "cells": cells}, indent=1) + "\n")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page(text, json.loads(NUMBERS.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
