"""How much the noise of batches heats a run: its variance in a step over that of the noise that is to be there.

Of h² Cov(g) against 2hT under Langevin dynamics, 2γhT under an underdamped one, whatever the kernel: the run's own
compiled program makes single steps from the last states, each on one batch at the temperature and near 0. What the
cool ones differ by is the batches', and what a pair differs by the noise's. Nothing is compiled for it.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _tree, seen
from ewsg_jax._kernel import Kernel, KernelState
from ewsg_jax._module import Constant
from ewsg_jax._types import Data, Key
from ewsg_jax.gradients import OfRows
from ewsg_jax.pair import Pair
from ewsg_jax.sampling import chunks
from ewsg_jax.sampling.interrupts import Interrupts
from ewsg_jax.sampling.keeping import Plan
from ewsg_jax.sampling.layout import Layout
from ewsg_jax.sampling.request import Chains, Wanted
from ewsg_jax.sampling.starts import chain_keys

HEATED = 0.05
"""Of the temperature: heat that is told."""
BATCHES, COARSE, FEWEST = 64, 16, 2
"""Batches of all chains together, as many as a long run has, and at least; and of each chain at least."""
LARGE = 0.5
"""Heat that fewer than `BATCHES` can tell from none."""
COOL = 1e-12
"""Of the temperature, at which there is no noise to speak of."""
USE = 2**31 - 1
"""What sets these steps' keys apart: there are no chains of this number and those below it."""
SHARE = 1 / 4
"""Of the run's steps, those whose randomness may be drawn: less than a step is."""
MOST_BYTES = 2**28
"""Of copies of the state, all together."""
MOST_CHAINS, MOST_NUMBERS, MOST_DENSE = 256, 1024, 512
"""Chains, and coordinates, evenly spaced, that are looked at; and up to which directions are, too."""


