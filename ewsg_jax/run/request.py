"""What `sample` is asked for: its checks that need no computation, or shapes alone, and how many
steps a budget is.
"""

import bisect
import math
import numbers
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, freshness, tracing
from ewsg_jax.base.forks import check_process
from ewsg_jax.base.needs import Need, parts_of, who_needs
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients import Evaluations
from ewsg_jax.gradients._protocol import uses_batches
from ewsg_jax.gradients._streamed import Streamed
from ewsg_jax.kernels.protocol import Kernel, KernelState, Origin, check_numbers
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.rows import _spread as spread
from ewsg_jax.rows._scheme import is_ordered
from ewsg_jax.run import devices as on
from ewsg_jax.run.devices import Devices, Placed
from ewsg_jax.run.moments import MomentPlan
from ewsg_jax.run.moments import positions as keep_positions
from ewsg_jax.run.stacks.data import StackedData
from ewsg_jax.run.streams.loader import Loader
from ewsg_jax.run.streams.stream import Stream

UNCOUNTABLE_STEPS = 2**62
"""Steps that every larger budget comes to: runs refuse this many, and a `range` has no more."""
Stacked = bool | Literal["members"]
"""Whether a position has a leading axis of chains; "members": of the members of a stack."""


class Request(NamedTuple):
    """The arguments of `sample`, and what is settled before and during a run."""

    key: Key
    kernel: Kernel
    position: Position | Callable[[Key], Position] | None
    data: Data
    num_steps: int | None = None
    data_passes: float | None = None
    seconds: float | None = None
    num_chains: int = 1
    burn_in: int = 0
    thin: int = 1
    keep: Callable[[Position], PyTree] | None = keep_positions
    keep_when: Callable[[Array], Any] | None = None
    moments: MomentPlan | None = None
    state: KernelState | None = None
    stacked: Stacked = False
    shared_minibatch: bool = False
    first_chain: int | None = None
    chain_batch_size: int | None = None
    progress: bool = True
    randomness_memory: int = 256 * 2**20
    memory_limit: int | None = None
    check_data: bool = True
    checkpoint: Any = None
    checkpoint_every: float = 60.0
    mesh: Any = None
    data_sets: StackedData | None = None
    """The data if they are several data sets, else None."""
    total_chains: int | None = None
    """The number of chains of which these are a batch, None without `chain_batch_size`: the batches
    are compiled as all chains together would be, so that they round alike.
    """
    all_steps: int | None = None
    """The steps of all calls of which this is one, None without others: the program is compiled for
    as long a run.
    """
    row_shards: int | None = None
    """The number of parts into which the rows of a run that resumes are cut."""
    findings: tuple[Finding, ...] = ()
    """Why the plan of the kernel is not trusted."""
    placed: Placed | None = None
    """The data on the devices over which the chains run, None for one device."""

    functions: list[tuple[str, str]] | None = None
    """The names of functions and digests of what they read, None without a checkpoint."""
    batches: Any = None
    """The batches of the caller, None for data; the data are then a `Loader` of them."""
    origin: Origin = Origin()
    """What stands for the rows and the likelihood, unknown before the run begins."""

    @property
    def devices(self) -> Devices | None:
        """The devices over which the chains run, None for one."""
        return None if self.placed is None else self.placed.devices


def check(request: Request) -> Request:
    """Check each argument by itself, and return the request with its data as arrays of JAX.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the message names it.
    """
    # First: under a trace every other check would fail with an error of JAX.
    _check_on_host(request)
    kernel = request.kernel
    checks.key(request.key)
    checks.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    check_numbers(kernel)
    for name in ("check_data", "shared_minibatch", "progress"):
        checks.boolean(name, getattr(request, name))
    data, devices = _checked_data(request)
    _check_chains(request, devices)
    _check_counts(request)
    _check_functions(request)
    # Last, for it copies the data: a call that is wrong in anything costs no copy.
    placed = None if devices is None else Placed(devices, devices.place(data))
    if devices is not None and devices.cuts_data:
        kernel = devices.cut_row_tables(kernel)
    return request._replace(kernel=kernel, data=data, placed=placed)


