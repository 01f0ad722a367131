"""Chains in batches, one after the other, when all at once do not fit on the device.

A batch is a run of its own: that of `first_chain` and the chains that follow it. Its checkpoint, if
there is one, is the folder `chains-c`, c being the number of its first chain.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.files import path_of
from ewsg_jax.base.typing import PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.kernels.protocol import KernelState
from ewsg_jax.run.checkpoint import BATCH_FOLDER, check_new
from ewsg_jax.run.host import is_key, on_host
from ewsg_jax.run.request import Request
from ewsg_jax.run.samples import Samples
from ewsg_jax.run.starts import num_chains_of, shares_memory


def sample_in_batches(run: Callable[[Request], Samples], request: Request) -> Samples:
    """Run batch after batch of `request.chain_batch_size` chains; return the samples of all.

    If an interrupt or an error ends a batch, the batches before it are returned.

    Args:
        run: returns the samples of one batch.
        request: what is requested of all chains.

    Raises:
        ValueError: the checkpoint folder holds a run already.
    """
    if request.checkpoint is not None:
        check_new(path_of(request.checkpoint))
    total, batches, draws = num_chains_of(request), [], None
    for first, end in even_batches(total, int(request.chain_batch_size or total)):
        try:
            batch = run(_request_of(request, first, end, total))
        except (Exception, KeyboardInterrupt) as error:
            # Chains that ended are kept: an error in a later batch costs only what follows.
            if not batches:
                raise
            why = "were interrupted"
            if isinstance(error, Exception):
                why = f"failed: {checks.reason(error)}"
            _warn_of_missing(f"the chains from {first} on {why}", first, total)
            break
        if batch.interrupted:
            chains = f"chains {first} to {end - 1}"
            _warn_of_missing(f"an interrupt ended the run of {chains}", first, total)
            if not batches:
                return batch
            break
        draws = with_batch(draws, batch, first, total)
        # In the host's memory, and the draws in the array of all chains alone.
        batches.append(dataclasses.replace(batch, draws=None, state=on_host(batch.state)))
    done = sum(batch.num_chains for batch in batches)
    return dataclasses.replace(
        joined(batches, shares_memory(request.kernel, batches[0].state)),
        draws=jax.tree.map(lambda x: x[:done], draws),
        interrupted=done < total,
    )


def even_batches(total: int, size: int) -> list[tuple[int, int]]:
    """Return the number of the first chain of each batch, and of the one behind its last."""
    # As even as can be: a last batch of one chain would round differently.
    parts = np.array_split(np.arange(total), -(-total // size))
    return [(int(numbers[0]), int(numbers[-1]) + 1) for numbers in parts]


def _request_of(request: Request, first: int, end: int, total: int) -> Request:
    """Return the request of the chains whose numbers are from `first` to below `end`."""
    position, state, folder = request.position, request.state, request.checkpoint
    if request.stacked:
        position = jax.tree.map(lambda x: x[first:end], position)
    if state is not None:
        shared_memory = shares_memory(request.kernel, state)
        state = _map_chains(lambda x: x[first:end], [state], shared_memory)
    return request._replace(
        position=position,
        state=state,
        num_chains=end - first,
        first_chain=first,
        total_chains=total,
        chain_batch_size=None,
        checkpoint=None if folder is None else path_of(folder) / BATCH_FOLDER.format(first),
    )


def _warn_of_missing(what: str, done: int, total: int) -> None:
    kept = f"those of the {done} before them are" if done else "what they had sampled is"
    warn(f"{what}; of {total} chains {kept} returned")


def _map_chains(
    f: Callable[..., np.ndarray], states: list[KernelState], shared_memory: bool
) -> KernelState:
    """Return f of the arrays with a chain axis, and a shared memory as the first state has it."""
    if not shared_memory:
        return jax.tree.map(f, *states)
    mapped = jax.tree.map(f, *[state._replace(memory=()) for state in states])
    return mapped._replace(memory=states[0].memory)


def with_batch(draws: PyTree, batch: Samples, first: int, total: int) -> PyTree:
    """Return arrays for the draws of all chains, with those of a batch written into them."""
    if draws is None:
        draws = jax.tree.map(lambda x: np.empty((total, *x.shape[1:]), x.dtype), batch.draws)

    def write(target: np.ndarray, source: np.ndarray) -> None:
        target[first : first + len(source)] = source

    jax.tree.map(write, draws, batch.draws)
    return draws


def joined(batches: list[Samples], shared_memory: bool) -> Samples:
    """Return the samples of all chains, without their draws."""

    def concatenated(*leaves: PyTree) -> Any:
        return (jnp if is_key(leaves[0]) else np).concatenate(leaves)

    first, counts = batches[0], np.array([batch.num_chains for batch in batches])
    moments = None
    if first.moments is not None:
        trees = [vars(batch.moments) for batch in batches]
        moments = dataclasses.replace(first.moments, **jax.tree.map(concatenated, *trees))
    names = "index_acceptance", "acceptance", "overflow", "diverged_at"
    # A mean over chains: each batch counts by how many it has.
    evaluations = counts @ np.array([batch.evaluations for batch in batches]) / counts.sum()
    # What belongs to a run and not to a chain is that of the first batch.
    return dataclasses.replace(
        first,
        **{name: concatenated(*[getattr(batch, name) for batch in batches]) for name in names},
        moments=moments,
        state=_map_chains(concatenated, [batch.state for batch in batches], shared_memory),
        evaluations=np.rint(evaluations).astype(np.int64),
        gradient_evaluations=sum(batch.gradient_evaluations for batch in batches),
        compile_seconds=sum(batch.compile_seconds for batch in batches),
        run_seconds=sum(batch.run_seconds for batch in batches),
    )
