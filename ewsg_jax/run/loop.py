"""The loop on the host: compiled calls of about half a second."""

import math
import time

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.interrupts import Interrupts
from ewsg_jax.base.progress import Progress
from ewsg_jax.base.warn import warn
from ewsg_jax.run.compiled_loop import Call
from ewsg_jax.run.host import on_host
from ewsg_jax.run.outcome import Outcome
from ewsg_jax.run.plan import RunPlan

SECONDS_PER_CALL = 0.5
"""Seconds of one call: the host's own time between calls, about 1 ms, is small next to it, and
an interrupt is answered within it.
"""


def make_steps(
    planned: RunPlan, outcome: Outcome, seconds: float | None, show_progress: bool
) -> float:
    """Compile, make the steps, fill the outcome; return when it was compiled, in seconds.

    Args:
        planned: the plan of the run.
        outcome: an outcome of no steps, or that of a checkpoint; filled.
        seconds: a bound on the time from here on; 0 for a run that resumes after its own bound;
            None for no bound.
        show_progress: whether a bar is shown.

    Raises:
        ValueError: time was up before a draw could be kept.
    """
    num_steps, kept, writer = planned.terms.num_steps, planned.kept, planned.writer
    # Nothing to compile: a checkpoint of a run that had ended, by its own time as well.
    is_over = seconds == 0 and kept.number(outcome.done) > 0
    if outcome.done == num_steps or outcome.all_lost or is_over:
        return time.perf_counter()
    with Interrupts() as interrupts:
        _compile(planned, outcome)
        compiled = time.perf_counter()
        if writer is not None:
            writer.compiled = compiled
        # From here on time counts as the run's own.
        bar = Progress(num_steps, show_progress)
        bar.update(outcome.done)
        run(planned, outcome, bar, interrupts, seconds)
        bar.close()
        # After a call that failed the states may be those of an earlier step: the last checkpoint
        # stands.
        if writer is not None and _step_of(outcome) == planned.terms.first_step + outcome.done:
            writer.save(outcome)
    # Interrupted runs may be empty, but a time limit that allows no draw is an error.
    ended = outcome.interrupted or outcome.all_lost or outcome.done == num_steps
    if not ended and not kept.number(outcome.done):
        raise ValueError(
            f"seconds must be enough for burn_in + thin = {kept.burn_in + kept.thin} steps to keep "
            f"a draw; got {seconds}, in which {outcome.done} were made"
        )
    return compiled


def _compile(planned: RunPlan, outcome: Outcome) -> None:
    """Compile all programs of a run, by calls of no steps, so that `run_seconds` hold none of it.

    An accelerator has a program for whole blocks; the last call, which may be shorter, another.
    """
    num_steps, layout = planned.terms.num_steps, planned.layout
    one_call = layout.keep is None or planned.kept.due(num_steps) <= layout.num_slots
    is_whole_blocks = num_steps % layout.block_size == 0
    has_rest = not (one_call and is_whole_blocks and planned.windows is None)
    for counted in [True, False] if layout.accelerator and has_rest else [layout.accelerator]:
        # What a thread has compiled by now is found.
        planned.ahead.wait("steps")
        call = planned.advance(
            outcome.done, 0, outcome.state, outcome.monitor.alive, counted=counted
        )
        # The call takes the memory of its state.
        outcome.state = jax.block_until_ready(call).state


def run(
    planned: RunPlan,
    outcome: Outcome,
    bar: Progress,
    interrupts: Interrupts,
    limit: float | None = None,
) -> None:
    """Make calls until all steps are made, time is up, an interrupt comes, or no chain is left.

    Args:
        planned: the plan of the run.
        outcome: what the calls before add up to; filled.
        bar: advanced by each call.
        interrupts: entered; a request ends the run after the call in progress.
        limit: seconds; the call in which they are over is the last one.
    """
    num_steps, moments = planned.terms.num_steps, planned.layout.moments
    # The first call is one block, which shows how long a step takes.
    steps = planned.layout.block_size
    clock = outcome.monitor.clock
    end = math.inf if limit is None else clock.now() + float(limit)
    while True:
        steps = _steps_of_call(planned, outcome.done, steps)
        try:
            # A copy of the state may not fit, too.
            outcome.monitor.keep(outcome.state, outcome.done, planned.is_read_once)
            began = clock.now()
            call = jax.block_until_ready(
                outcome.monitor.call(
                    planned.advance, planned.layout.keep, outcome.state, outcome.done, steps
                )
            )
        except Exception as error:
            # Nothing was sampled, so nothing is lost by raising.
            if not outcome.done:
                raise
            _stop_at(outcome, error)
            return
        now = clock.now()

        # Parts that other processes hold come to each of them; states stay where they are.
        if clock.has_many:
            call = Call(call.state, *on_host(tuple(call)[1:]))
        outcome.add(call, steps, planned.kept, moments)
        bar.update(steps)
        steps = _steps_next(planned, steps, now - began, end - now)
        outcome.interrupted = clock.any_process(interrupts.requested)
        is_last = outcome.done == num_steps or now >= end or outcome.interrupted
        if is_last or (outcome.all_lost and not planned.makes_all_steps):
            return
        if planned.writer is not None:
            planned.writer.look(outcome)


def _steps_of_call(planned: RunPlan, done: int, steps: int) -> int:
    """Return how many of these steps the next call can make, after `done` steps of the run."""
    kept, layout = planned.kept, planned.layout
    steps = min(steps, planned.terms.num_steps - done, layout.most_steps or steps)
    # Draws lie in a fixed number of slots until the call returns.
    if layout.keep is not None:
        room = kept.burn_in + (kept.due(done) + layout.num_slots) * kept.thin
        # The next draw would not fit; the steps on the way to it do.
        steps = min(steps, room + kept.thin - 1 - done)
    # A stream's window serves so many steps; the next call waits for the next one.
    if planned.windows is not None:
        steps = min(steps, planned.windows.left(planned.terms.first_step + done) or steps)
    if layout.accelerator and steps > layout.block_size:
        # What is no whole block is a call of its own.
        steps -= steps % layout.block_size
    return steps


def _steps_next(planned: RunPlan, steps: int, took: float, left: float) -> int:
    """Return the steps, whole blocks, of a call that takes `SECONDS_PER_CALL`.

    Args:
        planned: the plan of the run.
        steps: steps of the last call.
        took: seconds of the last call.
        left: seconds that the run may still take.
    """
    block_size, wanted = planned.layout.block_size, max(0.0, min(SECONDS_PER_CALL, left))
    # One call's time is a rough guess at the next one's.
    blocks = math.floor(min(8.0, wanted / max(took, 1e-9)) * steps / block_size)
    return max(1, blocks) * block_size


def _stop_at(outcome: Outcome, error: Exception) -> None:
    """End a run at a call that failed, with what the calls before it gave."""
    outcome.interrupted = True
    # The call took the memory of its state, and the last state that was kept is an earlier one.
    if any(leaf.is_deleted() for leaf in jax.tree.leaves(outcome.state)):
        outcome.state = outcome.monitor.last_kept
    warn(
        f"the run ended after {outcome.done} steps because the next ones failed: "
        f"{checks.reason(error)}; what was sampled is returned, and samples.state is that after "
        f"step {_step_of(outcome)}"
    )


def _step_of(outcome: Outcome) -> int:
    """Return the number of the step after which the outcome's states are."""
    return int(np.ravel(on_host(outcome.state.step))[0])
