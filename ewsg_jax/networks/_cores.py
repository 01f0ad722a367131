"""Chains on all cores of one processor, some in each of several threads; or on all devices.

A program of XLA for small arrays runs on one core. Two of them, called from two threads, run on
two. Every function is traced in the caller's thread: the first call of a shape runs one group of
chains after the other.
"""

import contextvars
import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.base.compiling import Ahead
from ewsg_jax.base.freshness import as_of_now
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.kernels.protocol import Kernel, KernelState
from ewsg_jax.run.batches import even_batches, joined, with_batch
from ewsg_jax.run.host import on_host
from ewsg_jax.run.plan import plan
from ewsg_jax.run.request import Request
from ewsg_jax.run.run import checked, run
from ewsg_jax.run.samples import Samples


def num_groups(num_chains: int) -> int:
    """Return in how many groups chains run side by side: one for each core of a processor."""
    if jax.default_backend() != "cpu" or jax.device_count() > 1:
        return 1
    return max(1, min(os.cpu_count() or 1, num_chains // 2))


def requests_of_groups(
    key: Key,
    kernel: Kernel,
    state: KernelState,
    data: Data,
    num_steps: int,
    *,
    groups: int,
    thin: int,
    all_steps: int,
) -> list[Request]:
    """Return the request of each group of chains, which together are those of one run.

    Args:
        key: a typed PRNG key.
        kernel: a kernel whose chains share no memory.
        state: states of all chains.
        data: all rows, checked.
        num_steps: steps of each chain.
        groups: the number of groups.
        thin: as for `sample`.
        all_steps: about how many steps all calls make, of which this is one.
    """
    # Over several devices `sample` shares out the chains itself.
    is_one = jax.device_count() == 1
    mesh = None if is_one else Mesh(np.array(jax.devices()), ("chains",))
    total = len(state.step)
    return [
        Request(
            key=key,
            kernel=kernel,
            position=None,
            data=data,
            num_steps=num_steps,
            state=jax.tree.map(lambda x, part=slice(first, end): x[part], state),
            first_chain=first,
            thin=thin,
            progress=False,
            check_data=False,
            all_steps=all_steps,
            mesh=mesh,
        )
        for first, end in even_batches(total, -(-total // groups))
    ]


def compile_groups(requests: list[Request]) -> list[Ahead]:
    """Have a thread compile what `sample_groups` runs; `"steps"` of each is to be waited for.

    Args:
        requests: those of `requests_of_groups`, of whose keys and states the shapes alone count.
    """
    # Groups of one size share a program.
    of_size = {len(jax.tree.leaves(request.state)[0]): request for request in requests}
    with as_of_now(requests[0].kernel):
        return [plan(checked(request))[0].ahead for request in of_size.values()]


def sample_groups(requests: list[Request], *, in_threads: bool) -> Samples:
    """Return what `sample` does of all chains, whose groups run side by side.

    Args:
        requests: those of `requests_of_groups`.
        in_threads: whether they run side by side; the first call of a shape may not.
    """

    def of_group(request: Request) -> Samples:
        with as_of_now(request.kernel):
            samples = run(checked(request))
        assert isinstance(samples, Samples)
        return samples

    if in_threads and len(requests) > 1:
        with ThreadPoolExecutor(len(requests), "ewsg_jax-chains") as pool:
            # What the caller's context holds, such as `jax.enable_x64`.
            futures = [
                pool.submit(contextvars.copy_context().run, of_group, one) for one in requests
            ]
            parts = [future.result() for future in futures]
    else:
        parts = [of_group(one) for one in requests]

    # One run of all chains again; its time is that of the longest, for they ran side by side.
    if any(part.interrupted for part in parts):
        raise KeyboardInterrupt
    draws, total = None, sum(part.num_chains for part in parts)
    for request, part in zip(requests, parts, strict=True):
        draws = with_batch(draws, part, request.first_chain or 0, total)
    parts = [dataclasses.replace(x, draws=None, state=on_host(x.state)) for x in parts]
    longest = max(part.run_seconds for part in parts)
    return dataclasses.replace(joined(parts, False), draws=draws, run_seconds=longest)
