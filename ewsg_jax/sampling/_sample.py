"""Run a kernel: chains side by side, in compiled calls of about half a second from a loop on the host."""

import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _tree
from ewsg_jax._kernel import Kernel, KernelState
from ewsg_jax._types import Data, Key, Position, PyTree
from ewsg_jax.sampling.budget import steps_within
from ewsg_jax.sampling.chunks import Plan, advance, choose_block_size, start
from ewsg_jax.sampling.interrupts import Interrupts
from ewsg_jax.sampling.progress import Progress
from ewsg_jax.sampling.samples import Samples
from ewsg_jax.sampling.starts import chain_keys, is_function, starts

SECONDS_PER_CALL = 0.5
DRAW_MEMORY = 64 * 2**20
"""Bytes of kept draws that one call holds on the device."""


def sample(
    key: Key,
    kernel: Kernel,
    position: Position | Callable[[Key], Position],
    data: Data,
    num_steps: int | None = None,
    *,
    data_passes: float | None = None,
    num_chains: int = 1,
    burn_in: int = 0,
    thin: int = 1,
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
        num_chains: chains run side by side; with `stacked=True` it follows from the position.
        burn_in: first steps that are not kept.
        thin: keep every thin-th step after the burn-in.
        stacked: whether `position` has a leading chain axis.
        shared_minibatch: draw one batch a step for all chains: much faster for many chains. The law of each
            chain is untouched, but chains are no longer independent, so errors estimated between chains are
            too small.
        progress: show a bar where tqdm is installed.
        randomness_memory: bound in bytes on the randomness drawn ahead.
        check_data: look for NaN and infinity in the data once.

    Returns:
        The draws and what they cost. An interrupt (Ctrl-C) ends the run early and returns what was sampled.

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
    """
    _check.key(key)
    _check.instance("kernel", kernel, Kernel, "ewsg_jax.kernel(…) or a named method")
    n = _check.data(data)
    data = jax.tree.map(jnp.asarray, data)
    if _check.boolean("check_data", check_data):
        _check.finite("data", data)
    _check.boolean("stacked", stacked)
    if _check.boolean("shared_minibatch", shared_minibatch) and not kernel.uses_batches:
        raise ValueError("shared_minibatch must be False for a kernel that draws no batches; got True")
    _check.boolean("progress", progress)
    _check.integer("burn_in", burn_in, minimum=0)
    _check.integer("thin", thin)
    _check.integer("randomness_memory", randomness_memory)
    _check.integer("num_chains", num_chains)
    num_steps = _steps(kernel, data, n, num_steps, data_passes)
    if num_steps < burn_in + thin:
        raise ValueError(
            f"num_steps must be at least burn_in + thin = {burn_in + thin} to keep a draw; got {num_steps}"
        )

    init_key, run_key, shared_key = jax.random.split(key, 3)
    positions, num_chains = starts(init_key, position, num_chains, stacked)
    _check.finite("position", positions)
    started = time.perf_counter()
    state = start(kernel, chain_keys(jax.random.fold_in(init_key, 1), num_chains), positions, data)
    run_keys = chain_keys(run_key, num_chains)

    at_init = kernel.evaluations(data).at_init
    block_size = choose_block_size(kernel, state, data, num_steps, randomness_memory)
    num_draws = (num_steps - burn_in) // thin
    bytes_per_draw = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state.position))
    draws_per_call = int(max(1, min(num_draws, DRAW_MEMORY // bytes_per_draw)))
    # Evaluations of one call are summed in 32 bits.
    most_steps = max(1, (2**32 - 1) // (kernel.evaluations(data).per_step + 2 * n))
    plan = Plan(jnp.int32(burn_in), jnp.int32(thin))

    def call(state: KernelState, done: int, steps: int) -> Any:
        return jax.block_until_ready(
            advance(
                kernel,
                state,
                run_keys,
                shared_key,
                data,
                plan,
                jnp.int32(done),
                jnp.int32(steps),
                block_size=block_size,
                num_slots=draws_per_call + 1,
                shared_minibatch=shared_minibatch,
            )
        )

    state, _, _ = call(state, 0, 0)  # compiles
    compiled = time.perf_counter()

    kept: list[PyTree] = []
    evaluations_at: list[np.ndarray] = []
    evaluations = np.full(num_chains, at_init, np.int64)
    acceptance = np.zeros(num_chains)
    done, steps = 0, block_size
    bar = Progress(num_steps, progress)
    with Interrupts() as interrupts:
        while True:
            room = burn_in + (max(done - burn_in, 0) // thin + draws_per_call) * thin - done
            steps = min(steps, num_steps - done, most_steps, room)
            began = time.perf_counter()
            state, slots, totals = call(state, done, steps)
            seconds = time.perf_counter() - began

            first, last = (max(s - burn_in, 0) // thin for s in (done, done + steps))
            kept.append(jax.tree.map(lambda x, k=last - first: np.array(np.asarray(x)[:k]), slots))
            made = burn_in + thin * np.arange(first + 1, last + 1) - done
            spent = np.asarray(totals.gradient_evaluations).astype(np.int64)
            evaluations_at.append(evaluations[0] + spent[0] * made // steps)
            evaluations += spent
            acceptance += np.asarray(totals.index_acceptance)
            done += steps
            bar.update(steps)
            blocks = math.floor(min(8.0, SECONDS_PER_CALL / max(seconds, 1e-9)) * steps / block_size)
            steps = max(1, blocks) * block_size
            if done == num_steps or interrupts.requested:
                break
        bar.close()

    draws = jax.tree.map(lambda *x: np.swapaxes(np.concatenate(x), 0, 1), *kept)
    finite = jax.vmap(_tree.is_finite)(state.dynamics)
    return Samples(
        position=draws,
        state=state,
        step=burn_in + thin * np.arange(1, jax.tree.leaves(draws)[0].shape[1] + 1),
        evaluations=np.concatenate(evaluations_at),
        gradient_evaluations=int(evaluations.sum()),
        num_data=n,
        num_steps=done,
        index_acceptance=acceptance / max(done, 1),
        is_finite=np.asarray(finite),
        common_start=num_chains > 1 and not stacked and not is_function(position),
        interrupted=interrupts.requested,
        compile_seconds=compiled - started,
        run_seconds=time.perf_counter() - compiled,
    )


def _steps(kernel: Kernel, data: Data, n: int, num_steps: int | None, data_passes: float | None) -> int:
    """The number of steps, from either of its two forms."""
    if (num_steps is None) == (data_passes is None):
        raise ValueError(
            f"give either num_steps or data_passes; got num_steps={num_steps!r} and data_passes={data_passes!r}"
        )
    if data_passes is None:
        return _check.integer("num_steps", num_steps)
    steps = steps_within(kernel, data, data_passes)
    if steps < 1:
        cost = kernel.evaluations(data)
        raise ValueError(
            f"data_passes must allow at least one step, of {cost.per_step} evaluations after {cost.at_init} at the "
            f"start, with n = {n}; got {data_passes}"
        )
    return steps
