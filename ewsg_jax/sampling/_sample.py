"""Run a kernel: chains side by side, in compiled calls of about half a second from a loop on the host."""

import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _tree
from ewsg_jax._kernel import Kernel, KernelState
from ewsg_jax._types import Data, Key, Position, PyTree
from ewsg_jax.gradients import Evaluations
from ewsg_jax.sampling import chunks
from ewsg_jax.sampling._moments import MomentPlan, finish, positions
from ewsg_jax.sampling.budget import num_steps_of
from ewsg_jax.sampling.health import Watch, warn_of_overflow
from ewsg_jax.sampling.interrupts import Interrupts
from ewsg_jax.sampling.layout import choose_layout
from ewsg_jax.sampling.loop import Outcome, run
from ewsg_jax.sampling.samples import Samples
from ewsg_jax.sampling.starts import chain_keys, first_state, is_function

DRAW_MEMORY = 64 * 2**20
"""Bytes of kept draws that one call holds on the device."""


def sample(
    key: Key,
    kernel: Kernel,
    position: Position | Callable[[Key], Position] | None,
    data: Data,
    num_steps: int | None = None,
    *,
    data_passes: float | None = None,
    num_chains: int = 1,
    burn_in: int = 0,
    thin: int = 1,
    keep: Callable[[Position], PyTree] | None = positions,
    moments: MomentPlan | None = None,
    state: KernelState | None = None,
    stacked: bool = False,
    shared_minibatch: bool = False,
    progress: bool = True,
    randomness_memory: int = 256 * 2**20,
    check_data: bool = True,
) -> Samples:
    """Run many chains of a kernel and keep their draws.

    Args:
        key: a typed PRNG key; the randomness of chain c at step t is a function of (key, c, t) alone.
        kernel: a named method or `ewsg_jax.kernel(dynamics, estimator)`.
        position: where the chains start: a tree of floating-point arrays; or a function of a key that
            returns one, called once per chain; or, with `stacked=True`, a tree with a leading chain axis.
        data: a tree of arrays that share their leading axis, the n rows.
        num_steps: steps of each chain, burn-in included.
        data_passes: instead of `num_steps`, the largest number of steps whose evaluations stay within so many
            passes over the data, per chain.
        num_chains: chains run side by side; with `stacked=True` or `state` it follows from them.
        burn_in: first steps that are not kept.
        thin: keep every thin-th step after the burn-in.
        keep: the function of the position that is kept, evaluated at kept steps only; None keeps no draws.
        moments: running moments over the kept steps, as `ewsg_jax.moments` describes them.
        state: `samples.state` of an earlier run of this kernel, to go on from there; then `position` is None. With
            the same key and data it goes on as if never stopped. A chain that diverged starts again from its last
            finite state.
        stacked: whether `position` has a leading chain axis.
        shared_minibatch: draw one batch a step for all chains: much faster for many chains. The law of each
            chain is untouched, but chains are no longer independent, so errors estimated between chains are
            too small.
        progress: show a bar where tqdm is installed.
        randomness_memory: bound in bytes on the randomness drawn ahead and on the rows gathered for it.
        check_data: look once for NaN and infinity in the data, and for labels that the model does not know.

    Returns:
        The draws and what they cost. An interrupt (Ctrl-C) ends the run early and returns what was sampled. A
        chain that diverges stays at its last finite position, with a warning, and the others go on unchanged; when
        none is left the run ends.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; the message names it.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jax.random.normal(jax.random.key(0), (50, 2))
        >>> kernel = ewsg.ewsg(ewsg.models.gaussian_location(), 1e-2, friction=10.0, batch_size=5)
        >>> samples = ewsg.sample(
        ...     jax.random.key(1), kernel, jnp.zeros(2), data, 200, num_chains=4, burn_in=100, thin=10
        ... )
        >>> samples.position.shape, samples.data_passes
        ((4, 10, 2), 40.0)
        >>> more = ewsg.sample(jax.random.key(1), kernel, None, data, 100, state=samples.state, thin=10)
        >>> more.step[[0, -1]]
        array([210, 300])
    """
    _check.key(key)
    _check.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    n = _check.data(data)
    if _check.boolean("check_data", check_data):
        _check.finite("data", data)
    data = jax.tree.map(jnp.asarray, data)
    _check.boolean("stacked", stacked)
    if _check.boolean("shared_minibatch", shared_minibatch) and not (kernel.uses_batches and kernel.exchangeable):
        what = "whose chains have epochs of their own" if kernel.uses_batches else "that draws no batches"
        raise ValueError(f"shared_minibatch must be False for a kernel {what}; got True")
    _check.boolean("progress", progress)
    _check.integer("burn_in", burn_in, minimum=0)
    _check.integer("thin", thin)
    _check.integer("randomness_memory", randomness_memory)
    _check.integer("num_chains", num_chains)
    if keep is not None:
        _check.function("keep", keep, "(position) -> tree of arrays, or None")
    if moments is not None:
        _check.instance("moments", moments, MomentPlan, "ewsg_jax.moments(…)")

    init_key, run_key, shared_key = jax.random.split(key, 3)
    began = time.perf_counter()
    first, shared_memory = first_state(init_key, kernel, position, data, state, num_chains, stacked)
    num_chains = first.step.shape[0]
    if check_data:
        kernel.check(jax.tree.map(lambda x: x[0], first.position), data)
    first_step = int(first.step[0])
    cost = kernel.evaluations(data)
    at_init = cost.at_init if state is None else 0
    cost = cost._replace(at_init=at_init)
    num_steps = num_steps_of(cost, n, num_steps, data_passes, first_step)
    if first_step + num_steps >= 2**31:
        raise ValueError(
            f"num_steps must be a whole number, from 1 to {2**31 - 1 - first_step}: steps are counted in 32 bits; "
            f"got {num_steps}"
        )
    if num_steps < burn_in + thin:
        raise ValueError(
            f"num_steps must be at least burn_in + thin = {burn_in + thin} to keep a draw; got {num_steps}"
        )
    kept_bytes = _check_kept(keep, moments, first.position)
    plan = chunks.Plan(burn_in, thin)
    layout = choose_layout(
        kernel,
        first,
        data,
        num_steps,
        randomness_memory,
        shared_minibatch,
        shared_memory,
        num_slots=0 if keep is None else int(max(1, min(plan.kept(num_steps), DRAW_MEMORY // kept_bytes))),
        keep=keep,
        moments=moments,
    )
    run_keys = chain_keys(run_key, num_chains)

    advance = functools.partial(chunks.advance, kernel.hoisted(), layout, run_keys, shared_key, data, plan)
    # Calls take the memory of the state that they are given; the first state stays, to replay from.
    outcome = Outcome(_tree.copy(first), Watch(num_chains, shared_memory, first))
    del first
    with Interrupts() as interrupts:
        # No step: this compiles.
        alive = jnp.asarray(outcome.watch.alive)
        outcome.state = jax.block_until_ready(advance(jnp.int32(0), jnp.int32(0), outcome.state, alive)).state
        compiled = time.perf_counter()
        run(advance, outcome, num_steps, plan, layout, progress, interrupts)
    outcome.watch.warn()
    per_chain = functools.partial(_of_each_chain, outcome.totals, num_chains)
    overflow = per_chain("overflow", 0)
    warn_of_overflow(overflow)

    draws = jax.tree.map(lambda *x: np.swapaxes(np.concatenate(x), 0, 1), *outcome.draws)
    step = first_step + burn_in + thin * np.arange(1, plan.kept(outcome.done) + 1)
    made = max(outcome.done, 1)
    spent = functools.partial(_spent, cost, outcome, num_chains, first_step)
    return Samples(
        draws=None if keep is None else draws,
        moments=None if moments is None or outcome.sums is None else finish(moments, outcome.sums),
        state=outcome.state,
        step=step,
        step_size=np.broadcast_to(jax.vmap(kernel.step_size)(jnp.asarray(step, jnp.int32)), step.shape),
        evaluations=at_init + np.rint(spent(step - first_step) / num_chains).astype(np.int64),
        gradient_evaluations=num_chains * at_init + int(spent(np.asarray(outcome.done))),
        num_data=n,
        num_steps=outcome.done,
        index_acceptance=per_chain("index_acceptance", made) / made,
        acceptance=per_chain("acceptance", made) / made,
        overflow=overflow,
        diverged_at=outcome.watch.diverged_at,
        keeps_positions=keep is positions,
        common_start=num_chains > 1 and state is None and not stacked and not is_function(position),
        interrupted=outcome.interrupted,
        compile_seconds=compiled - began,
        run_seconds=time.perf_counter() - compiled,
    )


def _of_each_chain(totals: dict[str, np.ndarray], num_chains: int, name: str, known: int) -> np.ndarray:
    """Return the sums over a run's steps of what `Info` reports, shape (chain,); `known` where nothing ran it."""
    return np.broadcast_to(totals.get(name, np.asarray(known)), (num_chains,)).copy()


def _spent(cost: Evaluations, outcome: Outcome, num_chains: int, first_step: int, steps: np.ndarray) -> np.ndarray:
    """Return the evaluations of all chains in their first so many steps, int64; between calls a straight line."""
    if not cost.counted:
        return num_chains * cost.of_steps(first_step, steps)
    return np.rint(np.interp(steps, *np.transpose(outcome.spent))).astype(np.int64)


def _check_kept(keep: Callable[..., PyTree] | None, moments: MomentPlan | None, positions: Position) -> int:
    """Check that the user's functions take one chain's position, and return the bytes of one kept draw of all."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), positions)
    if moments is not None:
        made = _check.outputs("the function of moments", moments.of, "one chain's position", one)
        for leaf in jax.tree.leaves(made):
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise TypeError(
                    f"the function of moments must return floating-point arrays; got {_check.describe(leaf)}"
                )
    if keep is None:
        return 0
    kept = _check.outputs("keep", keep, "one chain's position", one)
    num_chains = jax.tree.leaves(positions)[0].shape[0]
    return max(1, num_chains * sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(kept)))
