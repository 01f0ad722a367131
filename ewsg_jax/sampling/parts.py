"""The parts of a run after its arguments are checked, in their order: plan, run, and collect what came out."""

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _tree
from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Array, Key
from ewsg_jax.gradients import Evaluations
from ewsg_jax.progress import Progress
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.sampling import chunks, heat, loop, memory
from ewsg_jax.sampling._moments import finish, positions
from ewsg_jax.sampling.budget import num_steps_of
from ewsg_jax.sampling.health import Watch
from ewsg_jax.sampling.interrupts import Interrupts
from ewsg_jax.sampling.keeping import Plan
from ewsg_jax.sampling.layout import Layout, choose_layout, on_accelerator
from ewsg_jax.sampling.loop import Outcome
from ewsg_jax.sampling.request import Chains, Manner, Wanted, check_kept, check_length
from ewsg_jax.sampling.room import Room
from ewsg_jax.sampling.samples import Samples
from ewsg_jax.sampling.starts import chain_keys, first_state, is_function, split

DRAW_MEMORY = 64 * 2**20
"""Bytes of kept draws that one call holds on the device."""


class Planned(NamedTuple):
    """A run before it begins.

    Attributes:
        advance: `advance(done, steps, state, alive, guarded=…) -> Call`.
        num_steps: of each chain, at the most.
        open_ended: whether time alone ends the run.
        num_chains: how many there are.
        first_step: the number of the step that the run begins at.
        plan: which steps are kept.
        layout: how the run is compiled.
        cost: evaluations of one chain; none at the start of a run that goes on.
        began: when it was planned, in seconds.
        run_key: of the chains.
    """

    advance: Callable[..., chunks.Call]
    num_steps: int
    open_ended: bool
    num_chains: int
    first_step: int
    plan: Plan
    layout: Layout
    cost: Evaluations
    began: float
    run_key: Key


def plan(chains: Chains, wanted: Wanted, manner: Manner) -> tuple[Planned, Outcome]:
    """Make the chains' first states, decide how many steps there are and how they are cut into calls.

    Returns:
        The plan, and an outcome of no steps, which alone holds the first states: their memory may be large.

    Raises:
        TypeError, ValueError: arguments do not go together; the message names one.
    """
    kernel, data = chains.kernel, chains.data
    init_key, run_key, shared_key = split(chains.key)
    began = time.perf_counter()
    shapes, shared_memory, make_first = first_state(
        init_key, kernel, chains.position, data, chains.state, chains.num_chains, chains.stacked
    )
    num_chains = shapes.step.shape[0]
    first_step = 0 if chains.state is None else int(chains.state.step[0])
    cost = kernel.evaluations(data)
    cost = cost._replace(at_init=cost.at_init if chains.state is None else 0)
    num_steps = num_steps_of(cost, num_rows(data), wanted.num_steps, wanted.data_passes, wanted.seconds, first_step)
    open_ended = wanted.num_steps is None and wanted.data_passes is None
    check_length(num_steps, first_step, wanted)
    kept = Plan(wanted.burn_in, wanted.thin)
    one_draw, num_draws = check_kept(wanted, shapes.position), kept.kept(num_steps)
    draw_bytes = 0 if wanted.keep is None else max(1, _tree.num_bytes(one_draw))
    layout, block_bytes = choose_layout(
        kernel,
        shapes,
        data,
        num_steps,
        manner.randomness_memory,
        manner.shared_minibatch,
        shared_memory,
        num_slots=_slots(draw_bytes, num_draws),
        keep=wanted.keep,
        moments=wanted.moments,
        accelerator=on_accelerator(data),
    )
    size = layout.num_slots if open_ended else num_draws
    needs = memory.Needs(_tree.num_bytes(shapes), block_bytes, layout.num_slots * draw_bytes, size * draw_bytes)
    memory.check(needs, num_chains, manner.memory_limit)

    def check_growth(size: int, larger: int) -> None:
        beside = needs._replace(draws=size * draw_bytes)
        memory.check_growth(beside, larger * draw_bytes, manner.memory_limit)

    room = Room(one_draw, size, num_draws, check_growth)
    first = make_first()
    watch = Watch(num_chains, shared_memory, first)
    if manner.check_data:
        kernel.check(watch.start, data)
    run_keys = chain_keys(run_key, num_chains)
    advance = functools.partial(chunks.call, kernel.hoisted(), layout, run_keys, shared_key, data, kept)
    planned = Planned(advance, num_steps, open_ended, num_chains, first_step, kept, layout, cost, began, run_key)
    # Calls take the memory of the state that they are given; the first state stays, to replay from.
    return planned, Outcome(_tree.copy(first), watch, room)


