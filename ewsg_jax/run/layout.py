"""How a run is cut into blocks of steps whose randomness and rows are made at once."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax

from ewsg_jax.base import checked_arrays, limits, pytrees
from ewsg_jax.base.typing import Data, Position, PyTree
from ewsg_jax.kernels.protocol import Kernel, KernelState, Randomness, chain_axes
from ewsg_jax.run.moments import MomentPlan, positions

MOST_STEPS_PER_BLOCK = 256
"""Steps of one block, at the most. Set by hand: longer blocks hold more randomness and save no time
that could be measured.
"""
WORK_PER_BLOCK = 10**8
"""Numbers that the gradients of one block touch, at the most: about half a second on one core, so
that an interrupt is answered within it.
"""
SMALL_STEP_NUMBERS = 2**17
"""Numbers that the gradients of one step of all chains touch, about 0.2 ms: up to it the program is
compiled quickly, which makes such steps 0.7 to 1.25 times as long (`base/compiling.py`).
"""
SHORT_RUN_NUMBERS = 2**35
"""Numbers that the gradients of all steps touch, about ten seconds: up to it the run is compiled
quickly too, as full optimisation would take longer than it saves.
"""
MOST_SUMMED_STEPS = 2**17
"""Steps whose running moments one call sums up: of more, float32 rounds the share of a step (less
than 2⁻¹⁷ of the sum) to few digits.
"""


class ProgramLayout(NamedTuple):
    """How a run is compiled; two runs of one layout and kernel share a program.

    Attributes:
        shared_minibatch: whether one batch serves all chains.
        shared_memory: whether the chains share the estimator's memory, which then has no chain
            axis.
        num_slots: kept draws that fit in one call.
        keep: the function of the position that is kept, or None.
        moments: the running moments, or None.
        accelerator: whether it runs on a GPU or TPU, for which the host waits.
        block_size: steps whose randomness is drawn at once.
        gather_ahead: whether their rows are gathered at once too.
        small: whether its steps are so small, or all of them so short, that it is better compiled
            quickly.
        most_steps: steps of one call, at the most, if steps count their evaluations or there are
            running moments: what a call sums up is of 32 bits. None: any number.
    """

    shared_minibatch: bool
    shared_memory: bool
    num_slots: int
    keep: Callable[[Position], PyTree] | None
    moments: MomentPlan | None
    accelerator: bool = False
    block_size: int = 1
    gather_ahead: bool = False
    small: bool = False
    most_steps: int | None = None

    @property
    def writes_always(self) -> bool:
        """Whether a step that is not kept is written too, into the slot of the next kept one.

        The branch of a condition may have to be chosen by the host, which costs a GPU more than to
        write a few numbers per chain.
        """
        small = self.moments is None or self.moments.covariance != "dense"
        return self.accelerator and self.keeps_positions and small

    @property
    def sums_kept_steps(self) -> bool:
        """Whether running moments are those of the kept steps, not of all after the burn-in."""
        return self.moments is not None and self.moments.steps == "kept"

    @property
    def keeps_positions(self) -> bool:
        """Whether positions alone are kept and summed, and no function of them."""
        is_custom = self.moments is not None and self.moments.of is not positions
        return self.keep in (None, positions) and not is_custom


def on_accelerator(data: Data) -> bool:
    """Return whether data lie on a GPU or TPU, on which what uses them then runs."""
    return any(
        device.platform != "cpu" for leaf in jax.tree.leaves(data) for device in leaf.devices()
    )


@functools.partial(jax.jit, static_argnums=3)
def _randomness(
    kernel: Kernel, data: Data, state: KernelState, shared_memory: bool
) -> tuple[Randomness, Randomness]:
    """Return one step's randomness of all chains, without rows and with: for its shapes only."""
    # Any key: only shapes are asked for.
    keys = jax.random.split(jax.random.key(0), state.step.shape[0])
    without_rows = jax.vmap(kernel.draw, in_axes=(0, chain_axes(shared_memory), None))(
        keys, state, data
    )
    return without_rows, kernel.fetch(without_rows, data)


