"""The compiled loop: many steps of many chains, randomness drawn a block at a time.

The randomness of chain c at step t is a function of (key, c, t) alone, so how the steps are cut into blocks
and calls changes nothing.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _random, _tree
from ewsg_jax._kernel import Kernel, KernelState, Randomness
from ewsg_jax._types import Array, Data, Key, PyTree

MOST_STEPS_PER_BLOCK = 256
WORK_PER_BLOCK = 10**8
"""Numbers that the gradients of one block touch at the most: roughly half a second on one core."""


class Plan(NamedTuple):
    """Which of the run's steps are kept, all int32 scalars: after `burn_in` steps every `thin`-th."""

    burn_in: Array
    thin: Array


class Totals(NamedTuple):
    """Sums over the steps of one call, per chain."""

    gradient_evaluations: Array
    index_acceptance: Array


@functools.partial(jax.jit, static_argnames="kernel")
def start(kernel: Kernel, keys: Array, positions: PyTree, data: Data) -> KernelState:
    """Return the first states of all chains, leading axis chain."""
    return jax.vmap(kernel.init, in_axes=(0, 0, None))(keys, positions, data)


@functools.partial(
    jax.jit, static_argnames=("kernel", "block_size", "num_slots", "shared_minibatch"), donate_argnums=1
)
def advance(
    kernel: Kernel,
    state: KernelState,
    chain_keys: Array,
    shared_key: Key,
    data: Data,
    plan: Plan,
    done: Array,
    num_steps: Array,
    *,
    block_size: int,
    num_slots: int,
    shared_minibatch: bool,
) -> tuple[KernelState, PyTree, Totals]:
    """Make `num_steps` steps of all chains; `num_steps` may change from call to call without compiling.

    Args:
        kernel: the kernel.
        state: states with a leading chain axis; donated.
        chain_keys: one key per chain, shape (chains,).
        shared_key: the key of batches that all chains share.
        data: the data.
        plan: which steps are kept.
        done: steps of this run made before this call.
        num_steps: steps to make now.
        block_size: steps whose randomness is drawn at once.
        num_slots: kept draws that fit in one call, plus one for the draw in progress.
        shared_minibatch: whether one batch serves all chains.

    Returns:
        The states, the kept positions with leading axes (slot, chain), and sums over the steps.
    """
    num_chains = chain_keys.shape[0]
    first_step = jnp.ravel(state.step)[0]
    slots = jax.tree.map(lambda x: jnp.zeros((num_slots, *x.shape), x.dtype), state.position)
    first_slot = jnp.maximum(done - plan.burn_in, 0) // plan.thin
    axes = Randomness(None, 0) if shared_minibatch else Randomness(0, 0)
    transition = jax.vmap(kernel.transition, in_axes=(axes, 0, None))

    def draw(step: Array, state: KernelState) -> Randomness:
        def one_chain(key: Key, state: KernelState) -> Randomness:
            return kernel.draw(jax.random.fold_in(key, step), state.at_step(step), data)

        own = jax.vmap(one_chain)(chain_keys, state)
        if not shared_minibatch:
            return own
        return Randomness(one_chain(shared_key, jax.tree.map(lambda x: x[0], state)).batch, own.noise)

    def block(j: Array, carry: Any) -> Any:
        start = j * block_size
        steps = first_step + start + jnp.arange(block_size, dtype=jnp.int32)
        randomness = jax.vmap(draw, in_axes=(0, None))(steps, carry[0])

        def step(i: Array, carry: Any) -> Any:
            state, slots, totals = carry
            state, info = transition(_tree.take(randomness, i), state, data)
            made = done + start + i + 1
            # Steps on the way to a kept one write to its slot too: cheaper than asking whether to write.
            slot = jnp.maximum(made - plan.burn_in - 1, 0) // plan.thin - first_slot
            slots = jax.tree.map(lambda s, x: s.at[slot].set(x), slots, state.position)
            totals = Totals(
                totals.gradient_evaluations + info.gradient_evaluations.astype(jnp.uint32),
                totals.index_acceptance + info.index_acceptance,
            )
            return state, slots, totals

        return jax.lax.fori_loop(0, jnp.minimum(block_size, num_steps - start), step, carry)

    totals = Totals(jnp.zeros(num_chains, jnp.uint32), jnp.zeros(num_chains, jnp.float32))
    num_blocks = (num_steps + block_size - 1) // block_size
    return jax.lax.fori_loop(0, num_blocks, block, (state, slots, totals))


def choose_block_size(kernel: Kernel, state: KernelState, data: Data, num_steps: int, memory: int) -> int:
    """Return how many steps' randomness of all chains is drawn at once, from 1 to 256.

    It fits in `memory` bytes, and a block's work is small enough for an interrupt to be answered.
    """
    num_chains = state.step.shape[0]
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), num_chains))
    one = jax.eval_shape(jax.vmap(kernel.draw, in_axes=(0, 0, None)), keys, state, data)
    fitting = memory // max(_random.bytes_per_draw(one), 1)
    numbers = sum(x.size for x in jax.tree.leaves(state.position))
    quick = WORK_PER_BLOCK // (kernel.evaluations(data).per_step * numbers)
    return int(max(1, min(fitting, quick, MOST_STEPS_PER_BLOCK, num_steps)))
