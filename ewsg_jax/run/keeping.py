"""Which steps of a run are kept, and how a compiled call writes them down."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.typing import Array, Position, PyTree
from ewsg_jax.kernels.protocol import Kernel, KernelState
from ewsg_jax.run.layout import ProgramLayout


class Kept(NamedTuple):
    """Which of the run's steps are kept: after `burn_in` steps every `thin`-th, or a subset.

    Attributes:
        burn_in: first steps that are not kept.
        thin: steps from one that is due to the next.
        counts: how many of the first 0, 1, 2, … steps that are due are kept; None for all.
    """

    burn_in: int
    thin: int
    counts: Any = None

    def due(self, num_made: Any) -> Any:
        """Return how many of the first `num_made` steps are due, on the host or compiled."""
        if isinstance(num_made, jax.Array):
            return jnp.maximum(num_made - self.burn_in, 0) // self.thin
        return (num_made > self.burn_in) * ((num_made - self.burn_in) // self.thin)

    def number(self, num_made: Any) -> Any:
        """Return how many of the first `num_made` steps are kept."""
        due = self.due(num_made)
        return due if self.counts is None else self.counts[due]

    def steps(self, first_step: int, num_made: int) -> np.ndarray:
        """Return the numbers of the kept steps among the first `num_made` of a run, int64."""
        num_due = self.due(num_made)
        due = first_step + self.burn_in + self.thin * np.arange(1, num_due + 1)
        return due if self.counts is None else due[np.diff(self.counts[: num_due + 1]) > 0]

    def only(
        self, keep_when: Callable[[Array], Any] | None, first_step: int, num_steps: int
    ) -> "Kept":
        """Return those of these steps for which a function is true."""
        if keep_when is None:
            return self
        # Evaluated for all steps before the run, in pieces: a condition inside the loop would be
        # evaluated in every step of every chain.
        steps = self.steps(first_step, num_steps).astype(np.int32)
        is_kept = [
            np.asarray(_evaluated(keep_when, steps[k : k + limits.NUMBERS_AT_ONCE]))
            for k in range(0, len(steps), limits.NUMBERS_AT_ONCE)
        ]
        return self._replace(
            counts=np.concatenate([[0], np.cumsum(np.concatenate(is_kept))]).astype(np.int32)
        )

    def on_device(self) -> "Kept":
        """Return the same as an argument of a compiled program."""
        return self if self.counts is None else self._replace(counts=jnp.asarray(self.counts))


@functools.partial(jax.jit, static_argnums=0)
def _evaluated(keep_when: Callable[[Array], Any], steps: Array) -> Array:
    return jax.vmap(lambda step: jnp.asarray(keep_when(step)))(steps)


class Record(NamedTuple):
    """What one call keeps: draws (slot, chain, …), and sums with a leading chain axis, or None."""

    slots: PyTree
    sums: Any


class StepUse(NamedTuple):
    """What a step is used for.

    Attributes:
        is_kept: whether it is kept.
        is_past_burn_in: whether the burn-in is over, so that moments over all steps count it.
    """

    is_kept: Array
    is_past_burn_in: Array


def empty_record(layout: ProgramLayout, positions: Position) -> Record:
    """Return the record of no steps of chains with such positions."""
    keep, moments = layout.keep, layout.moments
    # What is written of a step that is not kept needs a slot too, when all the others are full.
    num_slots = layout.num_slots + layout.writes_always
    draws = () if keep is None else jax.eval_shape(jax.vmap(keep), positions)
    return Record(
        jax.tree.map(lambda x: jnp.zeros((num_slots, *x.shape), x.dtype), draws),
        None if moments is None else jax.vmap(moments.start)(positions),
    )


def record_step(
    kernel: Kernel,
    layout: ProgramLayout,
    record: Record,
    state: KernelState,
    counts: Array | None,
    slot: Array,
    use: StepUse,
) -> Record:
    """Return the record after one more step.

    Args:
        kernel: the kernel.
        layout: how the run is compiled.
        record: the record of the steps before.
        state: the states after the step.
        counts: the chains whose sums may change, shape (chains,); None for all.
        slot: the slot of its draw: how many steps this call kept before this one.
        use: whether the step is kept, and whether it is one of all steps that count.
    """
    slots, sums = record
    if layout.moments is not None and layout.moments.steps == "all":
        sums = _summed(kernel, layout, sums, state, _chosen(state, counts, use.is_past_burn_in))

    def write(kept: Record, state: KernelState, chosen: Array | None, slot: Array) -> Record:
        slots = _stored(layout, kept.slots, state, slot)
        if kept.sums is None:
            return Record(slots, None)
        return Record(slots, _summed(kernel, layout, kept.sums, state, chosen))

    kept = Record(slots, sums if layout.sums_kept_steps else None)
    # On an accelerator a condition waits for the host, and a write costs little.
    if layout.writes_always:
        kept = write(kept, state, _chosen(state, counts, use.is_kept), slot)
    else:
        kept = jax.lax.cond(use.is_kept, write, lambda kept, *_: kept, kept, state, counts, slot)
    return kept if layout.sums_kept_steps else Record(kept.slots, sums)


def _chosen(state: KernelState, counts: Array | None, is_used: Array) -> Array:
    """Return the chains whose sums change if the step is used, shape (chains,)."""
    return jnp.broadcast_to(is_used, jnp.shape(state.step)) if counts is None else counts & is_used


def _stored(layout: ProgramLayout, slots: PyTree, state: KernelState, slot: Array) -> PyTree:
    """Return the draws with those of the positions in a slot."""
    if layout.keep is None:
        return slots
    values = jax.vmap(layout.keep)(state.position)
    return jax.tree.map(
        lambda s, x: jax.lax.dynamic_update_index_in_dim(s, x, slot, 0), slots, values
    )


def _summed(
    kernel: Kernel, layout: ProgramLayout, sums: Any, state: KernelState, chosen: Array | None
) -> Any:
    """Return the sums with the positions of chosen chains; None: all."""
    moments = layout.moments
    assert moments is not None
    # Under a schedule the step that leads away from a position is its weight, or the one that led
    # there.
    weight = jnp.float32(1.0)
    if moments.weights != "equal":
        step = jnp.ravel(state.step)[0]
        weight = jnp.asarray(
            kernel.step_size(step - int(moments.weights == "step_size")), jnp.float32
        )
    added = jax.vmap(moments.add, in_axes=(0, None, 0))(sums, weight, state.position)
    # A weight of 0 would not do: a diverged chain's position may be too large to be squared.
    return added if chosen is None else jax.vmap(pytrees.where)(chosen, added, sums)
