"""A kernel's run through `ewsg_jax.sample`, timed."""

from collections.abc import Callable
from typing import Any

import jax

import ewsg_jax as ewsg

Timed = Callable[[], float]


def timed(
    kernel: ewsg.Kernel, position: Any, data: Any, num_chains: int, num_steps: int, **options: Any
) -> Timed:
    """Return a run of `ewsg_jax.sample`, compiled, in microseconds per step and chain; options go
    to `sample`.
    """
    seeds = iter(range(10**9))

    def run() -> float:
        samples = ewsg.sample(
            jax.random.key(next(seeds)),
            kernel,
            position,
            data,
            num_steps,
            num_chains=num_chains,
            burn_in=num_steps - 1,
            progress=False,
            check_data=False,
            **options,
        )
        if not samples.is_finite.all():
            raise FloatingPointError("a chain left the finite numbers: its time means nothing")
        return samples.run_seconds / num_steps / num_chains * 1e6

    run()
    return run
