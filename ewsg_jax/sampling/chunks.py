"""The compiled loop: many steps of many chains, randomness drawn and rows gathered a block of steps at a time.

The randomness of chain c at step t is a function of (key, c, t) alone, so how the steps are cut into blocks
and calls changes nothing.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _tree
from ewsg_jax._kernel import Info, Kernel, KernelState, Randomness, chain_axes
from ewsg_jax._types import Array, Data, Key, Position, PyTree
from ewsg_jax.sampling.layout import Layout


class Plan(NamedTuple):
    """Which of the run's steps are kept: after `burn_in` steps every `thin`-th."""

    burn_in: int
    thin: int

    def kept(self, made: Any) -> Any:
        """Return how many of the first `made` steps are kept, for numbers of the host and of a compiled program."""
        return (made > self.burn_in) * ((made - self.burn_in) // self.thin)


class Record(NamedTuple):
    """What one call keeps: draws with leading axes (slot, chain), and sums with a leading chain axis, or None."""

    slots: PyTree
    sums: Any


class Health(NamedTuple):
    """Whether each chain is alive, and the step at which it ceased to be: shape (chain,)."""

    alive: Array
    diverged_at: Array


class Call(NamedTuple):
    """What one call returns.

    Attributes:
        state: the states, leading axis chain.
        record: what is kept.
        totals: sums over the steps of what `Info` does not know beforehand, by name, shape (chain,).
        health: of each chain, looked at after every step where the call is guarded, else after the last.
    """

    state: KernelState
    record: Record
    totals: dict[str, Array]
    health: Health


@functools.partial(jax.jit, static_argnames=("shared_memory",))
def start(kernel: Kernel, keys: Array, positions: PyTree, data: Data, shared_memory: bool) -> KernelState:
    """Return the first states of all chains, leading axis chain; a memory that they share is the first one's."""
    if not shared_memory:
        return jax.vmap(kernel.init, in_axes=(0, 0, None))(keys, positions, data)
    # Of this only the memory is kept, but no key is used twice.
    first = kernel.init(jax.random.fold_in(keys[0], 0), _tree.take(positions, 0), data)
    own = jax.vmap(lambda key, position: kernel.init(key, position, data).dynamics)(keys, positions)
    return first._replace(dynamics=own)


@functools.partial(jax.jit, static_argnames=("layout", "guarded"), donate_argnames=("state",))
def advance(
    kernel: Kernel,
    layout: Layout,
    chain_keys: Array,
    shared_key: Key,
    data: Data,
    plan: Plan,
    done: Array,
    num_steps: Array,
    state: KernelState,
    alive: Array,
    *,
    guarded: bool = False,
) -> Call:
    """Make `num_steps` steps of all chains; `num_steps` may change from call to call without compiling.

    Args:
        kernel: the kernel.
        layout: how the run is compiled.
        chain_keys: one key per chain, shape (chains,).
        shared_key: the key of batches that all chains share.
        data: the data.
        plan: which steps are kept.
        done: steps of this run made before this call.
        num_steps: steps to make now.
        state: states with a leading chain axis, but for a memory that the chains share.
        alive: which chains still move where the call is guarded, shape (chains,).
        guarded: look at every chain after every step, and let one that is not finite rest where it last was.
    """
    first_step = jnp.ravel(state.step)[0]
    first_slot = plan.kept(done)
    axes = Randomness(None, 0) if layout.shared_minibatch else Randomness(0, 0)
    state_axes = chain_axes(layout.shared_memory)
    keep, moments = layout.keep, layout.moments
    counted = kernel.evaluations(data).counted

    def one_transition(
        randomness: Randomness, state: KernelState, data: Data
    ) -> tuple[KernelState, dict[str, Array]]:
        state, info = kernel.transition(randomness, state, data)
        return state, unknown_beforehand(info, counted)

    transition = jax.vmap(one_transition, in_axes=(axes, state_axes, None), out_axes=(state_axes, 0))

    def draw(step: Array, state: KernelState) -> Randomness:
        def one_chain(key: Key, state: KernelState) -> Randomness:
            return kernel.draw(jax.random.fold_in(key, step), state.at_step(step), data)

        own = jax.vmap(one_chain, in_axes=(0, state_axes))(chain_keys, state)
        if not layout.shared_minibatch:
            return own
        first = jax.tree.map(lambda x: x[0], state.dynamics)
        return Randomness(one_chain(shared_key, state._replace(dynamics=first)).batch, own.noise)

    def write(record: Record, state: KernelState, alive: Array, slot: Array) -> Record:
        slots, sums = record
        if keep is not None:
            values = jax.vmap(keep)(state.position)
            slots = jax.tree.map(lambda s, x: jax.lax.dynamic_update_index_in_dim(s, x, slot, 0), slots, values)
        if moments is not None:
            weight = jnp.float32(1.0)
            if moments.weights != "equal":
                made = jnp.ravel(state.step)[0]
                weight = jnp.asarray(kernel.step_size(made - (moments.weights == "step_size")), jnp.float32)
            added = jax.vmap(moments.add, in_axes=(0, None, 0))(sums, weight, state.position)
            # A weight of 0 would not do: a lost chain's position may be too large to be squared.
            sums = jax.vmap(_tree.where)(alive, added, sums) if guarded else added
        return Record(slots, sums)

    def block(j: Array, carry: Any) -> Any:
        start = j * layout.block_size
        steps = first_step + start + jnp.arange(layout.block_size, dtype=jnp.int32)
        draw_all = functools.partial(jax.vmap(draw, in_axes=(0, None)), steps, carry[0])
        # There is always a step left; the condition keeps XLA from making each row number anew for every number
        # of the row that it gathers (measured: a fifth of the time of one chain).
        randomness = jax.lax.cond(start < num_steps, draw_all, functools.partial(_zeros, jax.eval_shape(draw_all)))
        if layout.gather_ahead:
            randomness = kernel.gather(randomness, data)

        def step(i: Array, carry: Any) -> Any:
            state, record, totals, health = carry
            moved, info = transition(_one_step_of(randomness, i), state, data)
            totals = jax.tree.map(jnp.add, totals, info)
            if guarded:
                fine = health.alive & jax.vmap(_tree.is_finite)(moved.dynamics)
                fallen = health.alive & ~fine
                moved = select_chains(fine, moved, state.at_step(moved.step), layout.shared_memory)
                health = Health(fine, jnp.where(fallen, moved.step, health.diverged_at))
            made = done + start + i + 1
            kept = plan.kept(made)
            record = jax.lax.cond(
                kept > plan.kept(made - 1),
                write,
                lambda record, *_: record,
                record,
                moved,
                health.alive,
                kept - 1 - first_slot,
            )
            return moved, record, totals, health

        return jax.lax.fori_loop(0, jnp.minimum(layout.block_size, num_steps - start), step, carry)

    record = Record(
        () if keep is None else _empty_slots(keep, layout.num_slots, state.position),
        None if moments is None else jax.vmap(moments.start)(state.position),
    )
    info = jax.eval_shape(lambda s: transition(draw(first_step, s), s, data)[1], state)
    totals = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), info)
    health = Health(alive, jnp.full(alive.shape, -1, jnp.int32))
    num_blocks = (num_steps + layout.block_size - 1) // layout.block_size
    state, record, totals, health = jax.lax.fori_loop(0, num_blocks, block, (state, record, totals, health))
    if not guarded:
        health = health._replace(alive=jax.vmap(_tree.is_finite)(state.dynamics))
    return Call(state, record, totals, health)


