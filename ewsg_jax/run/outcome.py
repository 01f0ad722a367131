"""What a run's calls so far add up to, in the host's memory."""

import functools
from dataclasses import dataclass, field

import jax
import numpy as np

from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import PyTree
from ewsg_jax.kernels.protocol import KernelState
from ewsg_jax.run.compiled_loop import Call
from ewsg_jax.run.health import DivergenceMonitor
from ewsg_jax.run.host import on_host
from ewsg_jax.run.keeping import Kept
from ewsg_jax.run.moments import MomentPlan, Sums
from ewsg_jax.run.stacks.kernels import StackState


@dataclass
class Outcome:
    """What the calls so far add up to.

    Attributes:
        state: the states after the last call, leading axis chain.
        monitor: which chains are alive.
        draws: the kept draws in the host's memory, leading axes (chain, draw); filled as far as the
            calls came.
        totals: by the names of `Call.totals`, shape (chain,).
        spent: pairs of steps and counted evaluations of all chains, call after call.
        done: steps made.
        interrupted: whether an interrupt or an error ended the run early.
        sums: the sums of running moments, None before the first call and without moments.
    """

    state: KernelState
    monitor: DivergenceMonitor
    draws: PyTree
    totals: dict[str, np.ndarray] = field(default_factory=dict)
    spent: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    done: int = 0
    interrupted: bool = False
    sums: Sums | None = None

    @property
    def all_lost(self) -> bool:
        """Whether no chain moves any more; in a stack, no member of any chain."""
        stack = self.state.dynamics
        if isinstance(stack, StackState) and bool((on_host(stack.diverged_at) >= 0).all()):
            return True
        return not self.monitor.alive.any()

    def add(self, call: Call, steps: int, kept: Kept, moments: MomentPlan | None) -> None:
        """Add the results of a call of `steps` steps."""
        first, last = kept.number(self.done), kept.number(self.done + steps)

        # Slots come first in the program's arrays, chains in the user's.
        def write(draws: np.ndarray, slots: np.ndarray) -> None:
            draws[:, first:last] = np.asarray(slots)[: last - first].swapaxes(0, 1)

        jax.tree.map(write, self.draws, call.record.slots)
        for name, total in call.totals.items():
            # Wide numbers: one call's sum fits in 32 bits, a run's need not.
            wide = np.float64 if np.issubdtype(total.dtype, np.floating) else np.int64
            self.totals[name] = self.totals.get(name, 0) + np.asarray(total, wide)
        self.done += steps
        counted = self.totals.get("gradient_evaluations", np.zeros(1, int))
        # The mean over the members of a stack: what one takes.
        self.spent.append((self.done, int(np.sum(counted)) // counted[0].size))
        self.state = call.state
        sums = call.record.sums
        if moments is not None:
            self.sums = sums if self.sums is None else _merged(moments, self.sums, sums)


@functools.partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _merged(plan: MomentPlan, first: Sums, second: Sums) -> Sums:
    """Return the sums of all chains over both."""
    return plan.merge(first, second)
