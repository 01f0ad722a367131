"""Chains that diverge: found after each call, replayed to the step where it happened, and frozen
there.

Watching every step would cost every run; since a call's randomness is a function of its keys, it
can be made again under watch when a chain has been lost, from the last state that was kept: calls
use up the state that they are given, for a large one (SAGA's table) takes longer to copy than to
step. The other chains keep the results of the unwatched call, so that their bits do not depend on
it.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.kernels.protocol import Kernel, KernelState
from ewsg_jax.model_checks import divergence
from ewsg_jax.run.compiled_loop import Call, select_chains
from ewsg_jax.run.host import SharedClock, on_host
from ewsg_jax.run.keeping import Record
from ewsg_jax.vectors.row_subsets import take_rows

BYTES_PER_SECOND = 10**9
"""Bytes of a state that are copied in a second: a guess, until one copy has been timed."""
COPYING_SHARE = 0.05
"""The share of a run's time that copies of the state to replay from may take. Set by hand."""


class DivergenceMonitor:
    """Which chains still move, and when the others were lost.

    Attributes:
        alive: whether each chain still moves, shape (chain,).
        clock: the time by which copies of the state are made.
        start: the position of the first chain at the start.
        diverged_at: the step whose result was not finite, −1 for a chain that is alive; shape
            (chain,).
    """

    def __init__(
        self,
        num_chains: int,
        shared_memory: bool,
        first: KernelState,
        clock: SharedClock | None = None,
    ) -> None:
        self.clock = clock or SharedClock()
        self._shared_memory = shared_memory
        self.alive = np.ones(num_chains, bool)
        self.diverged_at = np.full(num_chains, -1, np.int64)
        # The first state is always there to replay from, so that none need be copied in a short
        # run.
        self._replay_from = first, 0
        # One chain's, for all of them may be large.
        self.start = take_rows(first.position, 0)
        self._first_step = int(np.ravel(on_host(first.step))[0])
        self._next_copy = (
            self.clock.now() + pytrees.num_bytes(first) / BYTES_PER_SECOND / COPYING_SHARE
        )

    def keep(self, state: KernelState, done: int, always: bool = False) -> None:
        """Copy the state to replay from, unless the last copy is too young for the cost.

        Args:
            state: the states after `done` steps of the run.
            done: steps made.
            always: whether it is copied whatever the cost, for its steps cannot be made again.
        """
        began = self.clock.now()
        if began >= self._next_copy or always:
            self._replay_from = jax.block_until_ready(pytrees.copy(state)), done
            now = self.clock.now()
            self._next_copy = now + (now - began) / COPYING_SHARE

    def restore(self, alive: np.ndarray, diverged_at: np.ndarray, done: int) -> None:
        """Continue after `done` steps with these chains diverged: the first state follows them."""
        self.alive, self.diverged_at = np.array(alive), np.array(diverged_at)
        self._replay_from = self._replay_from[0], done

    @property
    def last_kept(self) -> KernelState:
        """The last state of which a copy was kept."""
        return self._replay_from[0]

    def call(
        self,
        advance: Callable[..., Call],
        keep: Callable[[Position], PyTree] | None,
        state: KernelState,
        done: int,
        steps: int,
    ) -> Call:
        """Make a call, and put in what diverged chains have: last state, its draws, no sums.

        Args:
            advance: `advance(done, steps, state, alive, guarded=…)`, which takes the memory of the
                state.
            keep: the function of a position that is kept, or None.
            state: the states after `done` steps of the run.
            done: steps made before.
            steps: steps to make.
        """
        before = self.alive
        # The program moves all chains: those that diverged before are put back after the call.
        resting = None if before.all() else pytrees.copy(state)
        make = functools.partial(advance, done, steps)
        call = make(state, before)
        lost = before & ~on_host(call.health.alive)
        if resting is not None:
            call = _with_chains(~before, _at_rest(keep, resting, call), call, self._shared_memory)
        if lost.any():
            replayed = make(self._state_after(advance, done), before, guarded=True)
            # A replay may round differently and keep a chain finite a little longer: then to the
            # call's end.
            fell = on_host(replayed.health.diverged_at)
            self.diverged_at[lost] = np.where(fell < 0, on_host(call.state.step), fell)[lost]
            # The others keep the results of the unguarded call: a replay may have other bits.
            call = _with_chains(lost, replayed, call, self._shared_memory)
            self.alive = before & ~lost
        return call

    def _state_after(self, advance: Callable[..., Call], done: int) -> KernelState:
        """Return the states after `done` steps of the run, made again from the last copy."""
        kept, since = self._replay_from
        # A call takes the memory of its state, and the copy may be needed again.
        state = pytrees.copy(kept)
        # Without a check of each step, as the first time.
        return advance(since, done - since, state, self.alive).state if since < done else state

    def warn(self, kernel: Kernel, state: KernelState, data: Data) -> None:
        """Warn of diverged chains, with what may be the cause.

        Raises:
            KeyboardInterrupt: the search for it was interrupted; the warning is made.
        """
        lost = np.flatnonzero(~self.alive)
        if not lost.size:
            return
        # The first chain that fell: later ones may have followed by another cause.
        first = int(lost[np.argmin(self.diverged_at[lost])])
        why, interrupt = divergence.SMALLER_STEP, None
        try:
            why = self._cause(kernel, state, data, lost, first)
        except KeyboardInterrupt as error:
            interrupt = error
        except Exception:
            pass  # A cause that cannot be looked for is no reason to lose the run.
        warn(
            f"{lost.size} of {self.alive.size} chains diverged, the first (chain {first}) at "
            f"step {self.diverged_at[first]}; they stay at their last finite positions "
            f"(samples.diverged_at): {why}"
        )
        if interrupt is not None:
            raise interrupt

    def _cause(
        self, kernel: Kernel, state: KernelState, data: Data, lost: np.ndarray, first: int
    ) -> str:
        """Return why chains may have diverged, of which the first did so first."""
        positions, fell = on_host(state.position), int(self.diverged_at[first])
        # Soon after the start all chains diverge by one cause.
        all_lost = lost.size == self.alive.size
        # Within so few steps all chains diverge by one cause, if they do.
        at_once = all_lost and np.max(self.diverged_at[lost]) <= self._first_step + 100
        findings = divergence.causes(
            kernel,
            data,
            on_host(self.start),
            take_rows(positions, first),
            take_rows(positions, 0) if all_lost else None,
            step=fell - 1,
            at_start=fell == self._first_step + 1,
            at_once=bool(at_once),
        )
        return "; ".join(map(str, findings))