def _checked_data(request: Request) -> tuple[Data, Devices | None]:
    """Check the data, batches or stream of a run; return them, and the devices of its mesh.

    Arrays are returned as arrays of JAX; for several devices as NumPy arrays, since all rows need
    not fit on one.
    """
    kernel, data = request.kernel, request.data
    if isinstance(data, Loader):
        _check_batches(request)
        return data, None
    if (streamed := _streamed_in(kernel)) is not None:
        raise ValueError(
            f"batches must be given for a kernel whose batches the caller draws, {streamed!r}: "
            "sample(key, kernel, position, None, num_steps, batches=loader); got data"
        )
    # The rows of a stream are checked window by window, as they are read.
    if isinstance(data, Stream):
        _check_stream(kernel, data)
        if request.mesh is not None:
            raise ValueError(f"mesh must be None if data are a stream; got {request.mesh!r}")
        return data, None
    checks.data(data)
    if request.check_data:
        checks.finite("data", data)
    devices = on.checked(request.mesh, kernel, data, request.row_shards)
    return jax.tree.map(jnp.asarray if devices is None else spread.on_host, data), devices


def _check_chains(request: Request, devices: Devices | None) -> None:
    """Check how chains are batched, whether their starts are stacked, and what they share."""
    if devices is not None and request.chain_batch_size is not None:
        raise ValueError(f"chain_batch_size must be None with mesh; got {request.chain_batch_size}")
    # For a stack "members" was replaced before.
    if isinstance(request.stacked, str):
        raise ValueError(
            "stacked must be True or False if no kernels or data sets are stacked; got "
            f"{checks.describe(request.stacked)}"
        )
    checks.boolean("stacked", request.stacked)
    # Chains can share a batch only if it belongs to no chain's own order of the rows.
    draws_batches = uses_batches(request.kernel)
    if request.shared_minibatch and not (draws_batches and not is_ordered(request.kernel)):
        what = "whose chains have epochs of their own" if draws_batches else "that draws no batches"
        raise ValueError(f"shared_minibatch must be False for a kernel {what}; got True")


def _check_counts(request: Request) -> None:
    """Check numbers of seconds, steps, chains and bytes."""
    if request.seconds is not None:
        checks.positive("seconds", request.seconds)
    checks.integer("burn_in", request.burn_in, minimum=0)
    for name in ("thin", "randomness_memory", "num_chains"):
        checks.integer(name, getattr(request, name))
    for name in ("memory_limit", "chain_batch_size"):
        if getattr(request, name) is not None:
            checks.integer(name, getattr(request, name))
    if request.first_chain is not None:
        # Steps and chains are counted in 32 bits.
        checks.integer("first_chain", request.first_chain, 0, 2**31 - 1 - request.num_chains)
        if request.chain_batch_size is not None:
            raise ValueError(
                "chain_batch_size must be None with first_chain, which is for batches of your own; "
                f"got {request.chain_batch_size}"
            )
    if request.chain_batch_size is not None and request.seconds is not None:
        raise ValueError(
            "seconds must be None with chain_batch_size, whose batches make as many steps as "
            f"each other; got {request.seconds}"
        )


def _check_functions(request: Request) -> None:
    """Check what is kept: functions of a position, of a step, and running moments."""
    if request.keep is not None:
        checks.function("keep", request.keep, "(position) -> pytree of arrays, or None")
    if request.keep_when is not None:
        _check_keep_when(request.keep_when)
    if request.moments is not None:
        checks.instance("moments", request.moments, MomentPlan, "ewsg_jax.moments(…)")


