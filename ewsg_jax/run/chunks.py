"""The compiled loop: many steps of many chains, randomness drawn and rows gathered a block of steps
at a time.

The randomness of chain c at step t is a function of (key, c, t) alone, so how the steps are cut
into blocks and calls changes nothing.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import pytrees
from ewsg_jax.base.compiling import LOOP
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, chain_axes
from ewsg_jax.run import keeping
from ewsg_jax.run.keeping import Kept, Record
from ewsg_jax.run.layout import Layout


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
        health: of each chain, checked after every step where the call is guarded, else after the
            last.
    """

    state: KernelState
    record: Record
    totals: dict[str, Array]
    health: Health


@functools.partial(jax.jit, static_argnames=("shared_memory",))
def start(
    kernel: Kernel, data: Data, keys: Array, positions: PyTree, shared_memory: bool
) -> KernelState:
    """Return the first states of all chains, chain axis first; shared memory from the first."""
    if not shared_memory:
        return jax.vmap(kernel.init, in_axes=(0, 0, None))(keys, positions, data)
    # Of this only the memory is kept, but no key is used twice.
    first = kernel.init(jax.random.fold_in(keys[0], 0), pytrees.take(positions, 0), data)
    own = jax.vmap(lambda key, position: kernel.init(key, position, data)._replace(memory=()))(
        keys, positions
    )
    return own._replace(memory=first.memory)


def call(
    kernel: Kernel,
    layout: Layout,
    chain_keys: Array,
    shared_key: Key,
    kept: Kept,
    data: Data,
    done: int,
    num_steps: int,
    state: KernelState,
    alive: Array,
    *,
    guarded: bool = False,
    counted: bool | None = None,
    program: Callable[..., Call] | None = None,
) -> Call:
    """Make the steps of `advance`; `counted` as there, by default where it can be and is of use.

    The program is that of one device, quickly compiled or not, unless one that takes the same is
    given.
    """
    # A loop of known length does not ask the device whether it ends: worth it on an accelerator
    # alone.
    if counted is None:
        counted = layout.accelerator and num_steps % layout.block_size == 0
    steps = np.int32(done), np.int32(num_steps)
    parts = kernel, layout, chain_keys, shared_key, data, kept
    # Two programs of one function: where steps are small or few it is compiled quickly.
    if program is None:
        program = advance_small if layout.small else advance
    return program(*parts, *steps, state, alive, guarded=guarded, counted=counted)


def compile_ahead(
    kernel: Kernel,
    layout: Layout,
    chain_keys: Any,
    shared_key: Key,
    data: Data,
    kept: Kept,
    state: KernelState,
    counted: bool,
) -> None:
    """Compile what `call` will run on one device, from the shapes of states and keys."""
    program = advance_small if layout.small else advance
    alive, none = jax.ShapeDtypeStruct(chain_keys.shape, bool), np.int32(0)
    parts = kernel, layout, chain_keys, shared_key, data, kept
    program.lower(*parts, none, none, state, alive, guarded=False, counted=counted).compile()