def warn_of_overflow(steps: np.ndarray) -> None:
    """Warn of bounded sets that overflowed, in this many steps of each chain."""
    if steps.any():
        warn(
            f"{np.count_nonzero(steps)} of {steps.size} chains had more bright or selected data "
            f"than there is room for, in up to {steps.max()} steps (samples.overflow); the bright "
            "set stood still there, and what they sample is not the posterior: a larger capacity "
            "or proposal_capacity, or a centre nearer to the mode, is needed"
        )


@functools.partial(jax.jit, static_argnums=3)
def _with_chains(chosen: Array, source: Call, target: Call, shared_memory: bool) -> Call:
    """Return the target with some chains' results from the source."""

    def along(axis: int) -> Callable[[Array, Array], Array]:
        def pick(new: Array, old: Array) -> Array:
            shape = [1] * new.ndim
            shape[axis] = -1
            return jnp.where(chosen.reshape(shape), new, old)

        return pick

    return target._replace(
        state=select_chains(chosen, source.state, target.state, shared_memory),
        record=Record(
            jax.tree.map(along(1), source.record.slots, target.record.slots),
            jax.tree.map(along(0), source.record.sums, target.record.sums),
        ),
    )


@functools.partial(jax.jit, static_argnums=0)
def _at_rest(keep: Callable[[Position], PyTree] | None, state: KernelState, call: Call) -> Call:
    """Return the call as it would be if no chain had moved."""
    slots = call.record.slots
    if keep is not None:
        values = jax.vmap(keep)(state.position)
        slots = jax.tree.map(lambda s, x: jnp.broadcast_to(x, s.shape), slots, values)
    sums = jax.tree.map(jnp.zeros_like, call.record.sums)
    return call._replace(state=state.at_step(call.state.step), record=Record(slots, sums))
