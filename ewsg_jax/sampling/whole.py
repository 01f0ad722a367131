"""A run, from what is asked for to what came out."""

import os
import warnings

from ewsg_jax import _check
from ewsg_jax.files import path_of
from ewsg_jax.sampling import alike, batches, fingerprint, parts
from ewsg_jax.sampling.afterwards import Look
from ewsg_jax.sampling.batches import BatchFiles
from ewsg_jax.sampling.checkpoint import Batches, Earlier, Saving
from ewsg_jax.sampling.collecting import collect
from ewsg_jax.sampling.health import warn_of_overflow
from ewsg_jax.sampling.request import Chains, Manner, Wanted, check
from ewsg_jax.sampling.samples import Samples
from ewsg_jax.sampling.spreading import of_data_sets, spread
from ewsg_jax.sampling.stacked import StackedSamples, told_apart
from ewsg_jax.sampling.starts import shares_memory
from ewsg_jax.sampling.windows import Windows
from ewsg_jax.stacking.data import StackedData
from ewsg_jax.stacking.kernels import Stack
from ewsg_jax.streams import Stream


def checked(asked: Chains, wanted: Wanted, manner: Manner, saving: Saving) -> tuple[Chains, Wanted]:
    """Check each argument by itself; return the chains, their data as arrays of JAX, and what is kept of each.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; the message names it.
    """
    if saving.checkpoint is not None:
        path_of(saving.checkpoint, "checkpoint")
    _check.positive("checkpoint_every", saving.every)
    if isinstance(asked.data, StackedData):
        asked = of_data_sets(asked, asked.data)
    if isinstance(asked.kernel, Stack):
        asked, wanted = spread(asked.kernel, asked, wanted)
    return check(asked, wanted, manner), wanted


def run(
    chains: Chains, wanted: Wanted, manner: Manner, saving: Saving, earlier: Earlier | Batches | None = None
) -> Samples | StackedSamples:
    """Plan, run and collect.

    Args:
        chains: which.
        wanted: how long, and what is kept.
        manner: how.
        saving: where checkpoints go.
        earlier: the checkpoint from which the run is taken up again, with its states, or starts, among the chains.

    Raises:
        TypeError, ValueError: arguments do not go together; the message names one.
    """
    kernel = chains.kernel
    if chains.devices is not None and chains.devices.has_many_processes:
        alike.check(chains, wanted, manner)
    if earlier is not None:
        _check_same(chains, wanted, manner, saving, earlier)

    look = Look(chains)

    def run_some(some: Chains, saving: Saving, earlier: Earlier | None) -> Samples:
        if isinstance(some.data, Stream):
            return of_stream(some, some.data, saving, earlier)
        planned, outcome = parts.plan(some, wanted, manner, saving, earlier)
        compiled = parts.run(planned, outcome, wanted.seconds, manner.progress)
        outcome.watch.warn(kernel, outcome.state, some.data)
        look.keep(outcome.watch.start, some.data)
        return collect(some, wanted, planned, outcome, compiled)

    def of_stream(some: Chains, stream: Stream, saving: Saving, earlier: Earlier | None) -> Samples:
        windows = Windows(stream, some.key, kernel, bool(manner.check_data))
        try:
            # No window but those at hand is held on to.
            planned, outcome = parts.plan(some, wanted, manner, saving, earlier, windows)
            compiled = parts.run(planned, outcome, wanted.seconds, manner.progress, windows)
            outcome.watch.warn(kernel, outcome.state, windows.last.rows)
            look.keep(outcome.watch.start, windows.last.rows)
            return collect(some._replace(data=windows.last), wanted, planned, outcome, compiled)
        finally:
            windows.close()

    if manner.chain_batch_size is None:
        assert not isinstance(earlier, Batches)
        samples = run_some(chains, saving, earlier)
    else:
        assert not isinstance(earlier, Earlier)
        files = BatchFiles(chains, wanted, manner, saving, earlier)
        samples = batches.of_all(lambda some: run_some(*files.of(some)), chains, manner.chain_batch_size)
    warn_of_overflow(samples.overflow)
    samples = look.judged(samples)
    if not isinstance(kernel, Stack):
        return samples
    return told_apart(kernel, samples, shares_memory(kernel, samples.state), chains.data_sets)


def _check_same(chains: Chains, wanted: Wanted, manner: Manner, saving: Saving, earlier: Earlier | Batches) -> None:
    """Check that a run is taken up again with what it was of.

    Raises:
        ValueError: the kernel, the data or what is kept is another.
    """
    now, then = fingerprint.of_run(chains, wanted, manner), earlier.head
    where = f"the run in {os.fspath(saving.checkpoint)!r}"
    if now["x64"] != then["x64"]:
        raise ValueError(f"jax_enable_x64 must be {then['x64']}, as in {where}; got {now['x64']}")
    for name, argument in (("kernel", "kernel"), ("kept", "keep, keep_when and moments"), ("data", "data")):
        if now[name] != then[name]:
            differ = [part for part in now[name] if now[name][part] != then[name][part]]
            told = "other numbers" if differ == ["numbers"] else f"{now[name][differ[0]]}"
            wants = "the same" if differ == ["numbers"] else f"{then[name][differ[0]]}"
            raise ValueError(f"{argument} must be that of {where}, {wants}; got {told}")
    others = {name: (then["programs"][name], now["programs"][name]) for name in now["programs"]}
    changed = [f"{name} {old} is now {new}" for name, (old, new) in others.items() if old != new]
    if changed:
        warnings.warn(
            f"{where} was begun by other programs ({', '.join(changed)}): what follows is of the same law, but "
            "maybe not bit for bit what it would have been",
            RuntimeWarning,
            stacklevel=4,
        )