def _advance(
    kernel: Kernel,
    layout: Layout,
    chain_keys: Array,
    shared_key: Key,
    data: Data,
    kept: Kept,
    done: Array,
    num_steps: Array,
    state: KernelState,
    alive: Array,
    *,
    guarded: bool = False,
    counted: bool = False,
) -> Call:
    """Make `num_steps` steps of all chains; another `num_steps` compiles nothing.

    Args:
        kernel: the kernel.
        layout: how the run is compiled.
        chain_keys: one key per chain, shape (chains,).
        shared_key: the key of batches that all chains share.
        data: the data.
        kept: which steps are kept.
        done: steps of this run made before this call.
        num_steps: steps to make now.
        state: states with a leading chain axis, but for a memory that the chains share.
        alive: which chains still move where the call is guarded, shape (chains,).
        guarded: check every chain after every step, and freeze one that is not finite at its last
            finite state.
        counted: `num_steps` is whole blocks: the loop over the steps of one has a known length, and
            a GPU need not ask the host after every step whether there is another.
    """
    # All chains are at one step, so the first one's number serves all.
    first_step = jnp.ravel(state.step)[0]
    first_slot = kept.number(done)
    # With one batch for all chains only the noise has an axis of chains.
    axes = Randomness(None, 0) if layout.shared_minibatch else Randomness(0, 0)
    state_axes = chain_axes(layout.shared_memory)
    counts_evaluations = kernel.evaluations(data).counted

    def one_transition(
        randomness: Randomness, state: KernelState, data: Data
    ) -> tuple[KernelState, dict[str, Array]]:
        state, info = kernel.transition(randomness, state, data)
        return state, unknown_beforehand(info, counts_evaluations)

    transition = jax.vmap(
        one_transition, in_axes=(axes, state_axes, None), out_axes=(state_axes, 0)
    )

    def draw(step: Array, state: KernelState) -> Randomness:
        def one_chain(key: Key, state: KernelState) -> Randomness:
            # A function of the chain's key and the step's number: the same however a run is cut.
            return kernel.draw(jax.random.fold_in(key, step), state.at_step(step), data)

        own = jax.vmap(one_chain, in_axes=(0, state_axes))(chain_keys, state)
        if not layout.shared_minibatch:
            return own
        # One batch of all chains, from a key that belongs to none of them.
        first = jax.tree.map(lambda x: x[0], state.dynamics)
        return Randomness(one_chain(shared_key, state._replace(dynamics=first)).batch, own.noise)

    def block(j: Array, carry: PyTree) -> PyTree:
        start = j * layout.block_size
        steps = first_step + start + jnp.arange(layout.block_size, dtype=jnp.int32)

        def draw_all() -> Randomness:
            return jax.vmap(draw, in_axes=(0, None))(steps, carry[0])

        # There is always a step left; the condition keeps XLA from making each row number anew for
        # every number of the row that it gathers (measured: a fifth of the time of one chain).
        randomness = jax.lax.cond(
            start < num_steps, draw_all, functools.partial(_zeros, jax.eval_shape(draw_all))
        )
        if layout.gather_ahead:
            randomness = kernel.fetch(randomness, data)

        def step(i: Array, carry: PyTree) -> PyTree:
            state, record, totals, health = carry
            # The only step of a block is the block: to take it would be to copy its rows.
            own = pytrees.take(randomness, i if layout.block_size > 1 else 0)
            moved, info = transition(own, state, data)
            totals = jax.tree.map(jnp.add, totals, info)
            # A chain that has diverged stays at its last finite state and counts in no sum.
            if guarded:
                fine = health.alive & jax.vmap(pytrees.is_finite)(moved.dynamics)
                fallen = health.alive & ~fine
                moved = select_chains(fine, moved, state.at_step(moved.step), layout.shared_memory)
                health = Health(fine, jnp.where(fallen, moved.step, health.diverged_at))
            # Which slot a step is kept in follows from its number, so nothing is counted in the
            # loop.
            made = done + start + i + 1
            before, now = kept.number(made - 1), kept.number(made)
            counts = health.alive if guarded else None
            record = keeping.after(
                kernel, layout, record, moved, counts, before - first_slot, now > before
            )
            return moved, record, totals, health

        turns = layout.block_size if counted else jnp.minimum(layout.block_size, num_steps - start)
        return jax.lax.fori_loop(0, turns, step, carry)

    record = keeping.nothing(layout, state.position)
    info = jax.eval_shape(lambda s: transition(draw(first_step, s), s, data)[1], state)
    totals = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), info)
    health = Health(alive, jnp.full(alive.shape, -1, jnp.int32))
    num_blocks = (num_steps + layout.block_size - 1) // layout.block_size
    state, record, totals, health = jax.lax.fori_loop(
        0, num_blocks, block, (state, record, totals, health)
    )
    if not guarded:
        health = health._replace(alive=jax.vmap(pytrees.is_finite)(state.dynamics))
    return Call(state, record, totals, health)


_jit = functools.partial(
    jax.jit, _advance, static_argnames=("layout", "guarded", "counted"), donate_argnames=("state",)
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

    Evaluations are among it only where `Kernel.evaluations` cannot say what any steps cost.
    """
    names = [
        "index_acceptance",
        "acceptance",
        "overflow",
        *(["gradient_evaluations"] if counted else []),
    ]
    found = {name: getattr(info, name) for name in names}
    return {
        name: x.astype(jnp.int32) if x.dtype == bool else x
        for name, x in found.items()
        if isinstance(x, jax.Array)
    }


def _zeros(shapes: PyTree) -> PyTree:
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
