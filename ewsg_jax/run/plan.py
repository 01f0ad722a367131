"""The plan of a run: first states, how many steps, and how they are cut into compiled calls."""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ewsg_jax.base import checked_arrays, limits, memory, pytrees
from ewsg_jax.base.compiling import Ahead
from ewsg_jax.base.typing import PyTree
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.protocol import KernelState
from ewsg_jax.model_checks.finding import as_dictionaries
from ewsg_jax.rows._view import all_rows
from ewsg_jax.run import devices as on
from ewsg_jax.run import moments
from ewsg_jax.run.checkpoint import CheckpointWriter, Earlier, restore
from ewsg_jax.run.compiled_loop import Call, RunInputs, StepProgram, loop_of
from ewsg_jax.run.consistency import run_fingerprint
from ewsg_jax.run.health import DivergenceMonitor
from ewsg_jax.run.host import SharedClock, on_host
from ewsg_jax.run.keeping import Kept
from ewsg_jax.run.layout import ProgramLayout, choose_layout, on_accelerator
from ewsg_jax.run.model_warnings import warn_of_ignored_arrays
from ewsg_jax.run.outcome import Outcome
from ewsg_jax.run.request import Request, check_kept, check_length, num_steps_of
from ewsg_jax.run.starts import FirstStates, Keys, first_states, is_function, keys_of
from ewsg_jax.run.windows import Windows

FULL_CALLS = 16
"""Calls that fill the slots of a run of more than a few draws, at most: else it has four times as
many slots, and so on. So there are few numbers of slots, and runs share programs.
"""


class RunTerms(NamedTuple):
    """What is decided when a run begins, and stays so when it is resumed.

    Attributes:
        num_steps: steps of each chain, at the most.
        first_step: the number of the step that the run begins at.
        at_init: evaluations of one chain's start; 0 if the run continues another.
        common_start: whether all chains started at one point.
    """

    num_steps: int
    first_step: int
    at_init: int
    common_start: bool


class RunPlan(NamedTuple):
    """A run before it begins.

    Attributes:
        advance: `advance(done, steps, state, alive, guarded=…) -> Call`.
        terms: what is decided.
        num_chains: the number of chains.
        kept: which steps are kept.
        layout: how the run is compiled.
        cost: evaluations of one chain; 0 at the start of a run that continues another.
        began: when it was planned, in seconds.
        writer: writes checkpoints; None if there are none.
        earlier_seconds: seconds of compiling and of running before the run was resumed.
        makes_all_steps: whether it makes all its steps although no chain is left: it is a batch of
            the chains of a run, and other batches make as many.
        ahead: compiles the program of the steps, as `"steps"`.
        windows: the windows of a stream, None for data in memory.
    """

    advance: Callable[..., Call]
    terms: RunTerms
    num_chains: int
    kept: Kept
    layout: ProgramLayout
    cost: Evaluations
    began: float
    writer: CheckpointWriter | None
    earlier_seconds: tuple[float, float]
    makes_all_steps: bool
    ahead: Ahead
    windows: Windows | None

    @property
    def is_read_once(self) -> bool:
        """Whether rows of earlier steps cannot be had again."""
        return self.windows is not None and self.windows.is_read_once


def plan(
    request: Request, earlier: Earlier | None = None, windows: Windows | None = None
) -> tuple[RunPlan, Outcome]:
    """Make the chains' first states; decide how many steps there are and how calls cut them.

    Args:
        request: what is requested; its state is that of the checkpoint if the run resumes.
        earlier: the checkpoint from which the run resumes.
        windows: the windows of a stream, None for data in memory.

    Returns:
        The plan, and an outcome of no steps, which alone holds the first states: their memory may
        be large.

    Raises:
        TypeError, ValueError: arguments do not go together; the message names one.
    """
    # A run that resumes begins with the window of its step, not with the first one.
    if windows is not None:
        step = int(np.ravel(request.state.step)[0]) if isinstance(request.state, KernelState) else 0
        request = request._replace(data=windows.at(step))
    clock = SharedClock(request.devices is not None and request.devices.mesh.is_multi_process)
    began = time.perf_counter()
    # Only the shapes: memory is judged by them before anything is made.
    first = first_states(request, earlier is not None)
    num_chains = first.shapes.step.shape[0]
    cost = request.kernel.evaluations(request.data)
    # A run that resumes has the terms it began with, whatever `seconds` made of them.
    if earlier is None:
        terms = _terms(request, cost, num_chains)
    else:
        terms = RunTerms(**earlier.head["terms"])
    kept, draw_shapes = _kept(request, earlier, terms, first)
    layout = _layout(request, windows, terms, first, (kept, draw_shapes), earlier is not None)
    ahead = Ahead()
    if request.devices is None and windows is None:
        _compile_ahead(ahead, request, layout, kept, first)
    # While a thread compiles, the first states are made.
    keys = keys_of(request.key, num_chains, request.first_chain or 0)
    outcome = _outcome(request, windows, first, keys, draw_shapes, clock)
    writer = _writer(request, earlier, terms, kept, outcome, layout)
    return RunPlan(
        advance=_advance(request, windows, terms, kept, layout, keys),
        terms=terms,
        num_chains=num_chains,
        kept=kept,
        layout=layout,
        cost=cost._replace(at_init=terms.at_init),
        began=began,
        writer=writer,
        earlier_seconds=(0.0, 0.0) if earlier is None else earlier.counts["seconds"],
        makes_all_steps=request.first_chain is not None,
        ahead=ahead,
        windows=windows,
    ), outcome


