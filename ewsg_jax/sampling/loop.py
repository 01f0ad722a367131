"""The loop on the host: compiled calls of about half a second, and what they add up to."""

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._kernel import KernelState
from ewsg_jax._types import PyTree
from ewsg_jax.progress import Progress
from ewsg_jax.sampling._moments import MomentPlan, Sums
from ewsg_jax.sampling.chunks import Call
from ewsg_jax.sampling.health import DivergenceMonitor
from ewsg_jax.sampling.host import Interrupts, on_host
from ewsg_jax.sampling.keeping import Plan
from ewsg_jax.sampling.layout import Layout
from ewsg_jax.stacking.kernels import StackState

SECONDS_PER_CALL = 0.5


@dataclass
class Outcome:
    """What the calls so far add up to.

    Attributes:
        draws: the kept draws in the host's memory, leading axes (chain, draw); filled as far as the
            calls came.
        totals: by the names of `Call.totals`, shape (chain,).
        spent: pairs of steps and counted evaluations of all chains, call after call.
    """

    state: KernelState
    watch: DivergenceMonitor
    draws: PyTree
    totals: dict[str, np.ndarray] = field(default_factory=dict)
    spent: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    done: int = 0
    interrupted: bool = False
    sums: Sums | None = None

    @property
    def all_lost(self) -> bool:
        """Whether no chain moves any more, of a stack no member of any."""
        own = self.state.dynamics
        rests = isinstance(own, StackState) and bool((on_host(own.diverged_at) >= 0).all())
        return rests or not self.watch.alive.any()


def run(
    advance: Callable[..., Call],
    outcome: Outcome,
    num_steps: int,
    plan: Plan,
    layout: Layout,
    bar: Progress,
    interrupts: Interrupts,
    limit: float | None = None,
    look: Callable[[Outcome], None] | None = None,
    is_part: bool = False,
    left: Callable[[int], int | None] | None = None,
) -> Outcome:
    """Make calls until all steps are made, time is up, an interrupt comes, or no chain is left.

    Args:
        advance: `advance(done, steps, state, alive, guarded=…) -> Call`.
        outcome: where to begin; filled and returned.
        num_steps: how many steps there are at the most.
        plan: which of them are kept.
        layout: how the run is compiled.
        bar: advanced by each call, and closed.
        interrupts: entered; a request ends the run after the call in progress.
        limit: seconds; the call in which they are over is the last one.
        look: shown the outcome after each call but the last, so that checkpoints are written.
        is_part: whether chains that have all diverged stay frozen to the end, for others make as
            many steps.
        left: of a run over windows of a stream, how many steps there are with one from a step on.

    Returns:
        The outcome.
    """
    # The first call is one block, which tells how long a step takes.
    steps = layout.block_size
    clock = outcome.watch.clock
    end = math.inf if limit is None else clock.now() + float(limit)
    while True:
        done = outcome.done
        steps = min(steps, num_steps - done, layout.most_steps or steps)
        # Draws lie in a fixed number of slots until the call returns.
        if layout.keep is not None:
            room = plan.burn_in + (plan.due(done) + layout.num_slots) * plan.thin
            # The next draw would not fit; the steps on the way to it do.
            steps = min(steps, room + plan.thin - 1 - done)
        # A stream's window serves so many steps; the next call waits for the next one.
        if left is not None:
            steps = min(steps, left(done) or steps)
        if layout.accelerator and steps > layout.block_size:
            # What is no whole block is a call of its own.
            steps -= steps % layout.block_size
        outcome.watch.keep(outcome.state, done)
        began = clock.now()
        try:
            call = jax.block_until_ready(
                outcome.watch.call(advance, layout.keep, outcome.state, done, steps)
            )
        except Exception as error:
            # Nothing was sampled, so nothing is lost by raising.
            if not done:
                raise
            _stop_at(outcome, error)
            break
        now = clock.now()
        seconds = now - began

        # Parts that other processes hold come to each of them; states stay where they are.
        if clock.has_many:
            call = Call(call.state, *on_host(tuple(call)[1:]))
        _add(outcome, call, steps, plan)
        if layout.moments is not None:
            sums = call.record.sums
            outcome.sums = (
                sums if outcome.sums is None else _merged(layout.moments, outcome.sums, sums)
            )
        bar.update(steps)
        # Long enough that the host's own time does not count, short enough to be interrupted. At
        # most eightfold, for one call's time is a rough guess at the next one's.
        wanted = max(0.0, min(SECONDS_PER_CALL, end - now))
        blocks = math.floor(min(8.0, wanted / max(seconds, 1e-9)) * steps / layout.block_size)
        steps = max(1, blocks) * layout.block_size
        outcome.interrupted = clock.any_process(interrupts.requested)
        if (
            outcome.done == num_steps
            or now >= end
            or outcome.interrupted
            # A batch of chains goes on alone: the others' sums take as many steps of each.
            or (outcome.all_lost and not is_part)
        ):
            break
        if look is not None:
            look(outcome)
    bar.close()
    return outcome


@functools.partial(jax.jit, static_argnums=0)
def _merged(plan: MomentPlan, first: Sums, second: Sums) -> Sums:
    """Return the sums of all chains over both."""
    return plan.merge(first, second)


def _stop_at(outcome: Outcome, error: Exception) -> None:
    """End a run at a call that failed, with what the calls before it gave."""
    outcome.interrupted = True
    # The call took the memory of its state, and the last state that was kept is an earlier one.
    if any(leaf.is_deleted() for leaf in jax.tree.leaves(outcome.state)):
        outcome.state = outcome.watch.last_kept
    step = int(np.ravel(on_host(outcome.state.step))[0])
    warnings.warn(
        f"the run ended after {outcome.done} steps because the next ones failed: "
        f"{_check.reason(error)}; what was sampled is returned, and samples.state is that after "
        f"step {step}",
        RuntimeWarning,
        stacklevel=6,
    )


def _add(outcome: Outcome, call: Call, steps: int, plan: Plan) -> None:
    """Add what a call of `steps` steps gave."""
    done = outcome.done
    first, last = plan.kept(done), plan.kept(done + steps)

    # Slots come first in the program's arrays, chains in the user's.
    def write(draws: np.ndarray, slots: np.ndarray) -> None:
        draws[:, first:last] = np.asarray(slots)[: last - first].swapaxes(0, 1)

    jax.tree.map(write, outcome.draws, call.record.slots)
    for name, total in call.totals.items():
        # Wide numbers: one call's sum fits in 32 bits, a run's need not.
        wide = np.asarray(
            total, np.float64 if np.issubdtype(total.dtype, np.floating) else np.int64
        )
        outcome.totals[name] = outcome.totals.get(name, 0) + wide
    outcome.done += steps
    counted = outcome.totals.get("gradient_evaluations", np.zeros(1, int))
    # Of a stack of kernels, what a member takes.
    outcome.spent.append((outcome.done, int(np.sum(counted)) // counted[0].size))
    outcome.state = call.state
