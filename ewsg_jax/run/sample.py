"""Run a kernel: chains side by side, in compiled calls from a host loop; resume an ended one."""

import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypedDict, Unpack, overload

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from ewsg_jax.base import checks
from ewsg_jax.base.freshness import as_of_now
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree
from ewsg_jax.kernels.protocol import Kernel, KernelState
from ewsg_jax.model_checks.finding import from_dictionaries
from ewsg_jax.run import run
from ewsg_jax.run.checkpoint import read
from ewsg_jax.run.moments import MomentPlan, positions
from ewsg_jax.run.moments import from_written as moments_from
from ewsg_jax.run.of_plan import SamplePlan, takes_plan
from ewsg_jax.run.request import Request, Stacked
from ewsg_jax.run.samples import Samples
from ewsg_jax.run.stacked import StackedSamples
from ewsg_jax.run.stacks.data import StackedData
from ewsg_jax.run.stacks.kernels import Stack
from ewsg_jax.run.starts import is_function


class SharedOptions(TypedDict, Generic[P], total=False):
    """The keyword arguments that `sample` and `resume` share, for a reader of types."""

    seconds: float | None
    keep: Callable[[P], PyTree] | None
    keep_when: Callable[[Array], Any] | None
    moments: MomentPlan | None
    progress: bool
    memory_limit: int | None
    check_data: bool
    checkpoint_every: float
    mesh: Mesh | None
    batches: Iterable[Any] | None


class SampleOptions(SharedOptions[P], total=False):
    """The keyword arguments of `sample`."""

    data_passes: float | None
    num_chains: int
    burn_in: int
    thin: int
    state: KernelState[P] | None
    stacked: Stacked
    shared_minibatch: bool
    first_chain: int | None
    chain_batch_size: int | None
    randomness_memory: int
    checkpoint: str | os.PathLike[str] | None


class PlannedOptions(SampleOptions[P], total=False):
    """The keyword arguments of `sample` with a plan, in addition to its own."""

    kernel: Kernel[P]
    position: P | Callable[[Key], Position] | None


class ResumeOptions(SharedOptions[P], total=False):
    """The keyword arguments of `resume`, apart from the kernel."""

    position: P | None


@overload
def sample(
    key: Key,
    plan: SamplePlan[P],
    data: Data,
    num_steps: int | None = None,
    **options: Unpack[PlannedOptions[P]],
) -> Samples[P]: ...


@overload
def sample(  # pyright: ignore[reportOverlappingOverload]  # a stack is a kernel, the first one that fits counts
    key: Key,
    kernel: Stack[P],
    position: P | Callable[[Key], Position] | None,
    data: Data,
    num_steps: int | None = None,
    **options: Unpack[SampleOptions[P]],
) -> StackedSamples[P]: ...


@overload
def sample(
    key: Key,
    kernel: Kernel[P],
    position: P | Callable[[Key], Position] | None,
    data: StackedData,
    num_steps: int | None = None,
    **options: Unpack[SampleOptions[P]],
) -> StackedSamples[P]: ...


@overload
def sample(
    key: Key,
    kernel: Kernel[P],
    position: P | Callable[[Key], Position] | None,
    data: Data,
    num_steps: int | None = None,
    **options: Unpack[SampleOptions[P]],
) -> Samples[P]: ...