def _terms(request: Request, cost: Evaluations, num_chains: int) -> RunTerms:
    """Return how many steps there are, and the number of the first."""
    first_step = 0 if request.state is None else int(np.asarray(request.state.step)[0])
    # Chains that continue do not begin: what that took is in the count of the run before.
    cost = cost._replace(at_init=cost.at_init if request.state is None else 0)
    budget = request.num_steps, request.data_passes, request.seconds
    num_steps = num_steps_of(cost, all_rows(request.data), *budget, first_step)
    check_length(num_steps, first_step, request)
    one_start = request.state is None and not request.stacked and not is_function(request.position)
    return RunTerms(
        num_steps=num_steps,
        first_step=first_step,
        at_init=cost.at_init,
        common_start=(request.total_chains or num_chains) > 1 and one_start,
    )


def _kept(
    request: Request, earlier: Earlier | None, terms: RunTerms, first: FirstStates
) -> tuple[Kept, PyTree]:
    """Return which steps are kept, and the shapes of one draw of all chains.

    Raises:
        TypeError, ValueError: none is kept, or others than when the run began; or `keep` and
            `moments` do not take such positions.
    """
    num_steps, kept = terms.num_steps, Kept(request.burn_in, request.thin)
    kept = kept.only(request.keep_when, terms.first_step, num_steps)
    # A function that keeps other steps than before would put draws in places that are not theirs.
    digest = _digest(kept)
    if earlier is not None and earlier.head.get("steps", digest) != digest:
        raise ValueError(
            "keep_when must keep the steps that it kept when the run began; got a function that "
            f"keeps others, {kept.number(num_steps)} of {kept.due(num_steps)}"
        )
    draw_shapes = check_kept(request, first.shapes.position)
    num_draws = int(kept.number(num_steps))
    if not num_draws:
        raise ValueError(
            f"keep_when must keep a step; got none of the {kept.due(num_steps)} that are due"
        )
    _check_learned(request, kept, terms)
    return kept, jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((x.shape[0], num_draws, *x.shape[1:]), x.dtype), draw_shapes
    )


def _check_learned(request: Request, kept: Kept, terms: RunTerms) -> None:
    """Raise ValueError if steps are kept in which the dynamics still learns its mass."""
    one = getattr(request.kernel, "kernel", request.kernel)  # a stack has that of its members
    learns = int(np.max(getattr(getattr(one, "dynamics", None), "burn_in", 0)))
    first = int(kept.steps(terms.first_step, terms.num_steps)[0]) if learns else learns + 1
    if first <= learns:
        raise ValueError(
            f"burn_in must be at least {learns - terms.first_step:,}, the steps in which the mass "
            "is learned: draws of these have another distribution; got "
            f"{request.burn_in:,}, which keeps step {first:,}"
        )


def _digest(kept: Kept) -> str | None:
    """Return what stands for the steps that `keep_when` chose, None without it."""
    return None if kept.counts is None else pytrees.digest(kept.counts)


def _layout(
    request: Request,
    windows: Windows | None,
    terms: RunTerms,
    first: FirstStates,
    draws: tuple[Kept, PyTree],
    resumes: bool,
) -> ProgramLayout:
    """Return how the run is cut into blocks, if what it needs fits in memory.

    Args:
        request: what is requested.
        windows: the windows of a stream.
        terms: how many steps there are.
        first: the shapes of the first states.
        draws: which steps are kept, and the shapes of all draws.
        resumes: whether the run was started before.

    Raises:
        ValueError: it does not fit; the message has the sizes of its parts.
    """
    (kept, draw_shapes), num_steps, shapes = draws, terms.num_steps, first.shapes
    num_chains, kept_bytes = shapes.step.shape[0], pytrees.num_bytes(draw_shapes)
    draw_bytes = kept_bytes // int(kept.number(num_steps))
    # Each device holds its own share of the chains and of the rows, and blocks are cut for one.
    device_states, rows = shapes, request.data
    if request.placed is not None:
        device_states, rows = request.placed.shapes_of_one(shapes, first.shared_memory)
    layout, block_bytes = choose_layout(
        request.kernel,
        device_states,
        rows,
        num_steps if windows is None else min(num_steps, windows.left(0) or num_steps),
        request.randomness_memory,
        ProgramLayout(
            shared_minibatch=request.shared_minibatch,
            shared_memory=first.shared_memory,
            num_slots=_num_slots(request, draw_bytes, int(kept.due(num_steps))),
            keep=request.keep,
            moments=request.moments,
            accelerator=on_accelerator(
                request.data if request.placed is None else request.placed.data
            ),
        ),
        total_chains=request.total_chains,
        all_steps=max(num_steps, request.all_steps or 0),
    )
    # The first batch of chains makes the arrays for the draws of all; later ones write into them.
    if request.total_chains is not None and not request.first_chain and not resumes:
        kept_bytes = int(kept_bytes * request.total_chains / num_chains)
    # After the layout, for the block's randomness is part of what a run needs.
    needs = memory.Needs(
        pytrees.num_bytes(shapes), block_bytes, layout.num_slots * draw_bytes, kept_bytes
    )
    memory.check(needs, num_chains, request.memory_limit)
    return layout


