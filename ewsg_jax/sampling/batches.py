"""A run whose chains go in batches, one after the other, where all at once do not fit in memory.

With a checkpoint each batch has one like any other run, in a folder named by the number of its
first chain. All are written before any makes a step, so they are all that a run needs to resume.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._base import _check
from ewsg_jax._base._types import Position, PyTree
from ewsg_jax._base.files import path_of
from ewsg_jax.kernels.protocol import KernelState
from ewsg_jax.sampling import checkpoint, consistency
from ewsg_jax.sampling.checkpoint import BATCH, Earlier
from ewsg_jax.sampling.host import is_key, on_host
from ewsg_jax.sampling.request import Request
from ewsg_jax.sampling.samples import Samples
from ewsg_jax.sampling.starts import num_chains_of, shares_memory


def of_all(
    begin: Callable[[Request], Position],
    run: Callable[[Request, Earlier | None], Samples],
    request: Request,
    size: int,
    earlier: list[Earlier],
) -> Samples:
    """Run batch after batch of `size` chains, and return the samples of all.

    A batch that an interrupt or a failure ends is left out where others are whole.

    Args:
        begin: writes the first checkpoint of some of the chains; returns where they start.
        run: samples of some of the chains, from a checkpoint of theirs.
        request: what is asked for of all of them.
        size: chains at once.
        earlier: the checkpoints from which the run resumes; none of a new one.
    """
    total, parts, draws = num_chains_of(request), [], None
    begins = request.checkpoint is not None and not earlier
    if begins:
        checkpoint.check_new(path_of(request.checkpoint))
        request = request._replace(head=consistency.of_run(request))
    some = [_some(request, *ends, total) for ends in cut(total, size)]
    if begins:
        starts = [begin(each) for each in some]
        earlier = checkpoint.read(request.checkpoint, starts[0])
    for each in some:
        first = each.first
        try:
            # What a checkpoint holds is let go with its batch.
            part = run(each, earlier.pop(0) if earlier else None)
        except Exception as error:
            # Chains that ended are kept: an error in a later batch costs only what follows.
            if not parts:
                raise
            _warn(f"the chains from {first} on failed: {_check.reason(error)}", first, total)
            break
        if part.interrupted:
            _warn(
                f"an interrupt ended the run of chains {first} to {first + part.num_chains - 1}",
                first,
                total,
            )
            if not parts:
                return part
            break
        draws = _put(draws, part, first, total)
        # In the host's memory, and what was drawn in one place alone.
        parts.append(dataclasses.replace(part, draws=None, state=on_host(part.state)))
    done = sum(part.num_chains for part in parts)
    return dataclasses.replace(
        _joined(parts, shares_memory(request.kernel, parts[0].state)),
        draws=jax.tree.map(lambda x: x[:done], draws),
        interrupted=done < total,
    )


def cut(total: int, size: int) -> list[tuple[int, int]]:
    """Return the batches of all chains, as numbers of first ones and of those behind the last."""
    # As even as can be: a last batch of one chain would round differently.
    parts = np.array_split(np.arange(total), -(-total // size))
    return [(int(numbers[0]), int(numbers[-1]) + 1) for numbers in parts]


def _warn(what: str, done: int, total: int) -> None:
    left = (
        f"those of the {done} before them are returned"
        if done
        else "what they had sampled is returned"
    )
    warnings.warn(f"{what}; of {total} chains {left}", RuntimeWarning, stacklevel=6)


def _some(request: Request, first: int, end: int, total: int) -> Request:
    """Return some of the chains: those whose numbers are from `first` to below `end`."""
    position, state, folder = request.position, request.state, request.checkpoint
    # States and starts are cut as the chains are: chain c is the same in any batches.
    if request.stacked:
        position = jax.tree.map(lambda x: x[first:end], position)
    if state is not None:
        state = _of_chains(lambda x: x[first:end], [state], shares_memory(request.kernel, state))
    return request._replace(
        position=position,
        state=state,
        num_chains=end - first,
        first=first,
        total=total,
        checkpoint=None if folder is None else path_of(folder) / BATCH.format(first),
    )


def _of_chains(
    f: Callable[..., np.ndarray], states: list[KernelState], shared_memory: bool
) -> KernelState:
    """Return f of what each chain has of its own, and the shared memory of the first state."""
    own = [state._replace(memory=()) if shared_memory else state for state in states]
    made = jax.tree.map(f, *own)
    return made._replace(memory=states[0].memory) if shared_memory else made


def _behind_each_other(*leaves: PyTree) -> Any:
    return (jnp if is_key(leaves[0]) else np).concatenate(leaves)


def _put(room: PyTree, part: Samples, first: int, total: int) -> PyTree:
    """Return room for the draws of all chains, with a batch's in it."""
    if room is None:
        room = jax.tree.map(lambda x: np.empty((total, *x.shape[1:]), x.dtype), part.draws)

    def write(to: np.ndarray, draws: np.ndarray) -> None:
        to[first : first + len(draws)] = draws

    jax.tree.map(write, room, part.draws)
    return room


def _joined(parts: list[Samples], shared_memory: bool) -> Samples:
    """Return the samples of all chains, but for the draws."""

    def put(trees: list[PyTree]) -> PyTree:
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)

    # What belongs to a run, not to a chain, is that of the first batch.
    first = parts[0]
    counts = np.array([part.num_chains for part in parts])
    # Means over chains, in which a batch counts by how many it has.
    spent = np.array([part.evaluations for part in parts])
    names = "index_acceptance", "acceptance", "overflow", "diverged_at"
    moments = None if first.moments is None else dataclasses.replace(
        first.moments, **put([vars(part.moments) for part in parts])
    )  # fmt: skip
    return dataclasses.replace(
        first,
        **{name: put([getattr(part, name) for part in parts]) for name in names},
        moments=moments,
        state=_of_chains(_behind_each_other, [part.state for part in parts], shared_memory),
        evaluations=np.rint(counts @ spent / counts.sum()).astype(np.int64),
        gradient_evaluations=sum(part.gradient_evaluations for part in parts),
        compile_seconds=sum(part.compile_seconds for part in parts),
        run_seconds=sum(part.run_seconds for part in parts),
    )
