"""Measure what a step of NC-SGHMC costs against one of SGHMC, for each way to its covariance, and
write it as JSON.

    python -m benchmarks.cost.matrix_friction [--kept-network]

Both ours: logistic regressions of the sizes of Pima (n = 532, d = 8), diamonds (5,000, 26) and
Covertype's columns (50,000, 55), and the network of `workload.py` (79,510 weights) with a
covariance of rank 10. See README.md in this folder for how pairs are timed.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.cost.bench import chain_words
from benchmarks.cost.ours import general
from benchmarks.cost.timed import timed
from benchmarks.cost.workload import WORKLOADS, logistic
from benchmarks.timing import Target, interleave, machine

PAIRS = 7
BATCH_SIZE = 50
CASES = (
    # (n, d, chains, steps)
    (532, 8, 1_500, 400),
    (5_000, 26, 1, 20_000),
    (5_000, 26, 100, 1_000),
    (50_000, 55, 1, 20_000),
    (50_000, 55, 100, 10_000),
)
NETWORK_STEPS, FEW_ROWS = 600, 200
RENEWED_STEPS, RENEWED_PAIRS = 12_000, 3
"""Of the network's run whose covariance is kept: ten passes, so that it is worked out
once in it.
"""
DENSE, LOW_RANK = Target(1.5, 1.5, False), Target(2.0, 2.0, False)
TEN_PASSES = "kept, ten passes"
WAYS = ("given", "given, less noise", TEN_PASSES, "kept, one pass", "tracked")
"""With one pass a reset evaluates as many rows as the steps between; tracked, a step has an
eigendecomposition.
"""
WITH_A_GOAL = ("given", "given, less noise", TEN_PASSES)
PROTOCOL = (
    "Interleaved pairs (NC-SGHMC, SGHMC, NC-SGHMC, …) after one pair thrown away; the ratio of "
    "each pair, then its median and quartiles. Through ewsg_jax.sample without what precedes the "
    "first step, the last draw kept. Microseconds per step and chain, resets among them: 'ten "
    "passes' resets every 10 n/b steps, and first. A covariance that is given is that at the mode, "
    "worked out before (the network's, at its start, of 200 rows)."
)


def options(way: str, n: int, covariance: Any, rank: int | None) -> dict[str, Any]:
    """Return what makes `nc_sghmc` take this way to its covariance."""
    if way.startswith("given"):
        return {"covariance": covariance, "balance": "noise" if "noise" in way else "friction"}
    structure = {} if rank is None else {"structure": "low_rank", "rank": rank}
    if way == "tracked":
        return structure
    passes = 10 if way == TEN_PASSES else 1
    return {"covariance": "kept", "refresh_every": passes * -(-n // BATCH_SIZE), **structure}


def rows_of(
    what: str,
    posterior: ewsg.Posterior,
    position: Any,
    data: Any,
    h: float,
    friction: float,
    num_chains: int,
    num_steps: int,
    pairs: int,
    ways: Sequence[str] = WAYS,
    rank: int | None = None,
) -> list[dict[str, Any]]:
    """Measure every way on one posterior."""
    n = len(data["y"])
    structure: dict[str, Any] = {} if rank is None else {"structure": "low_rank", "rank": rank}
    # What it holds changes no time: for the network a few rows do.
    some = data if rank is None else jax.tree.map(lambda x: x[:FEW_ROWS], data)
    covariance = ewsg.gradients.covariance_at(
        posterior, position, some, batch_size=BATCH_SIZE, **structure
    )
    shared: dict[str, Any] = {"friction": friction, "batch_size": BATCH_SIZE}
    plain = timed(ewsg.sghmc(posterior, h, **shared), position, data, num_chains, num_steps)
    found = []
    for way in ways:
        kernel = ewsg.nc_sghmc(posterior, h, **shared, **options(way, n, covariance, rank))
        # Long enough for the resets to weigh as they do in the long run; tracked, ten times
        # shorter.
        steps = max(2, num_steps // 10) if way == "tracked" else num_steps
        measured = interleave(timed(kernel, position, data, num_chains, steps), plain, pairs)
        goal = (DENSE if rank is None else LOW_RANK) if way in WITH_A_GOAL else None
        row = record.row(
            f"{what}, {chain_words(num_chains)}: {way}",
            measured,
            goal,
            ("nc_sghmc", "sghmc"),
            num_steps=steps,
            evaluations_of_the_run=int(kernel.evaluations(data).of_steps(0, steps)),
        )
        print(record.told(row), flush=True)
        found.append(row)
    return found


def of_regression(
    n: int, d: int, num_chains: int, num_steps: int, pairs: int, shorten: int
) -> list[dict[str, Any]]:
    """Measure one logistic regression, from its mode."""
    data = jax.tree.map(jnp.asarray, logistic(n, d).data())
    posterior = ewsg.models.logistic_regression(prior_scale=1.0)
    position = ewsg.find_mode(jax.random.key(0), posterior, jnp.zeros(d), data).position
    # Well inside hΓ < 2.
    h, friction = 0.05 / n**0.5, 0.3 * n**0.5
    steps = max(2, num_steps // shorten)
    what = f"d = {d}, n = {n:,}"
    return rows_of(what, posterior, position, data, h, friction, num_chains, steps, pairs)


def of_network(pairs: int, shorten: int, only_kept: bool = False) -> list[dict[str, Any]]:
    """Measure the network, one chain, with a covariance of rank 10."""
    workload = WORKLOADS["network"]()
    data, position = (jax.tree.map(jnp.asarray, x) for x in (workload.data(), workload.position))
    steps = max(2, NETWORK_STEPS // shorten)
    renewed = max(2, RENEWED_STEPS // shorten)
    found = []
    for ways, length, count in (
        (("given", "given, less noise"), steps, pairs),
        ((TEN_PASSES,), renewed, min(pairs, RENEWED_PAIRS)),
    )[only_kept:]:
        found += rows_of(
            "network, rank 10",
            general(workload),
            position,
            data,
            1e-6,
            10.0,
            1,
            length,
            count,
            ways,
            rank=10,
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    parser = record.parser(__doc__, "matrix_friction_cost.json", PAIRS)
    parser.add_argument(
        "--kept-network",
        action="store_true",
        help="the network with a kept covariance alone, beside what is stored",
    )
    chosen = parser.parse_args(arguments)
    pairs, shorten = record.extent(chosen, PAIRS)
    before = machine()
    if chosen.kept_network:
        result = json.loads(chosen.out.read_text())
        rows = of_network(pairs, shorten, only_kept=True)
        apart = [row["what"] for row in rows]
        others = [row for row in result["results"] if row["what"] not in apart]
        result |= {"results": others + rows, "measured_apart": {"rows": apart, "machine": before}}
        chosen.out.write_text(json.dumps(result, indent=1) + "\n")
        return 0
    rows = [row for case in CASES for row in of_regression(*case, pairs, shorten)]
    rows += of_network(pairs, shorten)
    record.write(chosen, PROTOCOL, pairs, before, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