def of_run(
    chains: Chains,
    wanted: Wanted,
    layout: Layout,
    key: Key,
    plan: Plan,
    state: KernelState,
    alive: np.ndarray,
    num_steps: int,
) -> float | None:
    """Return the heat in the direction where it is largest, over the temperature; None where it is not known.

    It is measured once for a kernel, arrays of data and a length, and only where that draws a quarter of the run's
    randomness at most: a call draws that of a block. It is not known of schedules of the temperature, of noise that
    a dynamics or weights allow for, and of batches that depend on each other or on an anchor's age.

    Args:
        chains: which were asked for.
        wanted: how long.
        layout: how the run was compiled.
        key: of the run's chains.
        plan: which steps were kept.
        state: the last states.
        alive: which chains are, shape (chain,).
        num_steps: steps that the run made.
    """
    kernel = chains.kernel
    if not kernel.uses_batches:
        return 0.0
    apart = 1 if layout.shared_minibatch else len(alive)
    enough, least = (max(FEWEST, -(-count // apart)) for count in (BATCHES, COARSE))
    each = min(enough, int(SHARE * num_steps) // (2 * layout.block_size))
    is_dear = each < least or 2 * each * _tree.num_bytes(state) > MOST_BYTES
    # An accelerator's program of single steps need not be there.
    if is_dear or layout.accelerator or not alive.any():
        return None
    cool = cooled(kernel, state, chains.data)
    if cool is None or not isinstance(kernel, Pair):
        return None
    look = functools.partial(_measured, (kernel, cool), layout, key, chains.data, plan, state, alive, each)
    if chains.state is not None:
        found = look()
    else:
        question = "heat", len(alive), each, wanted.num_steps, wanted.data_passes
        found = seen.remembered(question, look, chains.data, kernel)
    return found if found is None or each == enough or found > LARGE else None


def cooled(kernel: Kernel, state: KernelState, data: Data) -> Pair | None:
    """Return the kernel near the temperature 0, None where the heat of its batches is no such ratio."""
    # Exponential weights are of no law of rows: what they leave of the noise they make up for.
    if not isinstance(kernel, Pair) or not isinstance(kernel.estimator, OfRows):
        return None
    dynamics = kernel.dynamics
    temperature = getattr(dynamics, "temperature", None)
    allows_for_it = dynamics.needs_covariance or getattr(dynamics, "covariance", None) is not None
    has_age = kernel.evaluations(data).per_refresh > 0 or not kernel.exchangeable
    if allows_for_it or has_age or dynamics.probes:
        return None
    if not isinstance(temperature, Constant) or hasattr(state.dynamics, "thermostat"):
        return None
    return dataclasses.replace(
        kernel, dynamics=dataclasses.replace(dynamics, temperature=Constant(value=COOL * temperature.value))
    )


def _measured(
    kernels: tuple[Pair, Pair],
    layout: Layout,
    key: Key,
    data: Data,
    plan: Plan,
    state: KernelState,
    alive: np.ndarray,
    each: int,
) -> float | None:
    moving, chains = jnp.asarray(alive), np.flatnonzero(alive)[:MOST_CHAINS]
    size = sum(x.size for x in jax.tree.leaves(state.position)) // len(alive)
    some = np.unique(np.linspace(0, size - 1, MOST_NUMBERS).astype(int))
    hoisted = [kernel.hoisted() for kernel in kernels]
    found = []
    with Interrupts() as interrupts:
        for number in range(each):
            # By programs that are there: the run's own, and one for whole numbers.
            parent, pair = jax.random.fold_in(key, USE - number), []
            keys, shared = chain_keys(parent, len(alive)), jax.random.fold_in(parent, USE)
            for one in hoisted:
                made = chunks.call(
                    one, layout, keys, shared, data, plan, 0, 1, _tree.copy(state), moving, counted=False
                )
                pair.append(_noisy(made.state.dynamics, len(alive))[chains][:, some])
            found.append(pair)
            if interrupts.requested:
                return None
    kind = jnp.result_type(*jax.tree.leaves(state.position))
    warm, cold = np.moveaxis(np.array(found, np.float64), 1, 0)
    ratio = largest(cold, warm - cold, 4 * float(jnp.finfo(kind).eps) * np.abs(cold).max((0, 1)))
    return None if ratio is None else ratio * float(hoisted[0].dynamics.heat_of(jnp.max(state.step)))


def _noisy(dynamics: Any, num_chains: int) -> np.ndarray:
    """Return what a step's noise goes into, shape (chain, numbers)."""
    leaves = jax.tree.leaves(getattr(dynamics, "momentum", dynamics.position))
    return np.concatenate([np.asarray(x).reshape(num_chains, -1) for x in leaves], axis=1)


def largest(batch: np.ndarray, noise: np.ndarray, least: np.ndarray | float = 0.0) -> float | None:
    """Return the largest ratio of two variances over coordinates and directions, None where there is no noise.

    Half of the values say where it is largest, and the other half how large it is there: the largest of many
    estimates would be so by chance.

    Args:
        batch: values (draw, chain, d), the mean of each chain of no meaning.
        noise: likewise.
        least: standard deviation of noise, shape (d,), below which it is rounding, and the coordinate left out.
    """
    spread = np.sqrt(np.mean(np.var(noise, axis=0, ddof=1), axis=0))
    moves = spread > least
    if not moves.any() or not (np.isfinite(batch).all() and np.isfinite(noise).all()):
        return None
    # Of the chains where there are some, else of their values.
    axis = 1 if batch.shape[1] > 1 else 0
    parts = (np.array_split(values[..., moves], 2, axis) for values in (batch, noise))
    halves = [(_off(by_batch), _off(by_noise)) for by_batch, by_noise in zip(*parts, strict=True)]
    found = []
    for look, judge in ((0, 1), (1, 0)):
        by_batch, by_noise = halves[look]
        scale = np.sqrt(np.maximum(np.mean(by_noise**2, axis=0), np.finfo(float).tiny))
        relative = by_batch / scale
        places = [np.eye(1, len(scale), int(np.argmax(np.mean(relative**2, axis=0))))[0]]
        if len(scale) <= MOST_DENSE:
            places.append(np.linalg.svd(relative, full_matrices=False)[2][0])
        along = np.stack(places, axis=1) / scale[:, None]
        of_batch, of_noise = (np.mean((rows @ along) ** 2, axis=0) for rows in halves[judge])
        found.append(of_batch / of_noise)
    return float(np.max(np.mean(found, axis=0)))


def _off(values: np.ndarray) -> np.ndarray:
    """Return values (draw, chain, d) less each chain's mean, of the right variance, one below the other."""
    count = len(values)
    return (values - values.mean(0)).reshape(-1, values.shape[2]) * np.sqrt(count / (count - 1))
