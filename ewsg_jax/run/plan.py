"""The plan of a run: first states, how many steps, and how they are cut into compiled calls."""

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checked_arrays, memory, pytrees
from ewsg_jax.base.compiling import Ahead
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.protocol import KernelState
from ewsg_jax.rows._view import all_rows
from ewsg_jax.run import chunks, consistency
from ewsg_jax.run import devices as on
from ewsg_jax.run.budget import num_steps_of
from ewsg_jax.run.checkpoint import CheckpointWriter, Earlier, restore
from ewsg_jax.run.health import DivergenceMonitor
from ewsg_jax.run.host import Clock, on_host
from ewsg_jax.run.keeping import Kept
from ewsg_jax.run.layout import Layout, choose_layout, on_accelerator
from ewsg_jax.run.model_warnings import warn_of_ignored_arrays
from ewsg_jax.run.outcome import Outcome
from ewsg_jax.run.request import Request, check_kept, check_length
from ewsg_jax.run.starts import first_state, is_function, keys_of
from ewsg_jax.run.windows import Windows

DRAW_MEMORY = 64 * 2**20
"""Bytes of kept draws that one call holds on the device."""
FEWEST_DRAWS, FEW_DRAWS, CALLS = 16, 512, 8
"""Draws up to which a run has a place for each alone, and places that longer ones have where they
are filled in `CALLS` calls; else four times as many, and so on.
"""


class Terms(NamedTuple):
    """What is settled when a run begins, and stays so when it is resumed.

    Attributes:
        num_steps: of each chain, at the most.
        first_step: the number of the step that the run begins at.
        at_init: evaluations of one chain's start; none of a run that continues.
        common_start: whether all chains started at one point.
    """

    num_steps: int
    first_step: int
    at_init: int
    common_start: bool


class Planned(NamedTuple):
    """A run before it begins.

    Attributes:
        advance: `advance(done, steps, state, alive, guarded=…) -> Call`.
        terms: what is settled.
        num_chains: how many there are.
        kept: which steps are kept.
        layout: how the run is compiled.
        cost: evaluations of one chain; none at the start of a run that continues.
        began: when it was planned, in seconds.
        saver: writes checkpoints, None where none were asked for.
        before: seconds of compiling and of running before it was resumed.
        is_part: whether other chains make as many steps, before or after these.
        ahead: compiles the program of the steps, as `"steps"`.
        windows: of a run over a stream.
    """

    advance: Callable[..., chunks.Call]
    terms: Terms
    num_chains: int
    kept: Kept
    layout: Layout
    cost: Evaluations
    began: float
    saver: CheckpointWriter | None
    before: tuple[float, float]
    is_part: bool
    ahead: Ahead
    windows: Windows | None