def run(planned: Planned, outcome: Outcome, seconds: float | None, progress: bool) -> float:
    """Compile, make the steps and fill the outcome; return when the program was compiled, in seconds.

    Raises:
        ValueError: time was up before a draw could be kept.
    """
    with Interrupts() as interrupts:
        alive, layout = jnp.asarray(outcome.watch.alive), planned.layout
        one_call = layout.keep is None or planned.plan.kept(planned.num_steps) <= layout.num_slots
        whole = one_call and planned.num_steps % layout.block_size == 0
        for counted in {layout.accelerator, layout.accelerator and whole}:
            # No step: this compiles.
            made = planned.advance(0, 0, outcome.state, alive, counted=counted)
            outcome.state = jax.block_until_ready(made).state
        compiled = time.perf_counter()
        bar = Progress(None if planned.open_ended else planned.num_steps, progress)
        plan, num_steps = planned.plan, planned.num_steps
        loop.run(planned.advance, outcome, num_steps, plan, layout, bar, interrupts, seconds)
    ended = outcome.interrupted or outcome.all_lost or outcome.done == num_steps
    if not ended and not plan.kept(outcome.done):
        raise ValueError(
            f"seconds must be enough for burn_in + thin = {plan.burn_in + plan.thin} steps to keep a draw; got "
            f"{seconds}, in which {outcome.done} were made"
        )
    return compiled


def collect(chains: Chains, wanted: Wanted, planned: Planned, outcome: Outcome, compiled: float) -> Samples:
    """Return what a run gave."""
    ended = time.perf_counter()
    num_chains, first_step, cost = planned.num_chains, planned.first_step, planned.cost
    per_chain = functools.partial(_of_each_chain, outcome.totals, num_chains)
    num_draws = planned.plan.kept(outcome.done)
    draws = jax.tree.map(lambda x: x[:, :num_draws], outcome.room.draws)
    step = first_step + wanted.burn_in + wanted.thin * np.arange(1, num_draws + 1)
    # Made up to a power of two: runs of other lengths share a program.
    steps = np.pad(step - 1, (0, (1 << num_draws.bit_length()) - num_draws))
    step_size = np.asarray(_step_sizes(chains.kernel, steps.astype(np.int32)))[:num_draws]
    made = max(outcome.done, 1)
    spent = functools.partial(_spent, cost, outcome, num_chains, first_step)
    one_start = chains.state is None and not chains.stacked and not is_function(chains.position)
    return Samples(
        draws=None if wanted.keep is None else draws,
        moments=None if wanted.moments is None or outcome.sums is None else finish(wanted.moments, outcome.sums),
        state=outcome.state,
        step=step,
        step_size=np.broadcast_to(step_size, (num_draws, *step_size.shape[1:])),
        evaluations=cost.at_init + np.rint(spent(step - first_step) / num_chains).astype(np.int64),
        gradient_evaluations=num_chains * cost.at_init + int(spent(np.asarray(outcome.done))),
        num_data=num_rows(chains.data),
        num_steps=outcome.done,
        index_acceptance=per_chain("index_acceptance", made) / made,
        acceptance=per_chain("acceptance", made) / made,
        overflow=per_chain("overflow", 0),
        diverged_at=outcome.watch.diverged_at,
        keeps_positions=wanted.keep is positions,
        common_start=num_chains > 1 and one_start,
        shared_minibatch=planned.layout.shared_minibatch,
        heat=_heat(chains, wanted, planned, outcome),
        interrupted=outcome.interrupted,
        compile_seconds=compiled - planned.began,
        run_seconds=ended - compiled,
    )


def _heat(chains: Chains, wanted: Wanted, planned: Planned, outcome: Outcome) -> float | None:
    if outcome.interrupted:
        return None
    alive = outcome.watch.alive
    layout, key, plan = planned.layout, planned.run_key, planned.plan
    return heat.of_run(chains, wanted, layout, key, plan, outcome.state, alive, outcome.done)


@jax.jit
def _step_sizes(kernel: Kernel, steps: Array) -> Array:
    """Return the h of the steps after so many others."""
    return jax.vmap(lambda step: jnp.asarray(kernel.step_size(step)))(steps)


def _slots(draw_bytes: int, num_draws: int) -> int:
    """Return how many draws one call holds, none where a draw has no bytes because none is kept."""
    return int(max(1, min(num_draws, DRAW_MEMORY // draw_bytes))) if draw_bytes else 0


def _of_each_chain(totals: dict[str, np.ndarray], num_chains: int, name: str, known: int) -> np.ndarray:
    """Return the sums over a run's steps of what `Info` reports, shape (chain,); `known` where nothing ran it."""
    total = totals.get(name, np.asarray(known))
    return np.broadcast_to(total, (num_chains, *total.shape[1:])).copy()


def _spent(cost: Evaluations, outcome: Outcome, num_chains: int, first_step: int, steps: np.ndarray) -> np.ndarray:
    """Return the evaluations of all chains in their first so many steps, int64; between calls a straight line."""
    if not cost.counted:
        return num_chains * cost.of_steps(first_step, steps)
    return np.rint(np.interp(steps, *np.transpose(outcome.spent))).astype(np.int64)
