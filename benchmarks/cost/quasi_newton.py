"""Measure what a step of HAMCMC costs against one of SGLD, and write it as JSON.

    python -m benchmarks.cost.quasi_newton

Both ours, on the network of `workload.py` (79,510 weights) with the same number of rows, M = 5. See
README.md in this folder for how pairs are timed.
"""

import functools
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.cost.ours import general
from benchmarks.cost.timed import Timed, timed
from benchmarks.cost.workload import WORKLOADS
from benchmarks.timing import Target, interleave, machine

TARGET = Target(2.2, 3.0, higher_is_better=False)
BATCH_SIZES = (100, 500)
MEMORY_SIZE = 5
STEP_SIZE = 1e-7
NUM_STEPS = {100: 240, 500: 80}
PROTOCOL = (
    "Interleaved pairs (HAMCMC, SGLD, HAMCMC, …) after one pair thrown away; the ratio of each "
    "pair, then its median and quartiles. Compiling is apart, every run waits for its results. "
    "Microseconds per step of one chain: 'scan', a jax.lax.scan over kernel.step; 'sample', "
    "ewsg_jax.sample without what precedes the first step. A step of HAMCMC evaluates twice as "
    "many gradients of rows: where they are all the cost the ratio is 2."
)


def scan(kernel: ewsg.Kernel, position: Any, data: Any, num_steps: int) -> Timed:
    """Return a run of a compiled scan over the step, in microseconds per step."""

    def run(key: jax.Array, state: ewsg.KernelState, data: Any) -> ewsg.KernelState:
        keys = jax.random.split(key, num_steps)
        return jax.lax.scan(
            lambda state, key: (kernel.step(key, state, data)[0], None), state, keys
        )[0]

    state = jax.block_until_ready(kernel.init(jax.random.key(0), position, data))
    compiled = jax.jit(run).lower(jax.random.key(0), state, data).compile()
    seeds = iter(range(10**9))

    def once() -> float:
        key = jax.block_until_ready(jax.random.key(next(seeds)))
        started = time.perf_counter()
        end = jax.block_until_ready(compiled(key, state, data))
        seconds = time.perf_counter() - started
        if not all(np.isfinite(x).all() for x in jax.tree.leaves(end.position)):
            raise FloatingPointError("a chain left the finite numbers: its time means nothing")
        return seconds / num_steps * 1e6

    return once


def kernels(batch_size: int) -> dict[str, ewsg.Kernel]:
    """Return HAMCMC and SGLD on the network; the chain is long past its first M steps when it is
    timed.
    """
    model = general(WORKLOADS["network"]())
    return {
        "hamcmc": ewsg.hamcmc(
            model,
            STEP_SIZE,
            batch_size=batch_size,
            memory_size=MEMORY_SIZE,
            trust_region=1e3,
            initial_scale=1.0,
        ),
        "sgld": ewsg.sgld(model, STEP_SIZE, batch_size=batch_size),
    }


def measure(batch_size: int, loop: str, pairs: int, shorten: int) -> dict[str, Any]:
    """Measure one row of the result."""
    workload = WORKLOADS["network"]()
    data, position = (jax.tree.map(jnp.asarray, x) for x in (workload.data(), workload.position))
    num_steps = max(8, NUM_STEPS[batch_size] // shorten)
    both = kernels(batch_size)
    build = {"scan": scan, "sample": functools.partial(timed, num_chains=1)}[loop]
    ours, other = (build(kernel, position, data, num_steps=num_steps) for kernel in both.values())
    row = record.row(
        f"HAMCMC / SGLD, M = {MEMORY_SIZE}, b = {batch_size}, {loop}",
        interleave(ours, other, pairs),
        TARGET,
        ("hamcmc", "sgld"),
        num_weights=sum(x.size for x in jax.tree.leaves(position)),
        num_steps=num_steps,
        evaluations_per_step={name: k.evaluations(data).per_step for name, k in both.items()},
    )
    print(record.told(row), flush=True)
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    options = record.parser(__doc__, "quasi_newton_cost.json").parse_args(arguments)
    pairs, _ = record.extent(options)
    before = machine()
    rows = [
        measure(b, loop, pairs, 10 if options.quick else 1)
        for b in BATCH_SIZES
        for loop in ("scan", "sample")
    ]
    record.write(options, PROTOCOL, pairs, before, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
