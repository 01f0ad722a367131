"""Measure what a step of SGHMC costs against one of Adam, for each noise, and write it as JSON.

    python -m benchmarks.cost.adam

On the network of `workload.py` (79,510 weights) with the same batches, each in a compiled scan.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.cost.ours import general
from benchmarks.cost.quasi_newton import scan
from benchmarks.cost.timed import Timed
from benchmarks.cost.workload import WORKLOADS
from benchmarks.timing import Target, interleave, machine
from ewsg_jax.base.rng import NOISE_KINDS

TARGET = Target(1.15, 1.4, higher_is_better=False)
NUM_STEPS = 100
STEP_SIZE = 1e-6
PROTOCOL = (
    "Interleaved pairs (SGHMC, Adam, SGHMC, …) after one pair thrown away; the ratio of each pair, "
    "then its median and quartiles. Compiling is apart, every run waits for its results. "
    "Microseconds per step of one chain in a jax.lax.scan, b = 100, the rows drawn in the step."
)


def adam(posterior: ewsg.Posterior, position: Any, data: Any, num_steps: int) -> Timed:
    """Return a run of a compiled scan over steps of Adam, in microseconds per step."""
    optimiser = optax.adam(1e-3)
    estimator = ewsg.gradients.uniform(posterior, batch_size=WORKLOADS["network"]().batch_size)

    def run(key: jax.Array, position: Any, data: Any) -> Any:
        def step(carry: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], None]:
            position, state = carry
            batch = estimator.draw(key, data)
            gradient = posterior.gradient_on(position, data, batch)
            updates, state = optimiser.update(gradient, state)
            return (optax.apply_updates(position, updates), state), None

        first = position, optimiser.init(position)
        return jax.lax.scan(step, first, jax.random.split(key, num_steps))[0]

    compiled = jax.jit(run).lower(jax.random.key(0), position, data).compile()
    seeds = iter(range(10**9))

    def once() -> float:
        key = jax.block_until_ready(jax.random.key(next(seeds)))
        started = time.perf_counter()
        jax.block_until_ready(compiled(key, position, data))
        return (time.perf_counter() - started) / num_steps * 1e6

    return once


def kernels(posterior: ewsg.Posterior, batch_size: int) -> dict[str, ewsg.Kernel]:
    """Return SGHMC with each noise, and microcanonical dynamics with the cheap one."""
    estimator = ewsg.gradients.uniform(posterior, batch_size=batch_size)
    underdamped = {
        noise: ewsg.kernel(
            ewsg.dynamics.semi_implicit(STEP_SIZE, friction=1.0, noise=noise), estimator
        )
        for noise in NOISE_KINDS
    }
    unit_speed = ewsg.dynamics.microcanonical(STEP_SIZE, noise="moment_matched")
    return underdamped | {"moment_matched, microcanonical": ewsg.kernel(unit_speed, estimator)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    options = record.parser(__doc__, "adam_cost.json").parse_args(arguments)
    pairs, shorten = record.extent(options)
    before = machine()
    workload = WORKLOADS["network"]()
    data, position = (jax.tree.map(jnp.asarray, x) for x in (workload.data(), workload.position))
    posterior, steps = general(workload), max(8, NUM_STEPS // shorten)
    other = adam(posterior, position, data, steps)
    rows = []
    for name, kernel in kernels(posterior, workload.batch_size).items():
        ours = scan(kernel, position, data, steps)
        # The dynamics of bounded speed is told, not judged: it takes norms of all numbers too.
        target = None if "microcanonical" in name else TARGET
        row = record.row(f"{name} / Adam", interleave(ours, other, pairs), target, ("ours", "adam"))
        print(record.told(row), flush=True)
        rows.append(row)
    record.write(options, PROTOCOL, pairs, before, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
