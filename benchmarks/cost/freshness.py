"""Measure what it costs a repeated call to see what its functions read, and write it as JSON.

    python -m benchmarks.cost.freshness

Milliseconds of opening and closing `freshness.as_of_now` of a kernel, which every public call does
once; and a whole repeated call of `sample` over the same with the reading left out.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.timing import Target, interleave, machine, summarise, verdict
from ewsg_jax.base.freshness import as_of_now

NOTHING, ELSE, CALL = Target(1.0, 1.0, False), Target(10.0, 10.0, False), Target(1.05, 1.2, False)
STEPS = 2_000
PROTOCOL = (
    "Medians of milliseconds of one reading of a kernel of SGLD, on entering and on leaving; a "
    "whole call in interleaved pairs, 2,000 steps of one chain, with the reading and without."
)
settings = {"scale": 1.0, "shape": [1.0, 2.0, {"df": 4.0}]}
offsets, table = np.zeros(10), {name: float(name) for name in range(10_000)}


class Model:
    """A model with attributes."""

    def __init__(self) -> None:
        self.scale, self.knots, self.settings = 1.0, np.linspace(0, 1, 50), settings

    def log_likelihood(self, position: jax.Array, datum: jax.Array) -> jax.Array:
        """Return that of a datum."""
        return (
            -0.5
            * ((datum - position) / (self.scale * self.settings["scale"] + 0 * self.knots[0])) ** 2
        )


def of_globals(position: jax.Array, datum: jax.Array) -> jax.Array:
    """Read a dictionary, an array and another function."""
    return residual(position, datum) / settings["scale"] - 0 * offsets[0]


def residual(position: jax.Array, datum: jax.Array) -> jax.Array:
    """Return the squared one."""
    return -0.5 * (datum - position) ** 2


def likelihoods() -> dict[str, tuple[Callable[..., Any], Target]]:
    """Return functions, and what reading them may take."""
    large = np.zeros(2**17)
    return {
        "nothing that can change": (
            lambda position, datum: -0.5 * (datum - position) ** 2,
            NOTHING,
        ),
        "globals and a helper": (of_globals, ELSE),
        "a method of a model": (Model().log_likelihood, ELSE),
        "a dictionary of 10,000 numbers": (lambda p, x: -0.5 * (x - p) ** 2 * table[1], ELSE),
        "an array of 1 MiB": (lambda p, x: -0.5 * (x - p) ** 2 + large[0], ELSE),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    options = record.parser(__doc__, "freshness_cost.json").parse_args(arguments)
    pairs, shorten = record.extent(options)
    before, data, results = machine(), jnp.linspace(-1.0, 1.0, 1_000), []
    for name, (log_likelihood, target) in likelihoods().items():
        kernel = ewsg.sgld(
            ewsg.Posterior(log_likelihood, lambda position: 0.0), 1e-4, batch_size=10
        )

        def reading(kernel: ewsg.Kernel = kernel) -> float:
            began = time.perf_counter()
            with as_of_now(kernel):
                pass
            return 1e3 * (time.perf_counter() - began)

        def call(kernel: ewsg.Kernel = kernel) -> float:
            began = time.perf_counter()
            ewsg.sample(
                jax.random.key(0), kernel, jnp.float32(0), data, STEPS // shorten, progress=False
            )
            return 1e3 * (time.perf_counter() - began)

        def without(call: Callable[[], float] = call) -> float:
            with mock.patch("ewsg_jax.run.sample.as_of_now", return_value=contextlib.nullcontext()):
                return call()

        took = summarise([reading() for _ in range(20 * pairs)][pairs:])
        results.append(
            {"what": name, "unit": "milliseconds", "measured": took._asdict()}
            | verdict(took.median, target)
        )
        measured = interleave(call, without, pairs)
        results.append(record.row(f"a whole call: {name}", measured, CALL, ("with", "without")))
        print(f"{name}: {took.median:.3f} ms; {record.told(results[-1])}", flush=True)
    record.write(options, PROTOCOL, pairs, before, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
