"""The time that a step takes on this machine, measured."""

from collections.abc import Callable
from typing import Any

from jax.sharding import Mesh

from ewsg_jax.answers.plan import settings
from ewsg_jax.base import rng
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.run.sample import inner_run


def seconds_per_step(
    key: Key,
    kernel: Kernel,
    start: Callable[[Key], Any],
    data: Data,
    num_chains: int,
    mesh: Mesh | None = None,
) -> float:
    """Return the seconds that one step of all chains takes, without compiling.

    Args:
        key: a typed PRNG key.
        kernel: the kernel that is measured.
        start: a function of a key that returns the start of a chain.
        data: all n rows.
        num_chains: number of chains.
        mesh: devices that share the rows; None for one.
    """
    options: dict[str, Any] = {"keep": None, "mesh": mesh}
    first, *others = rng.keys_of(key, 7)
    # Lengthened five times by eight it makes two million steps.
    steps = 64
    samples = inner_run(first, kernel, start, data, steps, num_chains=num_chains, **options)
    for for_run in others:
        samples = inner_run(for_run, kernel, None, data, steps, state=samples.state, **options)
        if samples.run_seconds >= settings.TIMED_SECONDS:
            break
        steps *= 8
    return samples.run_seconds / samples.num_steps