def with_batches(request: Request) -> Request:
    """Return the request with batches of the caller's in the place of data, if there are some.

    Raises:
        TypeError, ValueError: there are data too, the kernel draws its own batches, or the first
            batch is none.
    """
    if request.batches is None:
        return request
    if request.data is not None:
        raise ValueError(
            f"data must be None with batches; got {checks.describe(request.data)}: a kernel on "
            "gradients.streamed knows the number of rows"
        )
    checks.instance("kernel", request.kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    streamed = _streamed_in(request.kernel)
    if streamed is None:
        raise ValueError(
            "batches must be None for a kernel that draws its own from data; got "
            f"{checks.describe(request.batches)}: take gradients.streamed(posterior, num_data=…)"
        )
    return request._replace(data=Loader(request.batches, streamed))


def _streamed_in(kernel: Kernel) -> Streamed | None:
    """Return the part of a kernel whose batches the caller draws, None if there is none."""
    return next((part for part in parts_of(kernel) if isinstance(part, Streamed)), None)


def _check_batches(request: Request) -> None:
    """Check that a run takes the batches of a caller, one a step for all chains."""
    for name in ("mesh", "chain_batch_size", "first_chain"):
        if getattr(request, name) is not None:
            raise ValueError(
                f"{name} must be None with batches, which all chains share as they come; got "
                f"{checks.describe(getattr(request, name))}"
            )


def _check_stream(kernel: Kernel, data: Stream) -> None:
    """Check that a kernel takes its rows from windows."""
    if (part := who_needs(kernel, Need.ALL_ROWS)) is not None:
        raise ValueError(
            "kernel must take rows from the windows of a stream, as the estimators uniform, "
            f"control_variate, svrg, full and their exponential weights do; got {kernel!r}, of "
            f"which {part!r} needs {Need.ALL_ROWS.value}"
        )


def _check_keep_when(keep_when: Callable[[Array], Any]) -> None:
    """Check, by tracing it, that a function of a step's number returns one boolean."""
    takes = "keep_when must be a function of a step's number that returns a boolean"
    checks.function("keep_when", keep_when, "(step) -> boolean, or None")
    returned = tracing.outputs(
        "keep_when", keep_when, "a step's number", jax.ShapeDtypeStruct((), jnp.int32)
    )
    if getattr(returned, "shape", None) != () or returned.dtype != bool:
        raise TypeError(f"{takes}; it returned {checks.describe(returned)}")


def _check_on_host(request: Request) -> None:
    """Check that nothing is traced: what the loop on the host reads must be known."""
    check_process("sample")
    takes = "sample must be called on the host, for it compiles and watches the run itself"
    advice = (
        "for many chains give num_chains=…; in a program of your own put kernel.init and "
        "kernel.step into jax.lax.scan, and vmap that; for many kernels give "
        "ewsg_jax.stack(kernels)"
    )
    for name in ("key", "kernel", "position", "data", "state"):
        if any(map(checks.is_traced, jax.tree.leaves(getattr(request, name)))):
            raise TypeError(f"{takes}, not under jit, vmap or grad; got a traced {name}: {advice}")
    if freshness.holds_traced():
        raise TypeError(f"{takes}, not under jit, vmap or grad; got {checks.TRACED_MODEL}")
    # A closure under jit traces no argument; an operation of its own shows it.
    if checks.is_traced(jax.device_put(0)):
        raise TypeError(f"{takes}; got a call under jit: {advice}")


def check_length(num_steps: int, first_step: int, request: Request) -> None:
    """Check that steps can be counted, and that one of them is kept.

    Raises:
        ValueError: the last step has a number above 2³¹ − 1, or there are fewer steps than
            `burn_in` + `thin`.
    """
    if first_step + num_steps >= 2**31:
        raise ValueError(
            f"num_steps must be a whole number, from 1 to {2**31 - 1 - first_step}: steps are "
            f"counted in 32 bits; got {num_steps}"
        )
    least = request.burn_in + request.thin
    if num_steps < least:
        raise ValueError(
            f"num_steps must be at least burn_in + thin = {least} to keep a draw; got {num_steps}"
        )


def check_kept(request: Request, positions: Position) -> PyTree:
    """Check `keep` and the function of `moments` on one position, from shapes: they are not run.

    Args:
        request: what is requested.
        positions: the shapes of all chains' positions, leading axis chain.

    Returns:
        The shapes of one draw of all chains, leading axis chain; `()` if no draws are kept.

    Raises:
        TypeError, ValueError: a function fails, or returns no pytree of arrays.
    """
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), positions)
    if request.moments is not None:
        values = tracing.outputs(
            "the function of moments", request.moments.of, "one chain's position", one
        )
        for leaf in jax.tree.leaves(values):
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise TypeError(
                    "the function of moments must return floating-point arrays; got "
                    f"{checks.describe(leaf)}"
                )
    if request.keep is None:
        return ()
    num_chains = jax.tree.leaves(positions)[0].shape[0]
    kept = one
    # The library's own function needs no check, and returns the position.
    if request.keep is not keep_positions:
        kept = tracing.outputs("keep", request.keep, "one chain's position", one)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_chains, *x.shape), x.dtype), kept)


