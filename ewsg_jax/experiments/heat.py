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

from ewsg_jax._kernel import Kernel, KernelState
from ewsg_jax._types import Data, Key
from ewsg_jax.diagnostics._gradient_noise import single_steps
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
    chains = jnp.arange(min(MOST_CHAINS, len(state.step)))
    affordable = MOST_EVALUATIONS // (len(chains) * kernel.evaluations(data).per_step)
    num_draws = max(FEWEST_DRAWS, min(MOST_DRAWS, affordable))
    places = jnp.arange(sum(x[0].size for x in jax.tree.leaves(state.position)))
    steps = single_steps(key, kernel, state, chains, places, data, num_draws, shares_memory(kernel, state))
    # Variances over the draws, averaged over the chains.
    by_batch, by_noise = (np.var(np.asarray(values, np.float64), axis=1).mean(axis=0) for values in steps)
    with np.errstate(all="ignore"):
        ratio = by_batch / by_noise
    excess = getattr(getattr(kernel, "dynamics", None), "position_excess", None)
    ratio = ratio if excess is None else ratio * float(excess(jnp.max(state.step)))
    if not np.isfinite(ratio).all():
        return Heat(math.nan, math.nan)
    return Heat(float(np.median(ratio)), float(np.max(ratio)))
