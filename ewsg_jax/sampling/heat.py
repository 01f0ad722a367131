"""How much the noise of batches heats a run: its variance in a step over that of the noise that is to be there.

Of h² Cov(g) against 2hT under Langevin dynamics, 2γhT under an underdamped one, whatever the kernel: the run's own
compiled program makes single steps from the last states, each on one batch at the temperature and near 0. What the
cool ones differ by is the batches', and what a pair differs by the noise's. Nothing is compiled for it.

Of epochs single steps do not tell it. Of what random batches would add a share is left there, 0.01 to 0.96 in
docs/bias.md, by the time of an epoch beside that in which a direction of the posterior is forgotten: a step's noise
knows neither that time nor the batches before. All of it would be a bound, a false alarm where epochs are short;
and a whole run of the cool kernel would have to last until it has forgotten where it began, which is not known.
"""

import dataclasses
import functools
from collections.abc import Callable
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
from ewsg_jax.sampling import chunks, over_devices
from ewsg_jax.sampling.clock import on_host
from ewsg_jax.sampling.interrupts import Interrupts
from ewsg_jax.sampling.keeping import Plan
from ewsg_jax.sampling.layout import Layout
from ewsg_jax.sampling.ratios import largest
from ewsg_jax.sampling.request import Chains, Wanted
from ewsg_jax.sampling.spaced import evenly
from ewsg_jax.sampling.starts import chain_keys
from ewsg_jax.stacking.kernels import Stack, StackState

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
MOST_CHAINS, MOST_NUMBERS = 256, 1024
"""Chains, and coordinates, evenly spaced, that are looked at."""


def of_run(
    chains: Chains,
    wanted: Wanted,
    layout: Layout,
    key: Key,
    plan: Plan,
    state: KernelState,
    alive: np.ndarray,
    num_steps: int,
) -> Any:
    """Return the heat in the direction where it is largest, over the temperature; None where it is not known.

    Of a stack it is that of each member, shape (member,), NaN where it is not known.

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
    kernel, is_stack, moves = chains.kernel, isinstance(chains.kernel, Stack), alive[:, None]
    if is_stack:
        moves = moves & (on_host(state.dynamics.diverged_at) < 0)
    count, size = moves.shape
    apart = 1 if layout.shared_minibatch else count
    enough, least = (max(FEWEST, -(-batches // apart)) for batches in (BATCHES, COARSE))
    each = min(enough, int(SHARE * num_steps) // (2 * layout.block_size))
    is_dear = each < least or 2 * each * _tree.num_bytes(state) > MOST_BYTES * size
    call, rows = chunks.call, chains.data
    if chains.devices is not None:
        call, rows = functools.partial(over_devices.call, chains.devices), chains.placed
    # An accelerator's program of single steps need not be there.
    unknown = is_dear or layout.accelerator or not moves.any()
    found: list[float | None] = [None] * size
    if not kernel.uses_batches:
        found = [0.0] * size
    elif not unknown and (cool := cooled(kernel, state, chains.data)) is not None:
        look = functools.partial(_measured, (kernel, cool), call, layout, key, rows, plan, state, moves, each)
        question = "heat", chains.devices, moves.shape, each, wanted.num_steps, wanted.data_passes
        goes_on = chains.state is not None
        told = look() if goes_on else seen.remembered(question, look, chains.data, kernel)
        found = [None if one is None or (each < enough and one <= LARGE) else one for one in told]
    return np.array([np.nan if one is None else one for one in found]) if is_stack else found[0]


def cooled(kernel: Kernel, state: KernelState, data: Data) -> Pair | Stack | None:
    """Return the kernel near the temperature 0, None where the heat of its batches is no such ratio."""
    if isinstance(kernel, Stack):
        # Members are alike but for their numbers.
        one = _cooled(kernel.kernel, state.dynamics.rest, data)
        return None if one is None else dataclasses.replace(kernel, kernel=one)
    return _cooled(kernel, state.dynamics, data)


def _cooled(kernel: Kernel, own: Any, data: Data) -> Pair | None:
    # Exponential weights are of no law of rows: what they leave of the noise they make up for.
    if not isinstance(kernel, Pair) or not isinstance(kernel.estimator, OfRows):
        return None
    dynamics = kernel.dynamics
    temperature = getattr(dynamics, "temperature", None)
    allows_for_it = dynamics.needs_covariance or getattr(dynamics, "covariance", None) is not None
    has_age = kernel.evaluations(data).per_refresh > 0 or not kernel.exchangeable
    if allows_for_it or has_age or dynamics.probes:
        return None
    if not isinstance(temperature, Constant) or hasattr(own, "thermostat"):
        return None
    return dataclasses.replace(
        kernel, dynamics=dataclasses.replace(dynamics, temperature=Constant(value=COOL * temperature.value))
    )


def _measured(
    kernels: tuple[Kernel, Kernel],
    call: Callable[..., chunks.Call],
    layout: Layout,
    key: Key,
    data: Data,
    plan: Plan,
    state: KernelState,
    moves: np.ndarray,
    each: int,
) -> list[float | None]:
    """Return the heat of each member, None where no chain of it moves or there is no noise."""
    count, size = moves.shape
    length = sum(x.size for x in jax.tree.leaves(state.position)) // moves.size
    some = evenly(length, MOST_NUMBERS)
    looked_at = [np.flatnonzero(moves[:, member])[:MOST_CHAINS] for member in range(size)]
    moving, found = jnp.asarray(moves.any(axis=1)), [[] for _ in range(size)]
    hoisted = [kernel.hoisted() for kernel in kernels]
    with Interrupts() as interrupts:
        for number in range(each):
            # By programs that are there: the run's own, and one for whole numbers.
            parent, pair = jax.random.fold_in(key, USE - number), []
            keys, shared = chain_keys(parent, count), jax.random.fold_in(parent, USE)
            for one in hoisted:
                made = call(one, layout, keys, shared, data, plan, 0, 1, _tree.copy(state), moving, counted=False)
                pair.append(_noisy(made.state.dynamics, moves.shape))
            for member, those in enumerate(looked_at):
                found[member].append([values[those, member][:, some] for values in pair])
            if interrupts.requested:
                return [None] * size
    step, kind = jnp.max(on_host(state.step)), jnp.result_type(*jax.tree.leaves(state.position))
    told: list[float | None] = []
    for member, (those, values) in enumerate(zip(looked_at, found, strict=True)):
        warm, cold = np.moveaxis(np.array(values, np.float64), 1, 0)
        rounding = 4 * float(jnp.finfo(kind).eps)
        ratio = largest(cold, warm - cold, rounding * np.abs(cold).max((0, 1))) if those.size else None
        one: Any = hoisted[0][member] if isinstance(hoisted[0], Stack) else hoisted[0]
        told.append(None if ratio is None else ratio * float(one.dynamics.heat_of(step)))
    return told


def _noisy(dynamics: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a step's noise goes into, shape (chain, member, numbers)."""
    own = dynamics.rest if isinstance(dynamics, StackState) else dynamics
    leaves = jax.tree.leaves(getattr(own, "momentum", dynamics.position))
    return np.concatenate([x.reshape(*shape, -1) for x in on_host(leaves)], axis=2)