def _num_slots(request: Request, draw_bytes: int, num_due: int) -> int:
    """Return how many draws one call holds, 0 if no draw is kept.

    It is one of few numbers, of which the largest is that of few calls: runs of other lengths share
    a program.
    """
    # Fewer slots than draws mean more calls, more slots more programs: lengths go by factors of
    # four.
    if request.keep is None:
        return 0
    slots = 512 if num_due > 16 else num_due
    while FULL_CALLS * slots < num_due:
        slots *= 4
    return int(max(1, min(slots, limits.BYTES_AT_ONCE // max(1, draw_bytes))))


def _compile_ahead(
    ahead: Ahead, request: Request, layout: ProgramLayout, kept: Kept, first: FirstStates
) -> None:
    """Have a thread compile the program of the steps, from shapes."""
    num_chains, dtype = first.shapes.step.shape[0], request.key.dtype
    chains: Any = jax.ShapeDtypeStruct((num_chains,), dtype)
    shared: Any = jax.ShapeDtypeStruct((), dtype)
    inputs = RunInputs(chains, shared, kept.on_device())
    program = StepProgram(request.kernel, layout, inputs, loop_of(layout))
    work = functools.partial(program.compile_ahead, request.data, first.shapes)
    begin = functools.partial(ahead.add, "steps", work)
    # Once: later runs of the same kernel and data find the program. What is remembered holds no
    # user-defined function, with what it closes over.
    if layout.keeps_positions:
        signature = checked_arrays.signature((first.shapes, inputs.kept))
        checked_arrays.remembered(("steps", layout, signature), begin, request.data, request.kernel)
    else:
        begin()


def _outcome(
    request: Request,
    windows: Windows | None,
    first: FirstStates,
    keys: Keys,
    draw_shapes: PyTree,
    clock: SharedClock,
) -> Outcome:
    """Make the first states, and check the data at one of them; return the outcome of no steps.

    Raises:
        TypeError, ValueError: positions are not finite, or the kernel does not take the data.
    """
    kernel, data = request.kernel, request.data
    # On the host, for draws of a long run may be more than the device holds.
    draws = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), draw_shapes)
    states = first.make(keys) if windows is None else windows.first_states(lambda: first.make(keys))
    monitor = DivergenceMonitor(len(keys.steps), first.shared_memory, states, clock)
    if request.devices is not None:
        monitor.start = on_host(monitor.start)
    # Values are checked once, here; those of a stream window by window as they come.
    if request.check_data:
        check = functools.partial(kernel.check, monitor.start)
        check(data) if windows is None else windows.look(check)
        warn_of_ignored_arrays(kernel, monitor.start, data)
    # Calls take the memory of the state that they are given; the first state stays, to replay from.
    return Outcome(pytrees.copy(states), monitor, draws)


def _advance(
    request: Request,
    windows: Windows | None,
    terms: RunTerms,
    kept: Kept,
    layout: ProgramLayout,
    keys: Keys,
) -> Callable[..., Call]:
    """Return what makes steps, whether rows come from memory, from devices or from a stream."""
    loop, data = loop_of(layout), request.data
    if request.placed is not None:
        loop, data = on.loop_of(request.placed.devices, layout), request.placed.data
    inputs = RunInputs(keys.steps, keys.shared, kept.on_device())
    program = StepProgram(request.kernel, layout, inputs, loop)
    if windows is None:
        return functools.partial(program, data)
    return functools.partial(windows.advance, program, terms.first_step)


def _writer(
    request: Request,
    earlier: Earlier | None,
    terms: RunTerms,
    kept: Kept,
    outcome: Outcome,
    layout: ProgramLayout,
) -> CheckpointWriter | None:
    """Return what writes checkpoints, after the first one; fill the outcome of a run that resumes.

    Raises:
        ValueError: other draws or moments are kept than when the run began.
        OSError: the first checkpoint cannot be written.
    """
    clock = outcome.monitor.clock
    if earlier is not None:
        restore(earlier, outcome, layout)
        return CheckpointWriter(request, kept, earlier.head, earlier, clock)
    if request.checkpoint is None:
        return None
    head = {"terms": terms._asdict(), "steps": _digest(kept)} | run_fingerprint(request)
    # What a resumed run needs not be given again.
    head |= {
        "findings": as_dictionaries(request.findings),
        "moments": moments.written(request.moments),
    }
    writer = CheckpointWriter(request, kept, head, clock=clock)
    # What cannot be written is reported before anything is run. In a later batch of chains it does
    # not end the run.
    is_later_batch = request.total_chains is not None and request.first_chain
    (writer.save if is_later_batch else writer.write)(outcome)
    return writer
