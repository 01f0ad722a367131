"""A run whose chains go in batches, one after the other, where all at once do not fit in memory;
and its files.

On disk it is one small file of the whole, and a checkpoint like any other for each batch. The file
of the whole, written before the first batch starts, says what was asked for and where all chains
start. The batch whose first chain is number c is in the folder `chains-c`; one that has none has
not started. A batch belongs to the run whose mark it has.
"""

import dataclasses
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.files import path_of
from ewsg_jax.base.typing import PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.kernels.protocol import KernelState
from ewsg_jax.run import checkpoint, consistency, states
from ewsg_jax.run.checkpoint import HOLDS, HOLDS_BATCHES, RUN, Batches, Earlier
from ewsg_jax.run.host import is_key, on_host
from ewsg_jax.run.request import Request
from ewsg_jax.run.samples import Samples
from ewsg_jax.run.starts import is_function, keys_of, make_starts, num_chains_of, shares_memory

FOLDER = "chains-{:06d}"


def of_all(run: Callable[[Request], Samples], request: Request, size: int) -> Samples:
    """Run batch after batch of `size` chains, and return the samples of all.

    A batch that an interrupt or a failure ends is left out where others are whole.

    Args:
        run: samples of some of the chains.
        request: what is asked for of all of them.
        size: chains at once.
    """
    total, parts, draws = num_chains_of(request), [], None
    for first, end in cut(total, size):
        some = _some(request, first, end)._replace(total=total)
        try:
            part = run(some)
        except (Exception, KeyboardInterrupt) as error:
            # Chains that ended are kept: an error in a later batch costs only what follows.
            if not parts:
                raise
            why = "were interrupted"
            if isinstance(error, Exception):
                why = f"failed: {checks.reason(error)}"
            _warn(f"the chains from {first} on {why}", first, total)
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
    warn(f"{what}; of {total} chains {left}")


def _some(request: Request, first: int, end: int) -> Request:
    """Return some of the chains: those whose numbers are from `first` to below `end`."""
    position, state = request.position, request.state
    # States and starts are cut as the chains are: chain c is the same in any batches.
    if request.stacked:
        position = jax.tree.map(lambda x: x[first:end], position)
    if state is not None:
        state = _of_chains(lambda x: x[first:end], [state], shares_memory(request.kernel, state))
    return request._replace(position=position, state=state, num_chains=end - first, first=first)


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


class BatchFiles:
    """Where the batches of a run are written, and what exists; nowhere without a checkpoint."""

    def __init__(self, request: Request, batches: Batches | None = None) -> None:
        """Read what there is of a run that is resumed, in the host's memory.

        Raises:
            ValueError: a batch is damaged, or of another run.
            OSError: a file cannot be read.
        """
        self._request = request
        self._head = None if batches is None else batches.head
        self._there: dict[int, Earlier] = {}
        if batches is not None:
            for first, _ in cut(num_chains_of(request), batches.head["chain_batch_size"]):
                folder = path_of(request.checkpoint) / FOLDER.format(first)
                # A batch that had not begun has no file, and is run from its start.
                if (folder / RUN).exists():
                    like = batches.position if batches.state is None else batches.state.positions
                    self._there[first] = _read(folder, batches, first, like)

    def of(self, some: Request) -> tuple[Request, Earlier | None]:
        """Return a batch's request as it continues, where it is written, and what exists."""
        if self._request.checkpoint is None:
            return some, None
        folder = path_of(self._request.checkpoint) / FOLDER.format(some.first)
        earlier = self._there.pop(some.first, None)
        if earlier is not None:
            state = states.restored(earlier.state, some.kernel, some.data)
            some = some._replace(position=None, state=state, stacked=False)
        return some._replace(
            checkpoint=folder, begun=functools.partial(self._begun, some.first)
        ), earlier

    def _begun(self, first: int) -> dict[str, Any]:
        """Return what the batch from a chain on is of; write that of the whole, where none is yet.

        Raises:
            ValueError: a run is there already.
            OSError: the file cannot be written.
        """
        # Once, before the first batch: later ones find it written.
        if self._head is None:
            request = self._request
            folder = path_of(request.checkpoint)
            checkpoint.check_new(folder)
            size = int(request.chain_batch_size or 1)
            head = consistency.of_run(request) | {
                "num_steps": None if request.num_steps is None else int(request.num_steps),
                "data_passes": None if request.data_passes is None else float(request.data_passes),
                "num_chains": num_chains_of(request),
                "chain_batch_size": size,
                # The mark tells batches of this run from those of another in the same folder.
                "mark": os.urandom(16).hex(),
            }
            checkpoint.write_batches(folder, head, *_starts(request, size))
            self._head = head
        return self._head | {"first": first}


def _read(folder: Path, batches: Batches, first: int, position: PyTree) -> Earlier:
    found = checkpoint.read(folder, position)
    if isinstance(found, Batches):
        raise checkpoint.unreadable(folder / RUN, f"it holds {HOLDS_BATCHES}, not {HOLDS}")
    if (found.head.get("mark"), found.head.get("first")) != (batches.head["mark"], first):
        raise ValueError(
            f"path must be a checkpoint of ewsg_jax.sample; got {os.fspath(folder.parent)!r}, in "
            f"which {folder.name} is of another run"
        )
    return found


def _starts(request: Request, size: int) -> tuple[PyTree, KernelState | None, bool]:
    """Return where chains start: position, state, and whether positions have a chain axis."""
    position, stacked = request.position, bool(request.stacked)
    if position is not None and is_function(position):
        # By batches, as in the run itself: not all may fit on the device.
        stacked, parts = True, []
        for first, end in cut(num_chains_of(request), size):
            keys = keys_of(request.key, end - first, first)
            made = make_starts(keys, position, end - first, False)
            parts.append(jax.tree.map(np.asarray, made))
        position = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    elif position is not None:
        position = jax.tree.map(np.asarray, checks.position(position))
    return position, request.state, stacked