def select_chains(chosen: Array, yes: KernelState, no: KernelState, shared_memory: bool) -> KernelState:
    """Return the chosen chains' states from one, the others' from another; a shared memory is that of both."""
    pick = jax.vmap(_tree.where)
    memory = no.memory if shared_memory else pick(chosen, yes.memory, no.memory)
    return no._replace(dynamics=pick(chosen, yes.dynamics, no.dynamics), memory=memory)


def unknown_beforehand(info: Info, counted: bool) -> dict[str, Array]:
    """Return what a run sums up over its steps and does not know without running them.

    Evaluations are among it only where `Kernel.evaluations` cannot say what any steps cost.
    """
    names = ["index_acceptance", "acceptance", "overflow", *(["gradient_evaluations"] if counted else [])]
    found = {name: getattr(info, name) for name in names}
    return {
        name: x.astype(jnp.int32) if x.dtype == bool else x for name, x in found.items() if isinstance(x, jax.Array)
    }


def _one_step_of(randomness: Randomness, i: Array) -> Randomness:
    """Return the randomness of step i of a block."""

    def once(randomness: Randomness, i: Array) -> Randomness:
        # XLA's CPU backend would copy the rows for each product that reads them; out of a condition they come once.
        # Elsewhere a condition waits for the host.
        take = functools.partial(_tree.take, randomness, i)
        return jax.lax.cond(i >= 0, take, functools.partial(_zeros, jax.eval_shape(take)))

    return jax.lax.platform_dependent(randomness, i, cpu=once, default=_tree.take)


def _zeros(shapes: PyTree) -> PyTree:
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def _empty_slots(keep: Callable[[Position], PyTree], num_slots: int, positions: Position) -> PyTree:
    values = jax.eval_shape(jax.vmap(keep), positions)
    return _zeros(jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_slots, *x.shape), x.dtype), values))