def plan(
    request: Request, earlier: Earlier | None = None, windows: Windows | None = None
) -> tuple[Planned, Outcome]:
    """Make the chains' first states; decide how many steps there are and how calls cut them.

    Args:
        request: what is asked for; of a run that resumes with the states of its checkpoint.
        earlier: the checkpoint from which a run resumes.
        windows: of a run over a stream.

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
    kernel, data, devices = request.kernel, request.data, request.devices
    clock = Clock(devices is not None and devices.mesh.is_multi_process)
    began = time.perf_counter()
    # Only the shapes: memory is judged by them before anything is made.
    shapes, shared_memory, make_first = first_state(request, earlier is not None)
    num_chains = shapes.step.shape[0]
    cost = kernel.evaluations(data)
    # Of a run that resumes the terms are those it began with, whatever `seconds` made of them.
    terms = (
        _settled(request, cost, num_chains) if earlier is None else Terms(**earlier.head["terms"])
    )
    num_steps, cost = terms.num_steps, cost._replace(at_init=terms.at_init)
    kept = Kept(request.burn_in, request.thin).only(request.keep_when, terms.first_step, num_steps)
    # A function that keeps other steps than before would put draws in places that are not theirs.
    of_steps = None if kept.counts is None else pytrees.digest(kept.counts)
    if earlier is not None and earlier.head.get("steps", of_steps) != of_steps:
        raise ValueError(
            "keep_when must keep the steps that it kept when the run began; got a function that "
            f"keeps others, {kept.number(num_steps)} of {kept.due(num_steps)}"
        )
    one_draw, num_draws = check_kept(request, shapes.position), int(kept.number(num_steps))
    if not num_draws:
        raise ValueError(
            f"keep_when must keep a step; got none of the {kept.due(num_steps)} that are due"
        )
    draw_bytes = 0 if request.keep is None else max(1, pytrees.num_bytes(one_draw))
    # Each device holds its own share of the chains and of the rows, and blocks are cut for one.
    of_one, rows = (
        (shapes, data) if request.placed is None else request.placed.of_one(shapes, shared_memory)
    )
    layout, block_bytes = choose_layout(
        kernel,
        of_one,
        rows,
        num_steps if windows is None else min(num_steps, windows.left(0) or num_steps),
        request.randomness_memory,
        request.shared_minibatch,
        shared_memory,
        num_slots=_slots(draw_bytes, int(kept.due(num_steps))),
        keep=request.keep,
        moments=request.moments,
        accelerator=on_accelerator(data if request.placed is None else request.placed.data),
        total_chains=request.total_chains,
        all_steps=num_steps,
    )
    # After the first batch of chains the array for the draws of all is made.
    share = 1.0
    if request.total_chains is not None and not request.first_chain and earlier is None:
        share = request.total_chains / num_chains
    kept_bytes = int(share * num_draws * draw_bytes)
    needs = memory.Needs(
        pytrees.num_bytes(shapes), block_bytes, layout.num_slots * draw_bytes, kept_bytes
    )
    # After the layout, for the block's randomness is part of what a run needs.
    memory.check(needs, num_chains, request.memory_limit)

    in_program = kept if kept.counts is None else kept._replace(counts=jnp.asarray(kept.counts))
    ahead = Ahead()
    if devices is None and windows is None:
        # While the first states are made.
        of_chains, shared = (
            jax.ShapeDtypeStruct(shape, request.key.dtype) for shape in ((num_chains,), ())
        )
        parts = kernel, layout, of_chains, shared, data, in_program
        work = functools.partial(chunks.compile_ahead, *parts, shapes, layout.accelerator)
        begin = functools.partial(ahead.add, "steps", work)
        # Once: later runs of the same kernel and data find the program. What is remembered holds no
        # function of the user's, with what it closes over.
        if layout.keeps_positions:
            checked_arrays.remembered(
                ("steps", layout, checked_arrays.signature((shapes, in_program))),
                begin,
                data,
                kernel,
            )
        else:
            begin()
    # On the host, for draws of a long run may be more than the device holds.
    draws = jax.tree.map(
        lambda x: np.empty((x.shape[0], num_draws, *x.shape[1:]), x.dtype), one_draw
    )
    keys = keys_of(request.key, num_chains, request.first_chain or 0)
    first = make_first(keys) if windows is None else windows.made(lambda: make_first(keys))
    watch = DivergenceMonitor(num_chains, shared_memory, first, clock)
    if devices is not None:
        watch.start = on_host(watch.start)
    # Values are looked at once, here; of a stream each window when it comes.
    if request.check_data:
        check = functools.partial(kernel.check, watch.start)
        check(data) if windows is None else windows.look(check)
        warn_of_ignored_arrays(kernel, watch.start, data)
    # From here on the run does not see whether rows come from memory, devices or a stream.
    call, rows = chunks.call, data
    if request.placed is not None:
        call, rows = functools.partial(on.call, request.placed.devices), request.placed.data
    make = functools.partial(call, kernel, layout, keys.steps, keys.shared, in_program)
    advance = (
        functools.partial(make, rows)
        if windows is None
        else functools.partial(windows.advance, make, terms.first_step)
    )
    # Calls take the memory of the state that they are given; the first state stays, to replay from.
    outcome, saver, before = Outcome(pytrees.copy(first), watch, draws), None, (0.0, 0.0)
    if earlier is not None:
        restore(earlier, outcome, layout)
        saver = CheckpointWriter(request, kept, earlier.head, earlier, clock)
        before = earlier.counts["seconds"]
    elif request.checkpoint is not None:
        head = {"terms": terms._asdict(), "steps": of_steps} | consistency.of_run(request)
        saver = CheckpointWriter(request, kept, head, clock=clock)
        # What cannot be written is told before anything is run; of later batches it does not end
        # the run.
        is_later_batch = request.total_chains is not None and request.first_chain
        (saver.save if is_later_batch else saver.write)(outcome)
    is_part = request.first_chain is not None
    return Planned(
        advance,
        terms,
        num_chains,
        kept,
        layout,
        cost,
        began,
        saver,
        before,
        is_part,
        ahead,
        windows,
    ), outcome


def _settled(request: Request, cost: Evaluations, num_chains: int) -> Terms:
    first_step = 0 if request.state is None else int(np.asarray(request.state.step)[0])
    # Chains that continue do not begin: what that took is in the count of the run before.
    cost = cost._replace(at_init=cost.at_init if request.state is None else 0)
    budget = request.num_steps, request.data_passes, request.seconds
    num_steps = num_steps_of(cost, all_rows(request.data), *budget, first_step)
    check_length(num_steps, first_step, request)
    one_start = request.state is None and not request.stacked and not is_function(request.position)
    return Terms(
        num_steps, first_step, cost.at_init, (request.total_chains or num_chains) > 1 and one_start
    )


def _slots(draw_bytes: int, num_draws: int) -> int:
    """Return how many draws one call holds, none where a draw has no bytes because none is kept.

    One of few numbers, of which the largest is that of few calls: runs of other lengths share a
    program.
    """
    # Fewer slots than draws mean more calls, more slots more programs: lengths go by factors of
    # four.
    if not draw_bytes:
        return 0
    wanted = FEW_DRAWS if num_draws > FEWEST_DRAWS else num_draws
    while CALLS * wanted < num_draws:
        wanted *= 4
    return int(max(1, min(wanted, DRAW_MEMORY // draw_bytes)))
