"""A run whose chains go in batches, one after the other: where all at once do not fit in memory."""

import dataclasses
import warnings
from collections.abc import Callable

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._kernel import KernelState
from ewsg_jax._types import PyTree
from ewsg_jax.sampling.request import Chains
from ewsg_jax.sampling.samples import Samples
from ewsg_jax.sampling.starts import num_chains_of, shares_memory


def of_all(run: Callable[[Chains], Samples], chains: Chains, size: int) -> Samples:
    """Run batch after batch of so many chains, and return the samples of all.

    A batch that an interrupt or a failure ends is left out where others are whole.

    Args:
        run: samples of some of the chains.
        chains: all of them.
        size: chains at once.
    """
    total, parts, draws = num_chains_of(chains), [], None
    for first, end in cut(total, size):
        some = _some(chains, first, end)._replace(total=total)
        try:
            part = run(some)
        except Exception as error:
            if not parts:
                raise
            _warn(f"the chains from {first} on failed: {_check.reason(error)}", first, total)
            break
        if part.interrupted:
            _warn(f"an interrupt ended the run of chains {first} to {first + part.num_chains - 1}", first, total)
            if not parts:
                return part
            break
        draws = _put(draws, part, first, total)
        # In the host's memory, and what was drawn in one place alone.
        parts.append(dataclasses.replace(part, draws=None, state=jax.tree.map(np.asarray, part.state)))
    done = sum(part.num_chains for part in parts)
    return dataclasses.replace(
        _joined(parts, shares_memory(chains.kernel, parts[0].state)),
        draws=jax.tree.map(lambda x: x[:done], draws),
        interrupted=done < total,
    )


def cut(total: int, size: int) -> list[tuple[int, int]]:
    """Return the batches of all chains: the numbers of their first ones, and those behind their last ones."""
    # As even as can be: a last batch of one chain would round differently.
    parts = np.array_split(np.arange(total), -(-total // size))
    return [(int(numbers[0]), int(numbers[-1]) + 1) for numbers in parts]


def _warn(what: str, done: int, total: int) -> None:
    left = f"those of the {done} before them are returned" if done else "what they had sampled is returned"
    warnings.warn(f"{what}; of {total} chains {left}", RuntimeWarning, stacklevel=6)


def _some(chains: Chains, first: int, end: int) -> Chains:
    """Return some of the chains: those whose numbers are from `first` to below `end`."""
    position, state = chains.position, chains.state
    if chains.stacked:
        position = jax.tree.map(lambda x: x[first:end], position)
    if state is not None:
        state = _of_chains(lambda x: x[first:end], [state], shares_memory(chains.kernel, state))
    return chains._replace(position=position, state=state, num_chains=end - first, first=first)


def _of_chains(f: Callable[..., np.ndarray], states: list[KernelState], shared_memory: bool) -> KernelState:
    """Return f of what each chain has of its own, and the first state's memory where chains share it."""
    own = [state._replace(memory=()) if shared_memory else state for state in states]
    made = jax.tree.map(f, *own)
    return made._replace(memory=states[0].memory) if shared_memory else made


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

    first = parts[0]
    counts = np.array([part.num_chains for part in parts])
    spent = np.array([part.evaluations for part in parts])
    names = "index_acceptance", "acceptance", "overflow", "diverged_at"
    moments = None if first.moments is None else dataclasses.replace(
        first.moments, **put([vars(part.moments) for part in parts])
    )  # fmt: skip
    return dataclasses.replace(
        first,
        **{name: put([getattr(part, name) for part in parts]) for name in names},
        moments=moments,
        state=_of_chains(lambda *x: np.concatenate(x), [part.state for part in parts], shared_memory),
        evaluations=np.rint(counts @ spent / counts.sum()).astype(np.int64),
        gradient_evaluations=sum(part.gradient_evaluations for part in parts),
        compile_seconds=sum(part.compile_seconds for part in parts),
        run_seconds=sum(part.run_seconds for part in parts),
    )