@takes_plan
def sample(
    key: Key,
    kernel: Kernel[P],
    position: P | Callable[[Key], Position] | None,
    data: Data,
    num_steps: int | None = None,
    *,
    data_passes: float | None = None,
    seconds: float | None = None,
    num_chains: int = 1,
    burn_in: int = 0,
    thin: int = 1,
    keep: Callable[[P], PyTree] | None = positions,
    keep_when: Callable[[Array], Any] | None = None,
    moments: MomentPlan | None = None,
    state: KernelState[P] | None = None,
    stacked: Stacked = False,
    shared_minibatch: bool = False,
    first_chain: int | None = None,
    chain_batch_size: int | None = None,
    progress: bool = True,
    randomness_memory: int = 256 * 2**20,
    memory_limit: int | None = None,
    check_data: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    mesh: Mesh | None = None,
    batches: Iterable[Any] | None = None,
) -> Samples[P] | StackedSamples[P]:
    """Run many chains of a kernel and keep their draws.

    It runs a host loop over compiled calls, so call it outside `jit` and `vmap`. For many chains
    give `num_chains`; for a program of your own put `kernel.init` and `kernel.step` into a
    `jax.lax.scan`.

    Args:
        key: a typed PRNG key; the randomness of chain c at step t is a function of (key, c, t)
            alone.
        kernel: a named method or `ewsg_jax.kernel(dynamics, estimator)`; or a stack of kernels, by
            `ewsg_jax.stack`, each member of which is given the other arguments. Or what
            `ewsg_jax.plan` returned, then followed by the data: `sample(key, plan, data)` takes
            kernel, position, `data_passes`, `num_chains`, `burn_in`, `thin` and `moments` from the
            plan. Each may be given by name and then counts instead; with `state` a run continues
            without a second burn-in.
        position: the starting point, a pytree of floating-point arrays; or a function of a key that
            returns one, called once per chain; or, with `stacked=True`, a pytree with a leading
            chain axis.
        data: a pytree of arrays that share their leading axis, the n rows; or several data sets, by
            `ewsg_jax.stack_data`, each sampled by itself with randomness of its own; or more rows
            than memory holds, by `ewsg_jax.stream`.
        num_steps: steps of each chain, burn-in included.
        data_passes: instead of `num_steps`, the largest number of steps whose evaluations stay
            within this many passes over the data, per chain.
        seconds: a bound on the time of sampling in seconds, above 0, in addition to one of these:
            the run ends at whichever comes first. The compiled call in which the time is up, of
            about half a second or of one block of steps, is the last one; time to compile does not
            count. The draws are those of a run of `samples.num_steps` steps. Default: no bound.
        num_chains: chains run side by side; with `stacked=True` or `state` it follows from them.
        burn_in: first steps that are not kept.
        thin: keep every thin-th step after the burn-in.
        keep: the function of the position that is kept, evaluated at kept steps only; None keeps no
            draws. Default: the position.
        keep_when: a function of a step's number, as in `samples.step`: of the steps that `burn_in`
            and `thin` leave, only those for which it is true are kept, such as the ends of a
            cyclical schedule's phases. Default: all are kept.
        moments: running moments over the kept steps, or over all after the burn-in, as
            `ewsg_jax.moments` describes them. Default: none.
        state: `samples.state` of an earlier run of this kernel, to continue from there; then
            `position` is None. With the same key it continues as if never stopped. The data must
            be those of that run, in their order. A chain that diverged starts again from its last
            finite state; in a stack it stays there.
        stacked: whether `position` has a leading chain axis. By default all members of a stack, of
            kernels or data sets, share their starting points. With "members", the pytree (or what
            the function of a key returns) has a leading axis of members.
        shared_minibatch: draw one batch a step for all chains: much faster for many chains. The
            distribution of each chain is the same, but chains are no longer independent, so errors
            estimated between chains are too small (`samples.shared_minibatch` reports it, and
            `ewsg_jax.check` allows for it).
        first_chain: number (at least 0) of the first chain, to run some chains of a larger run by
            themselves: `first_chain=20, num_chains=10` are the chains 20 to 29 of any run
            with this key. `position` and `state`, if they have an axis of chains, are those of this
            batch. It makes all its steps even if all its chains diverge, as the other batches do.
            Default: the chains 0, 1, … are the whole run.
        chain_batch_size: run this many chains at a time, one batch after the other, if all at once
            do not fit in the device's memory: the same draws, bit for bit with two or more at a
            time. Draws and states of all are then in the host's memory. Not with `seconds`.
            Default: all at once.
        progress: show a bar if tqdm is installed.
        randomness_memory: bytes that the randomness drawn ahead and the rows gathered for it may
            take; default 256 MiB.
        memory_limit: bytes that the run may take, its data not counted; default: what is free. The
            sizes are worked out from shapes, and a run that is too large is refused before anything
            is made.
        check_data: look once for NaN and infinity in the data, and for labels that the model does
            not know.
        checkpoint: path of a new folder in which checkpoints of the run are written, each file
            whole or not at all: `ewsg_jax.resume(checkpoint, data, kernel=kernel)` resumes after a
            kill, bit for bit. With `chain_batch_size` each batch is a run with a checkpoint of its
            own in it, `chains-000000` and so on. Default: no checkpoints.
        checkpoint_every: seconds between checkpoints; more if writing would take over a twentieth
            of the time.
        mesh: several devices, as a `jax.sharding.Mesh` with the axes `"chains"`, `"data"` or both.
            Along `"chains"` each has a part of the chains: the same draws, bit for bit if XLA
            rounds alike. Along `"data"` each has a part of the rows and draws its share of every
            batch from them: another scheme of batches, unbiased too, and one sum of d numbers over
            the devices for each chain and gradient. See `docs/scaling.md`. Default: one device.
        batches: in the place of `data`, which is then None: the batches of the steps, one each for
            all chains, of a kernel on `gradients.streamed`. A loader (of PyTorch, grain, tf.data)
            is read from its beginning and begins again when it ends, and a run that continues
            leaves out the batches of the steps before; an iterator is read on from where it is. If
            it ends or yields what is no such batch, so does the run, which returns what was
            sampled. See `docs/loaders.md`. Default: the kernel draws its batches from the data.

    Returns:
        The draws and what they cost; for a stack of kernels or data sets a `StackedSamples`, whose
        items they are. An interrupt (Ctrl-C) ends the run early and returns what was sampled. A
        chain that diverges stays at its last finite position, with a warning, and the others
        continue unchanged; when none is left the run ends.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or `seconds` are over before
            a draw is kept; the message names it.
        ValueError: in a run over several processes, these were given different arguments; the
            message names them.
        OSError, ValueError: the first rows of a stream cannot be read, or are wrong; later ones end
            the run.
        RuntimeError: this process is a fork of one that has run programs.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jax.random.normal(jax.random.key(0), (50, 2))
        >>> kernel = ewsg.ewsg(ewsg.models.gaussian_location(), 1e-2, friction=10.0, batch_size=5)
        >>> samples = ewsg.sample(
        ...     jax.random.key(1),
        ...     kernel,
        ...     jnp.zeros(2),
        ...     data,
        ...     200,
        ...     num_chains=4,
        ...     burn_in=100,
        ...     thin=10,
        ... )
        >>> samples.position.shape, samples.data_passes
        ((4, 10, 2), 40.0)
        >>> more = ewsg.sample(
        ...     jax.random.key(1), kernel, None, data, 100, state=samples.state, thin=10
        ... )
        >>> more.step[[0, -1]]
        array([210, 300])
    """
    request = Request(
        key=key,
        kernel=kernel,
        position=position,
        data=data,
        num_steps=num_steps,
        data_passes=data_passes,
        seconds=seconds,
        num_chains=num_chains,
        burn_in=burn_in,
        thin=thin,
        keep=keep,
        keep_when=keep_when,
        moments=moments,
        state=state,
        stacked=stacked,
        shared_minibatch=shared_minibatch,
        first_chain=first_chain,
        chain_batch_size=chain_batch_size,
        progress=progress,
        randomness_memory=randomness_memory,
        memory_limit=memory_limit,
        check_data=check_data,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        mesh=mesh,
        batches=batches,
    )
    # What functions read is fixed as of now, so that a program never sees an old value.
    with as_of_now(kernel, position if is_function(position) else None, keep, keep_when, moments):
        checked = run.checked(request)
        # The run has its own arrays of JAX: data that the caller does not keep are freed.
        del request, data
        return run.run(checked)


