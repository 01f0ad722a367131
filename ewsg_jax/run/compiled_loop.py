"""The compiled loop: many steps of many chains, randomness drawn and rows gathered a block of steps
at a time.

The randomness of chain c at step t is a function of (key, c, t) alone, so how the steps are cut
into blocks and calls changes nothing.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import pytrees
from ewsg_jax.base.compiling import LOOP, run
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, chain_axes
from ewsg_jax.run.keeping import Kept, Record, StepUse, empty_record, record_step
from ewsg_jax.run.layout import ProgramLayout


class RunInputs(NamedTuple):
    """Arguments of the program that no call of a run changes.

    Attributes:
        chain_keys: one key per chain, shape (chains,).
        shared_key: the key of batches that all chains share.
        kept: which steps are kept.
    """

    chain_keys: Array
    shared_key: Key
    kept: Kept


class Span(NamedTuple):
    """The steps of one call, and the chains that make them.

    Attributes:
        done: steps of this run made before this call, int32.
        num_steps: steps to make now, int32; another number compiles nothing.
        alive: which chains still move if the call is guarded, shape (chains,).
    """

    done: Any
    num_steps: Any
    alive: Any


class LoopKind(NamedTuple):
    """Which of the loops is compiled.

    Attributes:
        guarded: check every chain after every step, and freeze one that is not finite at its last
            finite state.
        counted: `num_steps` is whole blocks: the loop over the steps of one has a known length, and
            a GPU need not ask the host after every step whether there is another.
    """

    guarded: bool
    counted: bool


class Health(NamedTuple):
    """Whether each chain is alive, and the step at which it ceased to be: shape (chain,)."""

    alive: Array
    diverged_at: Array


class Call(NamedTuple):
    """What one call returns.

    Attributes:
        state: the states, leading axis chain.
        record: what is kept.
        totals: sums over the steps of what `Info` does not know beforehand, by name, shape
            (chain,).
        health: whether each chain is alive, checked after every step if the call is guarded, else
            after the last.
    """

    state: KernelState
    record: Record
    totals: dict[str, Array]
    health: Health


@functools.partial(jax.jit, static_argnames=("shared_memory",))
def start(
    kernel: Kernel, data: Data, keys: Array, positions: PyTree, shared_memory: bool
) -> KernelState:
    """Return the first states of all chains, chain axis first.

    Args:
        kernel: the kernel.
        data: the data.
        keys: a key for each chain, shape (chains,).
        positions: the starts, leading axis chain.
        shared_memory: whether the chains share the estimator's memory, which then has no chain
            axis.
    """
    if not shared_memory:
        return jax.vmap(kernel.init, in_axes=(0, 0, None))(keys, positions, data)
    # A memory that chains share is a function of the data and the start, not of the key (see
    # `Sharing`): the first chain's is that of all.
    first = kernel.init(jax.random.fold_in(keys[0], 0), pytrees.take(positions, 0), data)
    states = jax.vmap(lambda key, position: kernel.init(key, position, data)._replace(memory=()))(
        keys, positions
    )
    return states._replace(memory=first.memory)


@dataclass(frozen=True)
class StepProgram:
    """The compiled loop of one run, with what no call of it changes.

    Attributes:
        kernel: the kernel.
        layout: how the run is compiled.
        inputs: keys, and which steps are kept; or their shapes, to compile only.
        loop: `advance` or `advance_small`, or one over several devices that takes the same.
    """

    kernel: Kernel
    layout: ProgramLayout
    inputs: RunInputs
    loop: Callable[..., Call]

    def __call__(
        self,
        data: Data,
        done: int,
        num_steps: int,
        state: KernelState,
        alive: Array,
        *,
        guarded: bool = False,
        counted: bool | None = None,
    ) -> Call:
        """Make the steps of `advance`.

        Args:
            data: the data, or a window of them.
            done: steps of this run made before.
            num_steps: steps to make now.
            state: the states after those, whose memory the call takes.
            alive: which chains still move if the call is guarded, shape (chains,).
            guarded: see `LoopKind`.
            counted: see `LoopKind`; default: if it can be and is of use.
        """
        # A loop of known length does not ask the device whether it ends: worth it on an accelerator
        # alone.
        if counted is None:
            counted = self.layout.accelerator and num_steps % self.layout.block_size == 0
        span = Span(np.int32(done), np.int32(num_steps), alive)
        kind = LoopKind(guarded, counted)
        return self.loop(self.kernel, self.layout, self.inputs, data, span, state, kind=kind)

    def compile_ahead(self, data: Data, state: KernelState) -> None:
        """Compile what a call on one device will run, from the shapes of states and keys."""
        zero = np.int32(0)
        span = Span(zero, zero, jax.ShapeDtypeStruct(self.inputs.chain_keys.shape, bool))
        kind = LoopKind(guarded=False, counted=self.layout.accelerator)
        run(self.loop, self.kernel, self.layout, self.inputs, data, span, state, kind=kind)


def loop_of(layout: ProgramLayout) -> Callable[..., Call]:
    """Return the loop for one device: if steps are small or few, the one compiled quickly."""
    return advance_small if layout.small else advance


def make_span(
    kernel: Kernel,
    layout: ProgramLayout,
    inputs: RunInputs,
    data: Data,
    span: Span,
    state: KernelState,
    *,
    kind: LoopKind,
) -> Call:
    """Make the steps of a span, of all chains; `advance` is this function, compiled.

    Args:
        kernel: the kernel.
        layout: how the run is compiled.
        inputs: keys, and which steps are kept.
        data: the data.
        span: how many steps were made and are to be made, and which chains are alive.
        state: states with a leading chain axis, but for a memory that the chains share.
        kind: whether every step is checked, and whether the loop has a known length.
    """
    # All chains are at one step, so the first one's number serves all.
    first_step = jnp.ravel(state.step)[0]
    kept, done, num_steps = inputs.kept, span.done, span.num_steps
    first_slot = kept.number(done)
    draw = functools.partial(_draw, kernel, layout, inputs, data)
    transition = _transition_of_chains(kernel, layout, data)

    def block(j: Array, so_far: Call) -> Call:
        start = j * layout.block_size
        steps = first_step + start + jnp.arange(layout.block_size, dtype=jnp.int32)

        def draw_all() -> Randomness:
            return jax.vmap(draw, in_axes=(0, None))(steps, so_far.state)

        # There is always a step left; the condition keeps XLA from making each row number again for
        # every number of the row that it gathers (measured: a fifth of the time of one chain).
        randomness = jax.lax.cond(
            start < num_steps, draw_all, functools.partial(_zeros, jax.eval_shape(draw_all))
        )
        if layout.gather_ahead:
            randomness = kernel.fetch(randomness, data)

        def step(i: Array, so_far: Call) -> Call:
            # The only step of a block is the block: to take it would be to copy its rows.
            of_step = pytrees.take(randomness, i if layout.block_size > 1 else 0)
            moved, info = transition(of_step, so_far.state, data)
            totals = jax.tree.map(jnp.add, so_far.totals, info)
            health = so_far.health
            if kind.guarded:
                moved, health = _freeze_diverged(so_far.state, moved, health, layout.shared_memory)
            # The slot of a step follows from its number, so that the loop counts nothing.
            num_made = done + start + i + 1
            before, now = kept.number(num_made - 1), kept.number(num_made)
            record = record_step(
                kernel,
                layout,
                so_far.record,
                moved,
                health.alive if kind.guarded else None,
                before - first_slot,
                StepUse(is_kept=now > before, is_past_burn_in=num_made > kept.burn_in),
            )
            return Call(moved, record, totals, health)

        left = num_steps - start
        turns = layout.block_size if kind.counted else jnp.minimum(layout.block_size, left)
        return jax.lax.fori_loop(0, turns, step, so_far)

    # What a call of no steps returns; the blocks add to it.
    record = empty_record(layout, state.position)
    totals = _zeros(jax.eval_shape(lambda s: transition(draw(first_step, s), s, data)[1], state))
    health = Health(span.alive, jnp.full(span.alive.shape, -1, jnp.int32))
    num_blocks = (num_steps + layout.block_size - 1) // layout.block_size
    call = jax.lax.fori_loop(0, num_blocks, block, Call(state, record, totals, health))
    if kind.guarded:
        return call
    # One look at the end of a call costs little; chains that it finds are replayed under guard.
    alive = jax.vmap(pytrees.is_finite)(call.state.dynamics)
    return call._replace(health=call.health._replace(alive=alive))


def _draw(
    kernel: Kernel,
    layout: ProgramLayout,
    inputs: RunInputs,
    data: Data,
    step: Array,
    state: KernelState,
) -> Randomness:
    """Return everything random in the step of this number, of all chains.

    Leading axis chain, but for a batch that the chains share.
    """

    def one_chain(key: Key, state: KernelState) -> Randomness:
        # A function of the chain's key and the step's number: the same however a run is cut.
        return kernel.draw(jax.random.fold_in(key, step), state.at_step(step), data)

    in_axes = 0, chain_axes(layout.shared_memory)
    by_chain = jax.vmap(one_chain, in_axes=in_axes)(inputs.chain_keys, state)
    if not layout.shared_minibatch:
        return by_chain
    # One batch for all chains, from a key that belongs to none of them.
    first = jax.tree.map(lambda x: x[0], state.dynamics)
    shared = one_chain(inputs.shared_key, state._replace(dynamics=first))
    return Randomness(shared.batch, by_chain.noise)


def _transition_of_chains(
    kernel: Kernel, layout: ProgramLayout, data: Data
) -> Callable[[Randomness, KernelState, Data], tuple[KernelState, dict[str, Array]]]:
    """Return the transition of all chains, and what it reports that is not known beforehand."""
    counts_evaluations = kernel.evaluations(data).counted

    def one_chain(
        randomness: Randomness, state: KernelState, data: Data
    ) -> tuple[KernelState, dict[str, Array]]:
        state, info = kernel.transition(randomness, state, data)
        return state, unknown_beforehand(info, counts_evaluations)

    # With one batch for all chains only the noise has an axis of chains.
    randomness_axes = Randomness(None, 0) if layout.shared_minibatch else Randomness(0, 0)
    state_axes = chain_axes(layout.shared_memory)
    # Traced once for its shapes and its steps; inline, so that the program is the same.
    return jax.jit(
        jax.vmap(one_chain, in_axes=(randomness_axes, state_axes, None), out_axes=(state_axes, 0)),
        inline=True,
    )


def _freeze_diverged(
    before: KernelState, moved: KernelState, health: Health, shared_memory: bool
) -> tuple[KernelState, Health]:
    """Return the states after a step, chains that are not finite at their last finite state.

    Their step number is that of the others, and running moments leave them out.

    Args:
        before: the states before the step, leading axis chain.
        moved: the states after it.
        health: which chains were alive before it.
        shared_memory: whether the chains share the estimator's memory.
    """
    is_alive = health.alive & jax.vmap(pytrees.is_finite)(moved.dynamics)
    has_diverged = health.alive & ~is_alive
    states = select_chains(is_alive, moved, before.at_step(moved.step), shared_memory)
    return states, Health(is_alive, jnp.where(has_diverged, states.step, health.diverged_at))


_jit = functools.partial(
    jax.jit, make_span, static_argnames=("layout", "kind"), donate_argnames=("state",)
)
advance, advance_small = _jit(), _jit(compiler_options=LOOP)


def select_chains(
    chosen: Array, yes: KernelState, no: KernelState, shared_memory: bool
) -> KernelState:
    """Return the chosen chains' states from one, the rest from another; shared memory of both."""
    pick = jax.vmap(pytrees.where)
    memory = no.memory if shared_memory else pick(chosen, yes.memory, no.memory)
    return no._replace(dynamics=pick(chosen, yes.dynamics, no.dynamics), memory=memory)


def unknown_beforehand(info: Info, counted: bool) -> dict[str, Array]:
    """Return what a run sums up over its steps and does not know without running them.

    Evaluations are among it only if `Kernel.evaluations` cannot say what any steps cost.
    """
    names = ["index_acceptance", "acceptance", "overflow"]
    if counted:
        names.append("gradient_evaluations")
    arrays = {name: getattr(info, name) for name in names}
    return {
        name: x.astype(jnp.int32) if x.dtype == bool else x
        for name, x in arrays.items()
        if isinstance(x, jax.Array)
    }


def _zeros(shapes: PyTree) -> PyTree:
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
