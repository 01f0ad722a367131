"""A run of batches of chains on disk: one small file of the whole, and a checkpoint like any other for each batch.

The file of the whole, written before the first batch begins, says what was asked for and where all chains start.
The batch whose first chain is number c is in the folder `chains-c`; one that has none has not begun. A batch is of
the run whose mark it bears.
"""

import functools
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import PyTree
from ewsg_jax.files import path_of
from ewsg_jax.sampling import archive, by_batches, fingerprint, written
from ewsg_jax.sampling.checkpoint import Saving
from ewsg_jax.sampling.request import Chains, Manner, Wanted
from ewsg_jax.sampling.starts import is_function, make_starts, num_chains_of, split
from ewsg_jax.sampling.written import BATCHES, NAME, RUN, Batches, Earlier

FOLDER = "chains-{:06d}"


class BatchFiles:
    """Where the batches of a run are written, and what is there of them; nowhere without a checkpoint."""

    def __init__(
        self, chains: Chains, wanted: Wanted, manner: Manner, saving: Saving, batches: Batches | None = None
    ) -> None:
        """Read what there is of a run that is taken up again, in the host's memory.

        Raises:
            ValueError: a batch is damaged, or of another run.
            OSError: a file cannot be read.
        """
        self._asked, self._saving = (chains, wanted, manner), saving
        self._head = None if batches is None else batches.head
        self._there: dict[int, Earlier] = {}
        if batches is not None:
            for first, _ in by_batches.cut(num_chains_of(chains), batches.head["chain_batch_size"]):
                folder = path_of(saving.checkpoint) / FOLDER.format(first)
                if (folder / RUN).exists():
                    self._there[first] = _read(folder, batches, first)

    def of(self, some: Chains) -> tuple[Chains, Saving, Earlier | None]:
        """Return a batch as it goes on, where it is written, and what is there of it."""
        if self._saving.checkpoint is None:
            return some, self._saving, None
        folder = path_of(self._saving.checkpoint) / FOLDER.format(some.first)
        earlier = self._there.pop(some.first, None)
        if earlier is not None:
            some = some._replace(position=None, state=earlier.state, stacked=False)
        return some, Saving(folder, self._saving.every, functools.partial(self._begun, some.first)), earlier

    def _begun(self, first: int) -> dict[str, Any]:
        """Return what the batch from a chain on is of; write that of the whole, where none is yet.

        Raises:
            ValueError: a run is there already.
            OSError: the file cannot be written.
        """
        if self._head is None:
            chains, wanted, manner = self._asked
            folder = path_of(self._saving.checkpoint)
            written.check_new(folder)
            size = int(manner.chain_batch_size or 1)
            starts = _starts(chains, size)
            head = fingerprint.of_run(*self._asked) | {
                "num_steps": None if wanted.num_steps is None else int(wanted.num_steps),
                "data_passes": None if wanted.data_passes is None else float(wanted.data_passes),
                "num_chains": num_chains_of(chains),
                "chain_batch_size": size,
                "mark": os.urandom(16).hex(),
            }
            folder.mkdir(exist_ok=True)
            archive.write(folder / RUN, {"format": BATCHES, "head": head, "starts": starts}, NAME, _like(starts))
            self._head = head
        return self._head | {"first": first}


def _read(folder: Path, batches: Batches, first: int) -> Earlier:
    found = written.read(folder, _like(batches.starts))
    if (found.head.get("mark"), found.head.get("first")) != (batches.head["mark"], first):
        raise ValueError(
            f"path must be a checkpoint of ewsg_jax.sample; got {os.fspath(folder.parent)!r}, in which "
            f"{folder.name} is of another run"
        )
    # The states of all batches need not fit on the device.
    return found._replace(state=jax.tree.map(np.asarray, found.state))


def _starts(chains: Chains, size: int) -> dict[str, Any]:
    """Return where all chains start, in numbers, by the names of what `Chains` takes."""
    position, state, stacked = chains.position, chains.state, chains.stacked
    if position is not None and is_function(position):
        # By batches, as in the run itself: not all may fit on the device.
        key, stacked = split(chains.key)[0], True
        parts = [
            jax.tree.map(np.asarray, make_starts(key, position, end - first, False, first))
            for first, end in by_batches.cut(num_chains_of(chains), size)
        ]
        position = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    elif position is not None:
        position = jax.tree.map(np.asarray, _check.position(position))
    return {"position": position, "state": state, "stacked": stacked}


def _like(starts: dict[str, Any]) -> PyTree:
    """Return a tree of the structure of a position."""
    return starts["position"] if starts["state"] is None else starts["state"].position
