"""What a step takes on this machine: measured, not counted in rows."""

from collections.abc import Callable
from typing import Any

from jax.sharding import Mesh

from ewsg_jax.base import rng
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.internal_run import inner_run

SECONDS = 0.05
"""Of sampling, at least, that a measurement lasts."""
STEPS, LONGER, MOST = 64, 8, 6
"""Steps to begin with, how many times as many are made where these take less, and how often."""


def seconds_of_step(
    key: Key,
    kernel: Kernel,
    start: Callable[[Key], Any],
    data: Data,
    num_chains: int,
    mesh: Mesh | None = None,
) -> float:
    """Return the seconds that a step of all chains takes, its compilation apart.

    Args:
        key: a typed PRNG key.
        kernel: which.
        start: where chains start.
        data: the rows.
        num_chains: chains.
        mesh: the devices, None for one.
    """
    options: dict[str, Any] = {"keep": None, "mesh": mesh}
    first, *others = rng.keys_of(key, 1 + MOST)
    samples = inner_run(first, kernel, start, data, STEPS, num_chains=num_chains, **options)
    steps = STEPS
    for own in others:
        samples = inner_run(own, kernel, None, data, steps, state=samples.state, **options)
        if samples.run_seconds >= SECONDS:
            break
        steps *= LONGER
    return samples.run_seconds / samples.num_steps