def steps_within(cost: Evaluations, n: int, data_passes: float, first_step: int = 0) -> int:
    """Return the most steps whose evaluations, `init` included, stay within these passes.

    Args:
        cost: evaluations per step and at init.
        n: the number of rows of the data.
        data_passes: passes over the data of one chain, of n evaluations of some ∇Vᵢ each.
        first_step: the number of the first step, on which refreshes depend.

    Raises:
        TypeError, ValueError: `data_passes` is not a finite number.
    """
    if isinstance(data_passes, bool) or not isinstance(data_passes, numbers.Real):
        raise TypeError(
            f"data_passes must be a positive number; got {checks.describe(data_passes)}"
        )
    if not math.isfinite(data_passes):
        raise ValueError(f"data_passes must be a positive number; got {data_passes}")
    # A budget that is a whole number of steps must not lose one to rounding.
    budget = math.floor(float(data_passes) * n * (1 + 1e-12)) - cost.at_init
    at_most = range(min(max(0, budget // cost.per_step), UNCOUNTABLE_STEPS) + 1)
    return (
        bisect.bisect_right(at_most, budget, key=lambda count: cost.of_steps(first_step, count)) - 1
    )


def steps_reaching(cost: Evaluations, n: int, data_passes: float) -> int:
    """Return the fewest steps whose evaluations, `init` included, reach these passes.

    Args:
        cost: evaluations per step and at init.
        n: the number of rows of the data.
        data_passes: passes over the data of one chain, finite, of n evaluations of some ∇Vᵢ each.
    """
    wanted = math.ceil(float(data_passes) * n * (1 - 1e-12)) - cost.at_init
    enough = range(min(-(-max(0, wanted) // cost.per_step), UNCOUNTABLE_STEPS) + 1)
    return bisect.bisect_left(enough, wanted, key=lambda count: cost.of_steps(0, count))


def num_steps_of(
    cost: Evaluations,
    n: int,
    num_steps: int | None,
    data_passes: float | None,
    seconds: float | None,
    first_step: int = 0,
) -> int:
    """Return the number of steps, given in either of its two forms.

    Args:
        cost: evaluations per step and at init.
        n: the number of rows of the data.
        num_steps: steps of each chain, None if `data_passes` are given.
        data_passes: passes over the data of one chain, None if `num_steps` are given.
        seconds: a bound on the time, which is no number of steps: for the message alone.
        first_step: the number of the first step, on which refreshes depend.

    Raises:
        TypeError, ValueError: none or both are given, or what is given allows no step.
    """
    if (num_steps is None) == (data_passes is None):
        bound = ""
        if seconds is not None:
            bound = f" with seconds={seconds!r}, which may end a run before its last step"
        raise ValueError(
            f"give either num_steps or data_passes; got num_steps={num_steps!r} and "
            f"data_passes={data_passes!r}{bound}"
        )
    if data_passes is None:
        return checks.integer("num_steps", num_steps)
    # What steps cost is known only when they are made: the budget is met by the mean, if that is
    # known.
    if cost.counted:
        if not cost.expected:
            raise ValueError(
                "data_passes must be None for a method whose steps cost what they turn out to: "
                f"give num_steps; got {data_passes!r}"
            )
        checks.positive("data_passes", data_passes)
        return max(1, round((float(data_passes) * n - cost.at_init) / float(cost.expected)))
    steps = steps_within(cost, n, data_passes, first_step)
    if steps < 1:
        raise ValueError(
            f"data_passes must allow at least one step, of {cost.per_step} evaluations after "
            f"{cost.at_init} at the start, with n = {n}; got {data_passes}"
        )
    return steps
