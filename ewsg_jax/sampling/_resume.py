"""Go on with a run that ended before its time, from its last checkpoint."""

import os
from collections.abc import Callable
from typing import Any, Generic, TypedDict, Unpack, overload

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from ewsg_jax import _check
from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Array, Data, P, PyTree
from ewsg_jax.freshness import as_of_now
from ewsg_jax.sampling import whole
from ewsg_jax.sampling._moments import MomentPlan, positions
from ewsg_jax.sampling.checkpoint import Batches, Saving, read_any
from ewsg_jax.sampling.request import Chains, Manner, Wanted
from ewsg_jax.sampling.samples import Samples
from ewsg_jax.sampling.stacked import StackedSamples
from ewsg_jax.stacking.data import StackedData
from ewsg_jax.stacking.kernels import Stack


class Options(TypedDict, Generic[P], total=False):
    """The keyword arguments of `resume` beside the kernel, for a reader of types."""

    keep: Callable[[P], PyTree] | None
    keep_when: Callable[[Array], Any] | None
    moments: MomentPlan | None
    position: P | None
    seconds: float | None
    checkpoint_every: float
    progress: bool
    memory_limit: int | None
    check_data: bool
    mesh: Mesh | None


@overload
def resume(  # pyright: ignore[reportOverlappingOverload]  # a stack is a kernel, the first one that fits counts
    path: str | os.PathLike[str], data: Data, *, kernel: Stack[P], **options: Unpack[Options[P]]
) -> StackedSamples[P]: ...


@overload
def resume(
    path: str | os.PathLike[str], data: StackedData, *, kernel: Kernel[P], **options: Unpack[Options[P]]
) -> StackedSamples[P]: ...


@overload
def resume(
    path: str | os.PathLike[str], data: Data, *, kernel: Kernel[P], **options: Unpack[Options[P]]
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
) -> Samples[P] | StackedSamples[P]:
    """Go on with a run of `ewsg_jax.sample(…, checkpoint=path)` from its last checkpoint, to its end.

    Draws are bit for bit those of a run that was never stopped, and running moments the same to rounding. A run
    that had ended is returned as it is. How long it is, what it keeps of which steps, its key and its
    `chain_batch_size` stand in the file; batches of chains that had ended are read, not run.

    Args:
        path: of the checkpoint; the run goes on being written there.
        data: the same as before.
        kernel: equal to the one that began it: functions are not in the file, and are known by their names.
        keep: the same function as before, if one was given.
        keep_when: likewise.
        moments: likewise.
        position: as of `ewsg_jax.load`: a tree of the structure of the run's position, where it is of no known
            class.
        seconds: a bound on the time from here on; default what is left of the run's own bound, if it had one. Not
            for runs with a `chain_batch_size`.
        checkpoint_every: seconds between checkpoints.
        progress: show a bar where tqdm is installed.
        memory_limit: as of `sample`.
        check_data: likewise.
        mesh: as of `sample`: the devices from here on, which may be more or fewer than before, or others. Rows stay
            cut into as many parts as they were, of which each device along `"data"` has one or several.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; the path is of no checkpoint, or of a damaged one;
            the kernel, the data or what is kept are others than those of the run.
        OSError: a file cannot be read or written.

    Example:
        >>> import tempfile, jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
        >>> data = jnp.arange(6.0)[:, None]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/run"
        ...     samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), data, 50, checkpoint=path)
        ...     again = ewsg.resume(path, data, kernel=kernel)
        >>> bool((again.position == samples.position).all())
        True
    """
    _check.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    earlier = read_any(path, position)
    head = earlier.head
    key = jax.random.wrap_key_data(jnp.asarray(head["key"]["words"]), impl=head["key"]["by"])
    if isinstance(earlier, Batches):
        starts, size = earlier.starts, head["chain_batch_size"]
        length, num_chains = (head["num_steps"], head["data_passes"]), head["num_chains"]
    else:
        starts, size = {"state": earlier.state}, None
        length, num_chains = (head["terms"]["num_steps"], None), 1
        if seconds is None and head["seconds"] is not None:
            seconds = max(head["seconds"] - earlier.counts["seconds"][1], 1e-9)
    asked = Chains(key, kernel, None, data, num_chains, None, False, mesh=mesh, parts=head.get("parts", 1))
    wanted = Wanted(*length, seconds, head["burn_in"], head["thin"], keep, moments, keep_when)
    manner = Manner(head["shared_minibatch"], progress, head["randomness_memory"], memory_limit, check_data, size)
    saving = Saving(path, checkpoint_every)

    with as_of_now(kernel, keep, keep_when, moments):
        chains, wanted = whole.checked(asked, wanted, manner, saving)
        # They are those of a stack's members, where it is one.
        chains = chains._replace(**starts)
        del asked, data
        return whole.run(chains, wanted, manner, saving, earlier)
