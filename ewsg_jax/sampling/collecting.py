"""What came out of a run."""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Array
from ewsg_jax.gradients import Evaluations
from ewsg_jax.rows.gathering import all_rows
from ewsg_jax.sampling._moments import finish, positions
from ewsg_jax.sampling.host import on_host
from ewsg_jax.sampling.loop import Outcome
from ewsg_jax.sampling.parts import Planned
from ewsg_jax.sampling.request import Chains, Wanted
from ewsg_jax.sampling.samples import Samples


def collect(chains: Chains, wanted: Wanted, planned: Planned, outcome: Outcome, compiled: float) -> Samples:
    """Return what a run gave."""
    ended = time.perf_counter()
    num_chains, first_step, cost = planned.num_chains, planned.terms.first_step, planned.cost
    per_chain = functools.partial(_of_each_chain, outcome.totals, num_chains)
    num_draws = int(planned.plan.kept(outcome.done))
    draws = jax.tree.map(lambda x: x[:, :num_draws], outcome.draws)
    step = planned.plan.steps(first_step, outcome.done)
    # Made up to a power of two: runs of other lengths share a program.
    steps = np.pad(step - 1, (0, (1 << num_draws.bit_length()) - num_draws))
    step_size = np.asarray(_step_sizes(chains.kernel, steps.astype(np.int32)))[:num_draws]
    made = max(outcome.done, 1)
    spent = functools.partial(_spent, cost, outcome, num_chains, first_step)
    return Samples(
        draws=None if wanted.keep is None else draws,
        moments=None if wanted.moments is None or outcome.sums is None else finish(wanted.moments, outcome.sums),
        state=outcome.state if chains.devices is None else on_host(outcome.state),
        step=step,
        step_size=np.broadcast_to(step_size, (num_draws, *step_size.shape[1:])),
        evaluations=cost.at_init + np.rint(spent(step - first_step) / num_chains).astype(np.int64),
        gradient_evaluations=num_chains * cost.at_init + int(spent(np.asarray(outcome.done))),
        num_data=all_rows(chains.data),
        num_steps=outcome.done,
        index_acceptance=per_chain("index_acceptance", made) / made,
        acceptance=per_chain("acceptance", made) / made,
        overflow=per_chain("overflow", 0),
        diverged_at=outcome.watch.diverged_at,
        keeps_positions=wanted.keep is positions,
        common_start=planned.terms.common_start,
        shared_minibatch=planned.layout.shared_minibatch,
        interrupted=outcome.interrupted,
        compile_seconds=planned.before[0] + compiled - planned.began,
        run_seconds=planned.before[1] + ended - compiled,
    )


@jax.jit
def _step_sizes(kernel: Kernel, steps: Array) -> Array:
    """Return the h of the steps after so many others."""
    return jax.vmap(lambda step: jnp.asarray(kernel.step_size(step)))(steps)


def _of_each_chain(totals: dict[str, np.ndarray], num_chains: int, name: str, known: int) -> np.ndarray:
    """Return the sums over a run's steps of what `Info` reports, shape (chain,); `known` where nothing ran it."""
    total = totals.get(name, np.asarray(known))
    return np.broadcast_to(total, (num_chains, *total.shape[1:])).copy()


def _spent(cost: Evaluations, outcome: Outcome, num_chains: int, first_step: int, steps: np.ndarray) -> np.ndarray:
    """Return the evaluations of all chains in their first so many steps, int64; between calls a straight line."""
    if not cost.counted:
        return num_chains * cost.of_steps(first_step, steps)
    return np.rint(np.interp(steps, *np.transpose(outcome.spent))).astype(np.int64)