def choose_layout(
    kernel: Kernel,
    state: KernelState,
    data: Data,
    num_steps: int,
    memory: int,
    layout: ProgramLayout,
    *,
    total_chains: int | None = None,
    all_steps: int | None = None,
) -> tuple[ProgramLayout, int]:
    """Return how a run is cut into blocks, and the bytes of one block's randomness.

    A block's randomness fits in `memory` bytes, its work is small enough for an interrupt to be
    answered, and its rows stay in a CPU's cache; they are gathered ahead if those of one step fit
    in `memory`. An accelerator waits for the host once a block, so its blocks are as long as
    `memory` allows.

    Args:
        kernel: the kernel.
        state: the shapes of the first states, leading axis chain.
        data: the rows, or their shapes.
        num_steps: steps for which a program is made: of the run, or of a window of a stream.
        memory: bytes of randomness and rows that a block may hold.
        layout: what is known of it before; the blocks and how to compile are filled in.
        total_chains: the number of chains of a run of which these are a batch; it decides how the
            program is compiled. Default: these are all.
        all_steps: the steps of the run, of which `num_steps` are those of a window. Default: these
            are all.
    """
    num_chains = state.step.shape[0]
    without_rows, with_rows = checked_arrays.shapes(
        _randomness, kernel, data, state, layout.shared_memory
    )
    step_bytes = pytrees.num_bytes(without_rows)
    row_bytes = pytrees.num_bytes(with_rows) - step_bytes
    # One batch of all chains is fetched once.
    if layout.shared_minibatch:
        row_bytes //= num_chains
    gather_ahead = 0 < row_bytes <= memory
    cost = kernel.evaluations(data)
    work = cost.per_step * pytrees.size(state.position)
    block_size = _block_size(
        step_bytes, row_bytes if gather_ahead else 0, work, num_steps, memory, layout.accelerator
    )

    # The work of all chains: the batches of a run round alike only if they are compiled alike. Of
    # steps that count their evaluations the mean is known, if it was measured.
    all_work = work // num_chains * (total_chains or num_chains)
    all_work = all_work * cost.on_average / cost.per_step
    is_small = (
        all_work <= SMALL_STEP_NUMBERS or all_work * (all_steps or num_steps) <= SHORT_RUN_NUMBERS
    )

    # What one call sums up: evaluations that are counted, in 32 bits; and moments, in float32.
    most_steps = max(1, limits.INT32_MAX // cost.per_step) if cost.counted else None
    if layout.moments is not None:
        most_steps = min(MOST_SUMMED_STEPS, most_steps or MOST_SUMMED_STEPS)
    layout = layout._replace(
        block_size=block_size,
        gather_ahead=gather_ahead,
        small=not layout.accelerator and is_small,
        most_steps=most_steps,
    )
    return layout, block_size * (step_bytes + gather_ahead * row_bytes)


def _block_size(
    step_bytes: int, row_bytes: int, work: int, num_steps: int, memory: int, accelerator: bool
) -> int:
    """Return the steps of a block, at least 1.

    Args:
        step_bytes: the randomness of a step of all chains, in bytes.
        row_bytes: the rows of a step that are gathered ahead, in bytes; 0 for none.
        work: numbers that the gradients of a step touch.
        num_steps: steps for which a program is made.
        memory: bytes of randomness and rows that a block may hold.
        accelerator: whether it runs on a GPU or TPU.
    """
    # Bounded by memory, by the time until an interrupt is seen, and by the length of a loop.
    steps = min(memory // max(step_bytes, 1), WORK_PER_BLOCK // work, MOST_STEPS_PER_BLOCK)
    # A run of fewer steps shares the program of longer ones if the randomness it does not need
    # costs little; on an accelerator its one block is a loop of known length.
    is_dear = steps * step_bytes > limits.SMALL_BYTES
    # A shorter run has a program of its own, whose block is no longer than it.
    if accelerator or num_steps < 32 or is_dear:
        steps = min(steps, num_steps)
    # On a CPU the rows of a block stay in its cache.
    if row_bytes:
        most = memory if accelerator else min(memory, limits.SMALL_BYTES)
        steps = min(steps, most // row_bytes)
    return int(max(1, steps))
