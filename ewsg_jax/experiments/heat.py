"""Minibatch heat: the noise that the batches add to a step, in units of the noise that the step is to have.

A dynamics at temperature T adds noise of a variance in proportion to T. A minibatch adds its own: h·Cov(g)/(2γ)
times T for underdamped dynamics, h·Cov(g)/2 for Langevin. It is measured on the kernel itself, by drawing
batches at fixed noise and noise at a fixed batch, so it holds for any method. Far below 1, the draws are of
the posterior, a little too warm; above 1, of the minibatch's noise.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _tree
from ewsg_jax._kernel import Kernel, KernelState, Randomness
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.pair import Pair
from ewsg_jax.sampling.starts import shares_memory

MOST_CHAINS = 8
MOST_DRAWS, FEWEST_DRAWS = 256, 32
"""Batches, and noises, drawn at each state: 256 × 8 give a variance to about 3 %, 32 × 8 to 9 %."""
MOST_EVALUATIONS = 20_000_000


class Heat(NamedTuple):
    """The minibatch's noise variance over the intended one, over coordinates of the position."""

    median: float
    largest: float


def measure(key: Key, kernel: Kernel, state: KernelState, data: Data) -> Heat:
    """Measure the heat at the states of up to eight chains.

    Args:
        key: a typed PRNG key.
        kernel: the kernel.
        state: states with a leading chain axis, such as the last ones of a run.
        data: the rows.
    """
    if not kernel.uses_batches:
        return Heat(0.0, 0.0)
    keys = jax.random.split(key, min(MOST_CHAINS, len(state.step)))
    affordable = MOST_EVALUATIONS // (len(keys) * kernel.evaluations(data).per_step)
    num_draws = max(FEWEST_DRAWS, min(MOST_DRAWS, affordable))
    measured = jax.jit(_variances, static_argnums=(1, 4, 5))
    by_batch, by_noise = measured(keys, kernel, state, data, num_draws, shares_memory(kernel, state))
    ratio = np.asarray(by_batch / by_noise, np.float64)
    if isinstance(kernel, Pair):
        ratio = ratio * float(kernel.dynamics.heat_of(jnp.max(state.step)))
    if not np.isfinite(ratio).all():
        return Heat(math.nan, math.nan)
    return Heat(float(np.median(ratio)), float(np.max(ratio)))


def _variances(
    keys: Array, kernel: Kernel, states: KernelState, data: Data, num_draws: int, shared_memory: bool
) -> tuple[Array, Array]:
    """Variances of the noisy coordinates over batches and over noises, averaged over the chains."""

    def noisy(state: KernelState) -> Array:
        part: PyTree = getattr(state.dynamics, "momentum", state.position)
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(part)])

    def of_chain(pair: tuple[Key, Array]) -> tuple[Array, Array]:
        key, chain = pair
        memory = states.memory if shared_memory else _tree.take(states.memory, chain)
        state = states._replace(dynamics=_tree.take(states.dynamics, chain), memory=memory)
        fixed = kernel.draw(key, state, data)

        def moved(key: Key) -> tuple[Array, Array]:
            drawn = kernel.draw(key, state, data)
            by_batch, _ = kernel.transition(Randomness(drawn.batch, fixed.noise), state, data)
            by_noise, _ = kernel.transition(Randomness(fixed.batch, drawn.noise), state, data)
            return noisy(by_batch), noisy(by_noise)

        # One at a time: a batch of rows for each draw at once would not fit.
        values = jax.lax.map(moved, jax.random.split(jax.random.fold_in(key, 1), num_draws))
        return jax.tree.map(lambda x: jnp.var(x, axis=0), values)

    by_batch, by_noise = jax.lax.map(of_chain, (keys, jnp.arange(len(keys))))
    return jnp.mean(by_batch, axis=0), jnp.mean(by_noise, axis=0)
