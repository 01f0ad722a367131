"""Measure what an inverse mass, and rows by probability, add to a step, and write it as JSON.

    python -m benchmarks.cost.parts

Both sides ours, on the logistic regression of `workload.py` (464,809 rows, 54 features): SGHMC with
and without a mass, b = 50; SGLD with rows by probability against independent uniform ones, b = 50
and 1,000. README.md in this folder says how pairs are timed.
"""

import sys
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.cost.bench import chain_words
from benchmarks.cost.ours import posterior
from benchmarks.cost.peers import device_data
from benchmarks.cost.settings import FRICTION, STEP_SIZE, Case
from benchmarks.cost.timed import timed
from benchmarks.cost.workload import WORKLOADS
from benchmarks.timing import Target, interleave, machine

PAIRS = 7
MASS, SHARED, ROWS = Target(1.2, 1.4, False), Target(1.1, 1.3, False), Target(1.15, 1.4, False)
PROTOCOL = (
    "Interleaved pairs (with, without, with, …) after one pair thrown away; the ratio of each "
    "pair, then its median and quartiles. Through ewsg_jax.sample without what precedes the first "
    "step, the last draw kept. Microseconds per step and chain."
)


def masses(d: int) -> dict[str, Any]:
    """Return an inverse mass of each structure."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(d, d)) / d**0.5
    basis = np.linalg.qr(rng.normal(size=(d, 5)))[0]
    low_rank = ewsg.dynamics.LowRank(
        *(jnp.asarray(x, jnp.float32) for x in (np.ones(d), basis, np.full(5, 2.0)))
    )
    return {
        "number": 0.5,
        "diagonal": jnp.asarray(rng.uniform(0.5, 2, d), jnp.float32),
        "dense": jnp.asarray(root @ root.T + np.eye(d), jnp.float32),
        "rank 5": low_rank,
    }


def row(what: str, ours: Any, other: Any, goal: Target | None, pairs: int) -> dict[str, Any]:
    """Measure one pair of runs."""
    found = record.row(what, interleave(ours, other, pairs), goal, ("with", "without"))
    print(record.told(found), flush=True)
    return found


def measure(pairs: int, shorten: int) -> list[dict[str, Any]]:
    """Measure every row."""
    workload = WORKLOADS["logistic"]()
    data = device_data("logistic")
    target = posterior(Case("logistic", "sghmc", 1, 1, False), workload)
    start = jnp.asarray(workload.position)
    found = []
    for num_chains, num_steps, shared in (
        (1, 20_000, False),
        (100, 1_000, False),
        (100, 1_000, True),
    ):
        chains = f"{chain_words(num_chains)}{', one batch for all' * shared}"
        steps = max(2, num_steps // shorten)

        def run(
            steps: int = steps, num_chains: int = num_chains, shared: bool = shared, **options: Any
        ) -> Any:
            kernel = ewsg.sghmc(
                target, STEP_SIZE["sghmc"], friction=FRICTION, batch_size=50, **options
            )
            return timed(kernel, start, data, num_chains, steps, shared_minibatch=shared)

        plain = run()
        for name, inverse_mass in masses(len(start)).items():
            goal = None if name != "dense" else SHARED if shared else MASS
            found.append(
                row(f"mass, {name}, {chains}", run(inverse_mass=inverse_mass), plain, goal, pairs)
            )
    n, h = workload.num_data, STEP_SIZE["sgld"]
    law = ewsg.rows.by_probability(jnp.asarray(np.random.default_rng(1).gamma(2.0, size=n)))
    for batch_size, num_chains, num_steps in ((50, 1, 20_000), (50, 100, 1_000), (1_000, 1, 2_000)):
        steps = max(2, num_steps // shorten)
        ours, other = (
            timed(
                ewsg.sgld(target, h, batch_size=batch_size, rows=rows),
                start,
                data,
                num_chains,
                steps,
            )
            for rows in (law, "random")
        )
        what = f"rows by probability, b = {batch_size:,}, {chain_words(num_chains)}"
        found.append(row(what, ours, other, ROWS, pairs))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    options = record.parser(__doc__, "parts_cost.json", PAIRS).parse_args(arguments)
    pairs, shorten = record.extent(options, PAIRS)
    before = machine()
    record.write(options, PROTOCOL, pairs, before, measure(pairs, shorten))
    return 0


if __name__ == "__main__":
    sys.exit(main())