@overload
def resume(  # pyright: ignore[reportOverlappingOverload]  # a stack is a kernel, the first one that fits counts
    path: str | os.PathLike[str],
    data: Data,
    *,
    kernel: Stack[P],
    **options: Unpack[ResumeOptions[P]],
) -> StackedSamples[P]: ...


@overload
def resume(
    path: str | os.PathLike[str],
    data: StackedData,
    *,
    kernel: Kernel[P],
    **options: Unpack[ResumeOptions[P]],
) -> StackedSamples[P]: ...


@overload
def resume(
    path: str | os.PathLike[str],
    data: Data,
    *,
    kernel: Kernel[P],
    **options: Unpack[ResumeOptions[P]],
) -> Samples[P]: ...


def resume(
    path: str | os.PathLike[str],
    data: Data,
    *,
    kernel: Kernel[P],
    keep: Callable[[P], PyTree] | None = positions,
    keep_when: Callable[[Array], Any] | None = None,
    moments: MomentPlan | None = None,
    position: P | None = None,
    seconds: float | None = None,
    checkpoint_every: float = 60.0,
    progress: bool = True,
    memory_limit: int | None = None,
    check_data: bool = True,
    mesh: Mesh | None = None,
    batches: Iterable[Any] | None = None,
) -> Samples[P] | StackedSamples[P]:
    """Resume a run of `ewsg_jax.sample(…, checkpoint=path)` from its last checkpoint, to its end.

    Draws are bit for bit those of a run that was never stopped, and running moments are the same to
    rounding. A run that had ended is read, not run. Its length, which steps it keeps, its key and
    its `first_chain` are in the file. Batches of chains are resumed one by one, each from its
    folder.

    Args:
        path: the folder of the checkpoint; the run writes its next checkpoints there.
        data: the same data as before.
        kernel: a kernel equal to the one that began the run. Functions are not in the file, but a
            digest of each is: of its code, without comments, docstrings and names of variables, and
            of the values that it reads.
        keep: the same function as before, if one was given.
        keep_when: the same function as before, if one was given.
        moments: the same running moments as before, if there were any. Default: those of the
            position, if the run had these.
        position: a pytree of the structure of the run's position, as for `ewsg_jax.load`; needed
            if it is of other classes than dictionaries, lists and tuples.
        seconds: a bound on the time from here on, in seconds; default: what is left of the run's
            own bound, if it had one.
        checkpoint_every: seconds between checkpoints.
        progress: show a bar if tqdm is installed.
        memory_limit: bytes that the run may take, as for `sample`.
        check_data: look once for wrong values in the data, as for `sample`.
        mesh: the devices from here on, as for `sample`, which may be more or fewer than before, or
            others. Rows stay cut into as many parts as they were; each device along `"data"` has
            one or several.
        batches: as for `sample`, for a run on batches; `data` is then None. A loader is read from
            its beginning, without the batches of the steps before; an iterator must be at the next
            one.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the path is of no
            checkpoint, or of a damaged one; the kernel, the data or what is kept are not those of
            the run.
        OSError: a file cannot be read or written.

    Example:
        >>> import tempfile, jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
        >>> data = jnp.arange(6.0)[:, None]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/run"
        ...     samples = ewsg.sample(
        ...         jax.random.key(0), kernel, jnp.zeros(1), data, 50, checkpoint=path
        ...     )
        ...     again = ewsg.resume(path, data, kernel=kernel)
        >>> bool((again.position == samples.position).all())
        True
    """
    checks.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    earlier = read(path, position)
    head = earlier.head
    # The file has the options of moments of positions, but no function of a user.
    moments = moments or moments_from(head.get("moments"))
    # Without another bound the run's own, of which 0 may be left. The checks of a request refuse 0,
    # so it is set after them.
    seconds_left = None
    if seconds is None and head["seconds"] is not None:
        _, spent = earlier.counts["seconds"]
        seconds_left = max(head["seconds"] - spent, 0.0)
    request = Request(
        # What the run began with, by its file.
        key=jax.random.wrap_key_data(
            jnp.asarray(head["key"]["words"], jnp.uint32), impl=head["key"]["by"]
        ),
        num_steps=head["terms"]["num_steps"],
        burn_in=head["burn_in"],
        thin=head["thin"],
        shared_minibatch=head["shared_minibatch"],
        # Before there was a `first_chain`, a batch of chains had other names for these.
        first_chain=head.get("first_chain", head.get("first")),
        total_chains=head.get("total_chains", head.get("num_chains")),
        randomness_memory=head["randomness_memory"],
        row_shards=head.get("parts", 1),
        findings=from_dictionaries(head.get("findings", ())),
        # What the caller gives again, which is compared with digests in the file.
        kernel=kernel,
        data=data,
        keep=keep,
        keep_when=keep_when,
        moments=moments,
        # The chains continue from the states in the file.
        position=None,
        # What may be another than before.
        seconds=seconds,
        progress=progress,
        memory_limit=memory_limit,
        check_data=check_data,
        checkpoint=path,
        checkpoint_every=checkpoint_every,
        mesh=mesh,
        batches=batches,
    )
    # What functions read is fixed as of now, as in `sample`.
    with as_of_now(kernel, keep, keep_when, moments):
        checked = run.checked(request)
        del request, data
        if seconds_left is not None:
            checked = checked._replace(seconds=seconds_left)
        return run.run(checked, earlier)


def inner_run(
    key: Key, kernel: Kernel, start: Any, data: Data, num_steps: int, **options: Any
) -> Samples:
    """Return a run that another call of the library makes for itself.

    It warns of nothing: its caller judges chains that diverged. Data that the caller has checked
    are not checked again.

    Args:
        key: a typed PRNG key.
        kernel: the kernel.
        start: the argument `position` of `sample`.
        data: the rows, already checked.
        num_steps: steps of each chain, burn-in included.
        options: further arguments of `sample`.

    Raises:
        TypeError, ValueError: as for `sample`.
        KeyboardInterrupt: it was interrupted or a step failed: its caller ends too.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        samples = sample(
            key, kernel, start, data, num_steps, progress=False, check_data=False, **options
        )
    return raise_if_interrupted(samples)


def raise_if_interrupted(samples: Samples[P]) -> Samples[P]:
    """Return a run that a call of the library made for itself, if it came to its end.

    Raises:
        KeyboardInterrupt: it was interrupted or a step failed: its caller ends too.
    """
    if samples.interrupted:
        raise KeyboardInterrupt("a run was interrupted, or failed")
    return samples
