"""How a run is cut into blocks of steps whose randomness and rows are made at once."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from ewsg_jax.base import checked_arrays, pytrees
from ewsg_jax.base.typing import Data, Position, PyTree
from ewsg_jax.kernels.protocol import Kernel, KernelState, Randomness, chain_axes
from ewsg_jax.run.moments import MomentPlan, positions

MOST_STEPS_PER_BLOCK = 256
WORK_PER_BLOCK = 10**8
"""Numbers that the gradients of one block touch at the most: roughly half a second on one core."""
FEWEST_STEPS, CHEAP = 32, 2**24
"""Of a run whose blocks may exceed it, bytes of randomness of such a block: some 20 ms."""
SMALL = 2**17
"""Most numbers that gradients of one step of all chains touch where it is small: 0.2 ms."""
SHORT = 2**35
"""Most of all steps of a run that is short: ten seconds, less of rows that touch few numbers."""
SUMMED = 2**17
"""Steps whose running moments a call sums up: of more, float32 rounds each step's share away."""
COUNTED = 2**31 - 1
"""Evaluations that a call counts of each chain, in 32 bits."""
ROWS_PER_BLOCK = 16 * 2**20
"""Bytes of rows that are gathered ahead at the most, on a CPU: what stays in its cache."""


class Layout(NamedTuple):
    """How a run is compiled; two runs of one layout and kernel share a program.

    Attributes:
        block_size: steps whose randomness is drawn at once.
        gather_ahead: whether their rows are gathered at once too.
        shared_minibatch: whether one batch serves all chains.
        shared_memory: whether the chains share the estimator's memory, which then has no chain
            axis.
        num_slots: kept draws that fit in one call.
        keep: the function of the position that is kept, or None.
        moments: the running moments, or None.
        accelerator: whether it runs on a GPU or TPU, for which the host waits.
        small: whether its steps are so small, or all of them so short, that it had better be
            compiled quickly.
        most_steps: in one call, where steps count their evaluations or there are running moments:
            what a call sums up is of 32 bits.
    """

    block_size: int
    gather_ahead: bool
    shared_minibatch: bool
    shared_memory: bool
    num_slots: int
    keep: Callable[[Position], PyTree] | None
    moments: MomentPlan | None
    accelerator: bool = False
    small: bool = False
    most_steps: int | None = None

    @property
    def writes_always(self) -> bool:
        """Whether a step that is not kept is written too, where the next one that is will be.

        Beside a few numbers per chain a GPU's condition, whose branch the host may have to choose,
        is dear.
        """
        small = self.moments is None or self.moments.covariance != "dense"
        return self.accelerator and self.keeps_positions and small

    @property
    def keeps_positions(self) -> bool:
        """Whether positions alone are kept and summed, and no function of them."""
        is_own = self.moments is not None and self.moments.of is not positions
        return self.keep in (None, positions) and not is_own


def on_accelerator(data: Data) -> bool:
    """Return whether data lie on a GPU or TPU, where what uses them then runs."""
    return any(
        device.platform != "cpu" for leaf in jax.tree.leaves(data) for device in leaf.devices()
    )


@functools.partial(jax.jit, static_argnums=3)
def _randomness(
    kernel: Kernel, data: Data, state: KernelState, shared_memory: bool
) -> tuple[Randomness, Randomness]:
    """One step's randomness of all chains, without rows and with: asked for shapes only."""
    # Any key: only shapes are asked for.
    keys = jax.random.split(jax.random.key(0), state.step.shape[0])
    one = jax.vmap(kernel.draw, in_axes=(0, chain_axes(shared_memory), None))(keys, state, data)
    return one, kernel.fetch(one, data)


def choose_layout(
    kernel: Kernel,
    state: KernelState,
    data: Data,
    num_steps: int,
    memory: int,
    shared_minibatch: bool,
    shared_memory: bool,
    accelerator: bool = False,
    total_chains: int | None = None,
    all_steps: int | None = None,
    **kept: Any,
) -> tuple[Layout, int]:
    """Return how a run is cut into blocks, and the bytes of one block's randomness.

    A block's randomness fits in `memory` bytes, its work is small enough for an interrupt to be
    answered, and its rows stay in a CPU's cache; they are gathered ahead where those of one step
    fit in `memory`. An accelerator waits for the host once a block, so its blocks are as long as
    `memory` allows. `total_chains` is the number of chains of which these are a batch, and
    `all_steps` that of the steps of the run when a window of a stream has not all of them: they
    decide how the program is compiled.
    """
    num_chains = state.step.shape[0]
    one, gathered = checked_arrays.shapes(_randomness, kernel, data, state, shared_memory)
    rows = pytrees.num_bytes(gathered) - pytrees.num_bytes(one)
    # One batch of all chains is fetched once.
    if shared_minibatch:
        rows //= num_chains
    numbers = sum(x.size for x in jax.tree.leaves(state.position))
    cost = kernel.evaluations(data)
    work = cost.per_step * numbers
    # Bounded by memory, by the time until an interrupt is seen, and by the length of a loop.
    steps = min(
        memory // max(pytrees.num_bytes(one), 1), WORK_PER_BLOCK // work, MOST_STEPS_PER_BLOCK
    )
    # A run of fewer steps shares the program of longer ones where the randomness it does not need
    # costs little; on an accelerator its one block is a loop of known length.
    if accelerator or num_steps < FEWEST_STEPS or steps * pytrees.num_bytes(one) > CHEAP:
        steps = min(steps, num_steps)
    gather_ahead = 0 < rows <= memory
    if gather_ahead:
        steps = min(steps, (memory if accelerator else min(memory, ROWS_PER_BLOCK)) // rows)
    steps = int(max(1, steps))
    # Of all chains together, since batches of chains run one program each after the other.
    of_all = work // num_chains * (total_chains or num_chains)
    is_small = of_all <= SMALL or of_all * (all_steps or num_steps) <= SHORT
    small = not accelerator and is_small
    most = max(1, COUNTED // cost.per_step) if cost.counted else None
    if kept.get("moments") is not None:
        most = min(SUMMED, most or SUMMED)
    how = {"accelerator": accelerator, "small": small, "most_steps": most}
    layout = Layout(steps, gather_ahead, shared_minibatch, shared_memory, **how, **kept)
    return layout, steps * (pytrees.num_bytes(one) + gather_ahead * rows)
