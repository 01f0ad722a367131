"""A kernel's runs through `ewsg_jax.sample`, timed."""

from collections.abc import Callable
from typing import Any

import jax

import ewsg_jax as ewsg

Timed = Callable[[], float]


def runs(
    kernel: ewsg.Kernel, position: Any, data: Any, num_chains: int, **options: Any
) -> Callable[[int], ewsg.Samples]:
    """Return a function of the number of steps that runs `ewsg_jax.sample`, each time with a new
    key, and keeps the last step; options go to `sample`.
    """
    seeds = iter(range(10**9))

    def run(num_steps: int) -> ewsg.Samples:
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
        return samples

    return run


def timed(
    kernel: ewsg.Kernel, position: Any, data: Any, num_chains: int, num_steps: int, **options: Any
) -> Timed:
    """Return such a run, compiled, in microseconds per step and chain."""
    run = runs(kernel, position, data, num_chains, **options)
    run(num_steps)
    return lambda: run(num_steps).run_seconds / num_steps / num_chains * 1e6
